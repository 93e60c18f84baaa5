/*
 * act_avx2.c - activations to 8 bits, in every order, in AVX2.
 *
 * A group of 16 is two registers, wherever its columns come from: orders move quads, so a
 * block is first copied to its positions, 16 bytes at a time; act_units.h does the rest.
 */
#include "kernel/act_units.h"
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

static ALWAYS_INLINE __m256i magnitude(const float *x)
{
    return _mm256_and_si256(load256(x), _mm256_set1_epi32(0x7fffffff));
}

/* The largest of 8 magnitudes as integers, so that a NaN is the largest. */
static ALWAYS_INLINE float largest(__m256i m)
{
    __m128i v =
        _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));

    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(v));
}

static ALWAYS_INLINE int sum_lanes(__m256i v)
{
    __m128i s =
        _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

/* 16 codes of q to the order of kq_act.p: 4 of each plane, m / 4 bytes apart. */
static ALWAYS_INLINE void store_planes(int8_t *p, int64_t plane, __m128i q)
{
    const __m128i quads =
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    int32_t v[4];

    store128(v, _mm_shuffle_epi8(q, quads));
    for (int k = 0; k < 4; k++)
        memcpy(p + k * plane, &v[k], sizeof v[k]);
}

/* Group g of token t from the 16 values of x; gives its factor and codes. */
static ALWAYS_INLINE __m128i quantise(const struct kq_act *a, int64_t t, int64_t g,
                                      const float *x, const struct act_scale *by,
                                      int16_t *e)
{
    int64_t at = t * a->n + g * KQ_GROUP;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g;
    __m256i lo = _mm256_setzero_si256(), hi = lo;
    int factor = 1;

    if (!by->empty) {
        float top = largest(_mm256_max_epi32(magnitude(x), magnitude(x + 8)));
        factor += (int)(top * by->part);
        factor = factor > KQ_MAX_E ? KQ_MAX_E : factor;
        __m256 inv = _mm256_set1_ps(1.0f / (by->d * (float)factor));
        lo = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inv));
        hi = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inv));
    }
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words),
                                    _mm256_extracti128_si256(words, 1));
    int total = factor * sum_lanes(_mm256_add_epi32(lo, hi));
    store128(a->q + at, bytes);
    store128(a->e + at / 2, _mm_set1_epi16((int16_t)factor));
    sum[1] = (int32_t)((uint32_t)sum[0] + (uint32_t)total);
    a->s[at / KQ_GROUP] = (float)total;
    *e = (int16_t)factor;
    return bytes;
}

static void quantise_flat(const struct kq_act *a, int64_t t, const float *x,
                          const struct act_scale *by)
{
    int64_t n = a->n;
    int16_t *ep = a->ep + t * n / 8;

    for (int64_t g = 0; g < n / KQ_GROUP; g++) {
        int64_t c = g * KQ_GROUP, first = c / KQ_PLANE * KQ_PLANE;
        int64_t width = n - first < KQ_PLANE ? n - first : KQ_PLANE;
        int16_t e;
        __m128i bytes = quantise(a, t, g, x + c, by, &e);
        store_planes(a->p + t * n + first + (c - first) / 4, width / 4, bytes);
        ep[2 * g] = ep[2 * g + 1] = e;
    }
}

/* The same as act_place_row() wants it. */
static ALWAYS_INLINE void group(const struct kq_act *a, int64_t t, int64_t g,
                                const float *x, const struct act_scale *by, int16_t *e)
{
    quantise(a, t, g, x, by, e);
}

void kernel_act_quant_avx2(const struct kq_act *a, int64_t t, const float *x)
{
    __m256i m = _mm256_setzero_si256();

    for (int64_t i = 0; i < a->n; i += 8)
        m = _mm256_max_epi32(m, magnitude(x + i));
    struct act_scale by = act_scale_row(a, t, largest(m));
    if (a->order == KQ_FLAT)
        quantise_flat(a, t, x, &by);
    else
        act_place_row(a, t, x, &by, group);
}
