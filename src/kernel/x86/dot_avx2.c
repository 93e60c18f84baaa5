/*
 * dot_avx2.c - codes to F32, and the dot product in F32, in AVX2.
 *
 * Same bits as ref/dot_ref.c: the lanes of the contract are the lanes of the registers,
 * and integer sums are exact. A dot product alone is bound by the latency of its additions
 * and the loads of its inputs, so several rows and tokens advance together.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

enum {
    MAX_BLOCK = 4, /* rows or tokens of fdot that advance together */
};

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
