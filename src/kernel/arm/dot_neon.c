/*
 * dot_neon.c - codes to F32, and the two dot products, in baseline NEON.
 *
 * Same bits as ref/dot_ref.c.
 */
#include "kernel/variants.h"

#include <arm_neon.h>

/* Two products in 16 bits: 2 * 128 * 127 < 2^15. */
static inline int32x4_t dot16(int8x16_t w, int8x16_t q)
{
    int16x8_t p = vmull_s8(vget_low_s8(w), vget_low_s8(q));

    return vpaddlq_s16(vmlal_s8(p, vget_high_s8(w), vget_high_s8(q)));
}

#include "kernel/arm/qdot_body.h"

enum { FDOT_ROWS = 2, FDOT_TOKENS = 2 };

void kernel_qdot_neon(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x)
{
    for (int64_t r = 0; r < w->rows; r += TILE_ROWS) {
        struct row_tile s = rows_at(w, r);
        int64_t t = 0;
        for (; t + TILE_TOKENS <= x->rows; t += TILE_TOKENS)
            qdot_tile(y + r, y_step, w, &s, x, t, TILE_TOKENS);
        for (; t < x->rows; t++)
            qdot_tile(y + r, y_step, w, &s, x, t, 1);
    }
}

void kernel_dequant_neon(float *dst, const int8_t *code, const float *scale,
                         const float *min, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        float32x4_t s = vdupq_n_f32(scale[i / KQ_GROUP]);
        int16x8_t c = vmovl_s8(vld1_s8(code + i));
        float32x4_t lo = vmulq_f32(s, vcvtq_f32_s32(vmovl_s16(vget_low_s16(c))));
        float32x4_t hi = vmulq_f32(s, vcvtq_f32_s32(vmovl_s16(vget_high_s16(c))));
        if (min) {
            lo = vsubq_f32(lo, vdupq_n_f32(min[i / KQ_GROUP]));
            hi = vsubq_f32(hi, vdupq_n_f32(min[i / KQ_GROUP]));
        }
        vst1q_f32(dst + i, lo);
        vst1q_f32(dst + i + 4, hi);
    }
}

/* n_r rows times n_t tokens, constants of the caller. */
static ALWAYS_INLINE void fdot_tile(float *y, int64_t y_step, const struct kf_mat *w,
                                    int64_t r, int n_r, const struct kf_mat *x,
                                    int64_t t, int n_t, int64_t n)
{
    const float *wp = w->v + r * w->step, *xp = x->v + t * x->step;
    float32x4_t acc[FDOT_ROWS][FDOT_TOKENS][4];
    int64_t c = 0;

    for (int i = 0; i < n_r; i++)
        for (int j = 0; j < n_t; j++)
            for (int k = 0; k < 4; k++)
                acc[i][j][k] = vdupq_n_f32(0.0f);
    for (; c + KF_LANES <= n; c += KF_LANES)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < n_r; i++) {
                float32x4_t v = vld1q_f32(wp + i * w->step + c + 4 * k);
                for (int j = 0; j < n_t; j++)
                    acc[i][j][k] = vaddq_f32(
                        acc[i][j][k],
                        vmulq_f32(v, vld1q_f32(xp + j * x->step + c + 4 * k)));
            }
    for (int i = 0; i < n_r; i++) {
        for (int j = 0; j < n_t; j++) {
            float rest[KF_LANES] = {0}; /* +0 to the other lanes changes nothing */
            for (int64_t k = c; k < n; k++)
                rest[k - c] = wp[i * w->step + k] * xp[j * x->step + k];
            for (int k = 0; k < 4 && c < n; k++)
                acc[i][j][k] = vaddq_f32(acc[i][j][k], vld1q_f32(rest + 4 * k));
            y[(t + j) * y_step + r + i] = fold_quads(acc[i][j], 4);
        }
    }
}

void kernel_fdot_neon(float *y, int64_t y_step, const struct kf_mat *w,
                      const struct kf_mat *x, int64_t n)
{
    int64_t r = 0;

    for (; r + 2 <= w->rows; r += 2) {
        int64_t t = 0;
        for (; t + 2 <= x->rows; t += 2)
            fdot_tile(y, y_step, w, r, 2, x, t, 2, n);
        for (; t < x->rows; t++)
            fdot_tile(y, y_step, w, r, 2, x, t, 1, n);
    }
    for (; r < w->rows; r++)
        for (int64_t t = 0; t < x->rows; t++)
            fdot_tile(y, y_step, w, r, 1, x, t, 1, n);
}
