/*
 * act_avx2.c - activations to 8 bits, in every order, in AVX2.
 *
 * A group of 16 is two registers, wherever its columns come from: orders move quads, each
 * half a register; act_units.h does the rest. Eight groups together need one division, and
 * no sum across a register of their own.
 */
#include "kernel/act_units.h"
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

static ALWAYS_INLINE __m256i magnitude(__m256 x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

/* Two quads, wherever they are. */
static ALWAYS_INLINE __m256 quads(const float *x, const uint8_t *quad)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + 4 * quad[0])),
                                _mm_loadu_ps(x + 4 * quad[1]), 1);
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

/* The same for each of m[0], m[1], ... m[7], whose lanes are the largest's bits. */
static ALWAYS_INLINE __m256i largest_each(const __m256i *m)
{
    __m256i two[4], four[2];

    for (int i = 0; i < 4; i++)
        two[i] = _mm256_max_epi32(_mm256_unpacklo_epi32(m[2 * i], m[2 * i + 1]),
                                  _mm256_unpackhi_epi32(m[2 * i], m[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        four[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(two[2 * i], two[2 * i + 1]),
                                   _mm256_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
    return _mm256_max_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
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
    const __m128i order =
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    int32_t v[4];

    store128(v, _mm_shuffle_epi8(q, order));
    for (int k = 0; k < 4; k++)
        memcpy(p + k * plane, &v[k], sizeof v[k]);
}

/* Group g of token t from its values; gives its factor. */
static ALWAYS_INLINE void quantise(const struct kq_act *a, int64_t t, int64_t g,
                                   __m256 low, __m256 high, const struct act_scale *by,
                                   int16_t *e)
{
    int64_t at = t * a->n + g * KQ_GROUP;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g;
    __m256i lo = _mm256_setzero_si256(), hi = lo;
    int factor = 1;

    if (!by->empty) {
        float top = largest(_mm256_max_epi32(magnitude(low), magnitude(high)));
        factor += (int)(top * by->part);
        factor = factor > KQ_MAX_E ? KQ_MAX_E : factor;
        __m256 inv = _mm256_set1_ps(1.0f / (by->d * (float)factor));
        lo = _mm256_cvtps_epi32(_mm256_mul_ps(low, inv));
        hi = _mm256_cvtps_epi32(_mm256_mul_ps(high, inv));
    }
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
    int total = factor * sum_lanes(_mm256_add_epi32(lo, hi));
    store128(a->q + at, _mm_packs_epi16(_mm256_castsi256_si128(words),
                                        _mm256_extracti128_si256(words, 1)));
    store128(a->e + at / 2, _mm_set1_epi16((int16_t)factor));
    sum[1] = (int32_t)((uint32_t)sum[0] + (uint32_t)total);
    a->s[at / KQ_GROUP] = (float)total;
    *e = (int16_t)factor;
}

/* The codes of two groups, each times its own inverse; total: sums of pairs of each. */
static ALWAYS_INLINE __m256i round_two(const float *x, const uint8_t *quad,
                                       const float *inv, __m256i *total)
{
    __m256i words[2];

    for (int i = 0; i < 2; i++, quad += 4) {
        __m256 by = _mm256_broadcast_ss(inv + i);
        words[i] = _mm256_packs_epi32(
            _mm256_cvtps_epi32(_mm256_mul_ps(quads(x, quad), by)),
            _mm256_cvtps_epi32(_mm256_mul_ps(quads(x, quad + 2), by)));
        total[i] = _mm256_madd_epi16(words[i], _mm256_set1_epi16(1));
    }
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words[0], words[1]),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* quantise() of groups [g, g + 8) of a row that is not empty. */
static ALWAYS_INLINE void quantise_eight(const struct kq_act *a, int64_t t, int64_t g,
                                         const float *x, const uint8_t *quad,
                                         const struct act_scale *by, int16_t *e)
{
    int64_t at = t * a->n + g * KQ_GROUP;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g, add[8];
    __m256i v[8];
    float inv[8];

    for (int i = 0; i < 8; i++)
        v[i] = _mm256_max_epi32(magnitude(quads(x, quad + 4 * i)),
                                magnitude(quads(x, quad + 4 * i + 2)));
    __m256 part =
        _mm256_mul_ps(_mm256_castsi256_ps(largest_each(v)), _mm256_set1_ps(by->part));
    __m256i factor = _mm256_add_epi32(_mm256_cvttps_epi32(part), _mm256_set1_epi32(1));
    factor = _mm256_min_epi32(factor, _mm256_set1_epi32(KQ_MAX_E));
    _mm256_storeu_ps(inv, _mm256_div_ps(_mm256_set1_ps(1.0f),
                                        _mm256_mul_ps(_mm256_set1_ps(by->d),
                                                      _mm256_cvtepi32_ps(factor))));
    for (int i = 0; i < 8; i += 2)
        store256(a->q + at + 16 * i, round_two(x, quad + 4 * i, inv + i, v + i));
    __m256i total = _mm256_mullo_epi32(factor, sum_each(v));
    store128(e, _mm_packs_epi32(_mm256_castsi256_si128(factor),
                                _mm256_extracti128_si256(factor, 1)));
    for (int i = 0; i < 8; i++)
        store128(a->e + at / 2 + 8 * i, _mm_set1_epi16(e[i]));
    _mm256_storeu_ps(a->s + at / KQ_GROUP, _mm256_cvtepi32_ps(total));
    store256(add, total);
    for (int i = 0; i < 8; i++)
        sum[i + 1] = (int32_t)((uint32_t)sum[i] + (uint32_t)add[i]);
}

/* Groups as act_place_row() wants them. */
static inline void groups(const struct kq_act *a, int64_t t, int64_t g, int64_t n,
                          const float *x, const uint8_t *quad,
                          const struct act_scale *by, int16_t *e)
{
    int64_t i = 0;

    for (; !by->empty && i + 8 <= n; i += 8)
        quantise_eight(a, t, g + i, x, quad + 4 * i, by, e + i);
    for (; i < n; i++)
        quantise(a, t, g + i, quads(x, quad + 4 * i), quads(x, quad + 4 * i + 2), by,
                 e + i);
}

static void quantise_flat(const struct kq_act *a, int64_t t, const float *x,
                          const struct act_scale *by)
{
    int64_t n = a->n;
    int16_t *ep = a->ep + t * n / 8, e[KQ_PLANE / KQ_GROUP];
    uint8_t quad[KQ_PLANE / 4];

    for (int u = 0; u < KQ_PLANE / 4; u++)
        quad[u] = (uint8_t)u;
    for (int64_t c = 0; c < n; c += KQ_PLANE) {
        int64_t width = n - c < KQ_PLANE ? n - c : KQ_PLANE;
        const int8_t *q = a->q + t * n + c;
        int8_t *p = a->p + t * n + c;
        groups(a, t, c / KQ_GROUP, width / KQ_GROUP, x + c, quad, by, e);
        for (int64_t g = 0; g < width / KQ_GROUP; g++) {
            store_planes(p + 4 * g, width / 4, load128(q + g * KQ_GROUP));
            ep[c / 8 + 2 * g] = ep[c / 8 + 2 * g + 1] = e[g];
        }
    }
}

void kernel_act_quant_avx2(const struct kq_act *a, int64_t t, const float *x)
{
    __m256i m = _mm256_setzero_si256();

    for (int64_t i = 0; i < a->n; i += 8)
        m = _mm256_max_epi32(m, magnitude(_mm256_loadu_ps(x + i)));
    struct act_scale by = act_scale_row(a, t, largest(m));
    if (a->order == KQ_FLAT)
        quantise_flat(a, t, x, &by);
    else
        act_place_row(a, t, x, &by, groups);
}
