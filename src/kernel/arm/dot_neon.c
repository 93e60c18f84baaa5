/*
 * dot_neon.c - quantising activations, and the two dot products, in baseline NEON.
 *
 * Same bits as ref/dot_ref.c.
 */
#include "kernel/variants.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

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

/* Magnitudes as integers, so that a NaN is the largest. */
static ALWAYS_INLINE uint32x4_t magnitude(const float *x)
{
    return vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x)), vdupq_n_u32(0x7fffffff));
}

static ALWAYS_INLINE float largest(uint32x4_t m)
{
    uint32_t bits = vmaxvq_u32(m);
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Codes of group g of token t, with what follows from them. */
static ALWAYS_INLINE void put_group(const struct kq_act *a, int64_t t, int64_t g,
                                    int8x16_t q, int e)
{
    int64_t c = g * KQ_GROUP, first = c / KQ_PLANE * KQ_PLANE;
    int64_t width = a->n - first < KQ_PLANE ? a->n - first : KQ_PLANE;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g;
    static const uint8_t quads[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                      2, 6, 10, 14, 3, 7, 11, 15};
    int8_t plane[KQ_GROUP];
    int total = e * vaddlvq_s8(q);

    vst1q_s8(a->q + t * a->n + c, q);
    vst1q_s8(plane, vqtbl1q_s8(q, vld1q_u8(quads)));
    for (int k = 0; k < 4; k++)
        memcpy(a->p + t * a->n + first + (c - first) / 4 + k * (width / 4),
               plane + 4 * k, 4);
    vst1q_s16(a->e + (t * a->n + c) / 2, vdupq_n_s16((int16_t)e));
    a->ep[t * a->n / 8 + 2 * g] = a->ep[t * a->n / 8 + 2 * g + 1] = (int16_t)e;
    sum[1] = (int32_t)((uint32_t)sum[0] + (uint32_t)total);
    a->s[t * a->n / KQ_GROUP + g] = (float)total;
}

/* 16 numbers times inv, rounded to nearest, ties to even. */
static ALWAYS_INLINE int8x16_t round_group(const float *x, float inv)
{
    int16x4_t v[4];

    for (int i = 0; i < 4; i++)
        v[i] = vmovn_s32(
            vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + 4 * i), vdupq_n_f32(inv))));
    return vcombine_s8(vmovn_s16(vcombine_s16(v[0], v[1])),
                       vmovn_s16(vcombine_s16(v[2], v[3])));
}

void kernel_act_quant_neon(const struct kq_act *a, int64_t t, const float *x)
{
    uint32x4_t m = vdupq_n_u32(0);

    if (a->order !=
        KQ_FLAT) { /* quads move, and planes are made: the reference does it */
        kernel_act_quant_c(a, t, x);
        return;
    }
    for (int64_t i = 0; i < a->n; i += 4)
        m = vmaxq_u32(m, magnitude(x + i));
    float max = largest(m), d = max / (127.0f * KQ_MAX_E), part = KQ_MAX_E / max;
    bool empty = !(max >= 0x1p-100f) || isinf(max);
    a->d[t] = !empty ? d : max < 0x1p-100f ? 0.0f : NAN;
    a->sum[t * (a->n / KQ_GROUP + 1)] = 0;
    for (int64_t g = 0; g < a->n / KQ_GROUP; g++, x += KQ_GROUP) {
        if (empty) {
            put_group(a, t, g, vdupq_n_s8(0), 1);
            continue;
        }
        float top = largest(vmaxq_u32(vmaxq_u32(magnitude(x), magnitude(x + 4)),
                                      vmaxq_u32(magnitude(x + 8), magnitude(x + 12))));
        int e = 1 + (int)(top * part);
        e = e > KQ_MAX_E ? KQ_MAX_E : e;
        put_group(a, t, g, round_group(x, 1.0f / (d * (float)e)), e);
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
