/*
 * dot_avx2.c - quantising activations, and the dot product in F32, in AVX2.
 *
 * Same bits as ref/dot_ref.c: the lanes of the contract are the lanes of the registers,
 * and integer sums are exact. A dot product alone is bound by the latency of its additions
 * and the loads of its inputs, so several rows and tokens advance together.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

#include <math.h>
#include <string.h>

enum {
    MAX_BLOCK = 4, /* rows or tokens of fdot that advance together */
};

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

void kernel_act_quant_avx2(const struct kq_act *a, int64_t t, const float *x)
{
    int64_t n = a->n;
    int8_t *q = a->q + t * n, *p = a->p + t * n;
    int16_t *e = a->e + t * n / 2, *ep = a->ep + t * n / 8;
    int32_t *sum = a->sum + t * (n / KQ_GROUP + 1);
    float *s = a->s + t * n / KQ_GROUP;
    __m256i m = _mm256_setzero_si256();

    for (int64_t i = 0; i < n; i += 8)
        m = _mm256_max_epi32(m, magnitude(x + i));
    float max = largest(m), d = max / (127.0f * KQ_MAX_E), part = KQ_MAX_E / max;
    bool empty = !(max >= 0x1p-100f) || isinf(max);
    a->d[t] = !empty ? d : max < 0x1p-100f ? 0.0f : NAN;
    sum[0] = 0;
    for (int64_t g = 0; g < n / KQ_GROUP; g++, x += KQ_GROUP) {
        int64_t c = g * KQ_GROUP, first = c / KQ_PLANE * KQ_PLANE;
        int64_t width = n - first < KQ_PLANE ? n - first : KQ_PLANE;
        __m256i lo = _mm256_setzero_si256(), hi = lo;
        int factor = 1;
        if (!empty) {
            float top = largest(_mm256_max_epi32(magnitude(x), magnitude(x + 8)));
            factor += (int)(top * part);
            factor = factor > KQ_MAX_E ? KQ_MAX_E : factor;
            __m256 inv = _mm256_set1_ps(1.0f / (d * (float)factor));
            lo = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inv));
            hi = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inv));
        }
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
        __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words),
                                        _mm256_extracti128_si256(words, 1));
        int total = factor * sum_lanes(_mm256_add_epi32(lo, hi));
        store128(q + c, bytes);
        store_planes(p + first + (c - first) / 4, width / 4, bytes);
        store128(e + c / 2, _mm_set1_epi16((int16_t)factor));
        ep[2 * g] = ep[2 * g + 1] = (int16_t)factor;
        sum[g + 1] = (int32_t)((uint32_t)sum[g] + (uint32_t)total);
        s[g] = (float)total;
    }
}

void kernel_dequant_avx2(float *dst, const int8_t *code, const float *scale,
                         const float *min, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        int64_t g = i / KQ_GROUP;
        __m128i c = _mm_loadl_epi64((const __m128i *)(code + i));
        __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c));
        v = _mm256_mul_ps(_mm256_set1_ps(scale[g]), v);
        if (min)
            v = _mm256_sub_ps(v, _mm256_set1_ps(min[g]));
        _mm256_storeu_ps(dst + i, v);
    }
}

/* Rows r.. of w times rows t.. of x, n_r by n_t elements, constants of the caller: lanes 0-7 and 8-15 of an element are two registers. */
static ALWAYS_INLINE void fdot_block(float *y, int64_t y_step, const struct kf_mat *w,
                                     int64_t r, int n_r, const struct kf_mat *x,
                                     int64_t t, int n_t, int64_t n)
{
    __m256 acc[MAX_BLOCK][MAX_BLOCK][2];
    const float *wp = w->v + r * w->step, *xp = x->v + t * x->step;
    int64_t c = 0;

    for (int i = 0; i < n_r; i++)
        for (int j = 0; j < n_t; j++)
            acc[i][j][0] = acc[i][j][1] = _mm256_setzero_ps();
    for (; c + KF_LANES <= n; c += KF_LANES) {
        for (int half = 0; half < 2; half++) {
            __m256 xv[MAX_BLOCK];
            for (int j = 0; j < n_t; j++)
                xv[j] = _mm256_loadu_ps(xp + j * x->step + c + 8 * half);
            for (int i = 0; i < n_r; i++) {
                __m256 wv = _mm256_loadu_ps(wp + i * w->step + c + 8 * half);
                for (int j = 0; j < n_t; j++)
                    acc[i][j][half] =
                        _mm256_add_ps(acc[i][j][half], _mm256_mul_ps(wv, xv[j]));
            }
        }
    }
    for (int half = 0; half < 2 && c < n; half++, c += 8) { /* +0 beyond the end */
        __m256i mask = first_lanes(n - c < 8 ? n - c : 8);
        for (int i = 0; i < n_r; i++) {
            __m256 wv = _mm256_maskload_ps(wp + i * w->step + c, mask);
            for (int j = 0; j < n_t; j++) {
                __m256 xv = _mm256_maskload_ps(xp + j * x->step + c, mask);
                acc[i][j][half] = _mm256_add_ps(acc[i][j][half], _mm256_mul_ps(wv, xv));
            }
        }
    }
    for (int i = 0; i < n_r; i++)
        for (int j = 0; j < n_t; j++)
            y[(t + j) * y_step + r + i] =
                fold8(_mm256_add_ps(acc[i][j][0], acc[i][j][1]));
}

void kernel_fdot_avx2(float *y, int64_t y_step, const struct kf_mat *w,
                      const struct kf_mat *x, int64_t n)
{
    int64_t r = 0;

    for (; r + 2 <= w->rows && x->rows >= 2; r += 2) {
        int64_t t = 0;
        for (; t + 3 <= x->rows; t += 3)
            fdot_block(y, y_step, w, r, 2, x, t, 3, n);
        for (; t < x->rows; t++)
            fdot_block(y, y_step, w, r, 2, x, t, 1, n);
    }
    for (; r + 4 <= w->rows; r += 4)
        for (int64_t t = 0; t < x->rows; t++)
            fdot_block(y, y_step, w, r, 4, x, t, 1, n);
    for (; r < w->rows; r++)
        for (int64_t t = 0; t < x->rows; t++)
            fdot_block(y, y_step, w, r, 1, x, t, 1, n);
}
