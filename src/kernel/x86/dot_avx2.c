/*
 * dot_avx2.c - quantising activations, and the two dot products, in AVX2.
 *
 * Same bits as ref/dot_ref.c: the lanes of the contract are the lanes of the registers,
 * and integer sums are exact. A dot product alone is bound by the latency of its additions
 * and the loads of its inputs, so several rows and tokens advance together.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

#include <math.h>
#include <string.h>

enum { MAX_BLOCK = 4 }; /* rows or tokens that advance together */

void kernel_act_quant_avx2(int8_t *q, float *d, float *s, const float *x, int64_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);

    for (int64_t g = 0; g < n / KQ_GROUP; g++, q += KQ_GROUP, x += KQ_GROUP) {
        __m256 lo = _mm256_loadu_ps(x), hi = _mm256_loadu_ps(x + 8);
        __m256i m =
            _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(lo), magnitude),
                             _mm256_and_si256(_mm256_castps_si256(hi), magnitude));
        __m128i m4 =
            _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
        m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0x4e));
        m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0xb1));
        float max = _mm_cvtss_f32(_mm_castsi128_ps(m4));
        if (!(max >= 0x1p-100f) || isinf(max)) {
            memset(q, 0, KQ_GROUP);
            d[g] = s[g] = max < 0x1p-100f ? 0.0f : NAN;
            continue;
        }
        __m256 inv = _mm256_set1_ps(127.0f / max);
        __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(lo, inv));
        __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(hi, inv));
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
        store128(q, _mm_packs_epi16(_mm256_castsi256_si128(words),
                                    _mm256_extracti128_si256(words, 1)));
        __m256i sum = _mm256_add_epi32(a, b);
        __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(sum),
                                   _mm256_extracti128_si256(sum, 1));
        s4 = _mm_add_epi32(s4, _mm_shuffle_epi32(s4, 0x4e));
        s4 = _mm_add_epi32(s4, _mm_shuffle_epi32(s4, 0xb1));
        d[g] = max / 127.0f;
        s[g] = d[g] * (float)_mm_cvtsi128_si32(s4);
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

/* Two scales p[0], p[1] to lanes 0-3 and 4-7. */
static ALWAYS_INLINE __m256 spread_pair(const float *p)
{
    double pair;

    memcpy(&pair, p, sizeof pair);
    return _mm256_permutevar_ps(_mm256_castpd_ps(_mm256_set1_pd(pair)),
                                _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

/* sum of min * s, LANES of 8 over n_groups (even). */
static ALWAYS_INLINE float dot_min(const float *min, const float *s, int64_t n_groups)
{
    __m256 acc = _mm256_setzero_ps();
    int64_t g = 0;

    for (; g + 8 <= n_groups; g += 8)
        acc = _mm256_add_ps(
            acc, _mm256_mul_ps(_mm256_loadu_ps(min + g), _mm256_loadu_ps(s + g)));
    if (g < n_groups) { /* +0 to the other lanes changes nothing */
        __m256i mask = first_lanes(n_groups - g);
        acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_maskload_ps(min + g, mask),
                                               _mm256_maskload_ps(s + g, mask)));
    }
    return fold8(acc);
}

/* Rows r.. of w times rows t.. of x: n_r by n_t elements, constants of the caller. */
static ALWAYS_INLINE void qdot_block(float *y, int64_t y_step, const struct kq_mat *w,
                                     int64_t r, int n_r, const struct kq_act *x,
                                     int64_t t, int n_t, int64_t n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 acc[MAX_BLOCK][MAX_BLOCK];
    const int8_t *code = w->code + r * w->code_step, *q = x->q + t * x->q_step;
    const float *scale = w->scale + r * w->group_step, *d = x->d + t * x->group_step;

    for (int i = 0; i < n_r; i++)
        for (int j = 0; j < n_t; j++)
            acc[i][j] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / KQ_STEP; b++) {
        __m256i qv[MAX_BLOCK];
        __m256 dv[MAX_BLOCK];
        for (int j = 0; j < n_t; j++) {
            qv[j] = load256(q + j * x->q_step + b * KQ_STEP);
            dv[j] = spread_pair(d + j * x->group_step + 2 * b);
        }
        for (int i = 0; i < n_r; i++) {
            __m256i wv = load256(code + i * w->code_step + b * KQ_STEP);
            __m256i wabs = _mm256_abs_epi8(wv);
            __m256 sv = spread_pair(scale + i * w->group_step + 2 * b);
            for (int j = 0; j < n_t; j++) {
                /* |w| * (q with w's sign): pairs stay below 2 * 128 * 127 < 2^15. */
                __m256i p = _mm256_maddubs_epi16(wabs, _mm256_sign_epi8(qv[j], wv));
                __m256 sum = _mm256_cvtepi32_ps(_mm256_madd_epi16(p, ones));
                __m256 sd = _mm256_mul_ps(sv, dv[j]);
                acc[i][j] = _mm256_add_ps(acc[i][j], _mm256_mul_ps(sd, sum));
            }
        }
    }
    for (int i = 0; i < n_r; i++) {
        for (int j = 0; j < n_t; j++) {
            float v = fold8(acc[i][j]);
            if (w->min)
                v -= dot_min(w->min + (r + i) * w->group_step,
                             x->s + (t + j) * x->group_step, n / KQ_GROUP);
            y[(t + j) * y_step + r + i] = v;
        }
    }
}

void kernel_qdot_avx2(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x, int64_t n)
{
    int64_t r = 0;

    for (; r + 2 <= w->rows && x->rows >= 2; r += 2) {
        int64_t t = 0;
        for (; t + 4 <= x->rows; t += 4)
            qdot_block(y, y_step, w, r, 2, x, t, 4, n);
        for (; t < x->rows; t++)
            qdot_block(y, y_step, w, r, 2, x, t, 1, n);
    }
    for (; r + 4 <= w->rows; r += 4)
        for (int64_t t = 0; t < x->rows; t++)
            qdot_block(y, y_step, w, r, 4, x, t, 1, n);
    for (; r < w->rows; r++)
        for (int64_t t = 0; t < x->rows; t++)
            qdot_block(y, y_step, w, r, 1, x, t, 1, n);
}

/* As qdot_block in F32: lanes 0-7 and 8-15 of an element are two registers. */
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
