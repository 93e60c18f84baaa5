/*
 * dot_avx512vnni.c - the dot product in F32, in AVX-512.
 *
 * The lanes of an element are one register: sixteen elements and their inputs fit the
 * thirty-two there are. Same bits as ref/dot_ref.c.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

enum { MAX_ROWS = 8, MAX_TOKENS = 4 };

/* Rows r.. of w times rows t.. of x, n_r by n_t elements, constants of the caller. */
static ALWAYS_INLINE void fdot_block(float *y, int64_t y_step, const struct kf_mat *w,
                                     int64_t r, int n_r, const struct kf_mat *x,
                                     int64_t t, int n_t, int64_t n)
{
    __m512 acc[MAX_ROWS][MAX_TOKENS];
    const float *wp = w->v + r * w->step, *xp = x->v + t * x->step;

    for (int i = 0; i < n_r; i++)
        for (int j = 0; j < n_t; j++)
            acc[i][j] = _mm512_setzero_ps();
    for (int64_t c = 0; c < n; c += KF_LANES) { /* +0 beyond the end */
        __mmask16 mask = (__mmask16)(n - c >= KF_LANES ? 0xffff : (1 << (n - c)) - 1);
        __m512 xv[MAX_TOKENS];
        for (int j = 0; j < n_t; j++)
            xv[j] = _mm512_maskz_loadu_ps(mask, xp + j * x->step + c);
        for (int i = 0; i < n_r; i++) {
            __m512 wv = _mm512_maskz_loadu_ps(mask, wp + i * w->step + c);
            for (int j = 0; j < n_t; j++)
                acc[i][j] = _mm512_add_ps(acc[i][j], _mm512_mul_ps(wv, xv[j]));
        }
    }
    for (int i = 0; i < n_r; i++)
        for (int j = 0; j < n_t; j++)
            y[(t + j) * y_step + r + i] =
                fold8(_mm256_add_ps(_mm512_castps512_ps256(acc[i][j]),
                                    _mm512_extractf32x8_ps(acc[i][j], 1)));
}

void kernel_fdot_avx512vnni(float *y, int64_t y_step, const struct kf_mat *w,
                            const struct kf_mat *x, int64_t n)
{
    int64_t r = 0;

    for (; r + 4 <= w->rows && x->rows >= 2; r += 4) {
        int64_t t = 0;
        for (; t + 4 <= x->rows; t += 4)
            fdot_block(y, y_step, w, r, 4, x, t, 4, n);
        for (; t + 2 <= x->rows; t += 2)
            fdot_block(y, y_step, w, r, 4, x, t, 2, n);
        if (t < x->rows)
            fdot_block(y, y_step, w, r, 4, x, t, 1, n);
    }
    for (; r + 8 <= w->rows; r += 8)
        for (int64_t t = 0; t < x->rows; t++)
            fdot_block(y, y_step, w, r, 8, x, t, 1, n);
    for (; r < w->rows; r++)
        for (int64_t t = 0; t < x->rows; t++)
            fdot_block(y, y_step, w, r, 1, x, t, 1, n);
}
