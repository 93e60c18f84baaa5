/*
 * float4.h - exp and sums of squares, four floats at a time, for the NEON files.
 */
#ifndef KERNEL_ARM_FLOAT4_H
#define KERNEL_ARM_FLOAT4_H

#include "kernel/arm/neon.h"
#include "kernel/exp.h"

#include <string.h>

/* The squares of four floats, added to two lanes of doubles each. */
static ALWAYS_INLINE void add_squares(float64x2_t *lane, float32x4_t v)
{
    v = vmulq_f32(v, v);
    lane[0] = vaddq_f64(lane[0], vcvt_f64_f32(vget_low_f32(v)));
    lane[1] = vaddq_f64(lane[1], vcvt_high_f64_f32(v));
}

/* The sum of n squares in double, LANES of 8. */
static ALWAYS_INLINE double sum_squares(const float *x, int64_t n)
{
    float64x2_t lane[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0),
                           vdupq_n_f64(0)};
    float rest[8] = {0};
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        add_squares(lane, vld1q_f32(x + i));
        add_squares(lane + 2, vld1q_f32(x + i + 4));
    }
    if (i < n) { /* +0 to the other lanes changes nothing */
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *rest);
        add_squares(lane, vld1q_f32(rest));
        add_squares(lane + 2, vld1q_f32(rest + 4));
    }
    float64x2_t s = vaddq_f64(vaddq_f64(lane[0], lane[2]), vaddq_f64(lane[1], lane[3]));
    return vgetq_lane_f64(s, 0) + vgetq_lane_f64(s, 1);
}

static ALWAYS_INLINE float32x4_t pow2(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

static ALWAYS_INLINE float32x4_t step(float32x4_t p, float32x4_t r, float c)
{
    return vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(c));
}

/* fmin and fmax give NaN when an operand is NaN: it passes through the cut. */
static ALWAYS_INLINE float32x4_t exp4(float32x4_t x)
{
    const float32x4_t round = vdupq_n_f32(EXP_ROUND);

    x = vmaxq_f32(vminq_f32(x, vdupq_n_f32(EXP_MAX)), vdupq_n_f32(EXP_MIN));
    float32x4_t fn = vmulq_f32(x, vdupq_n_f32(EXP_LOG2E));
    fn = vsubq_f32(vaddq_f32(fn, round), round);
    float32x4_t r = vsubq_f32(x, vmulq_f32(fn, vdupq_n_f32(EXP_LN2_HI)));
    r = vsubq_f32(r, vmulq_f32(fn, vdupq_n_f32(EXP_LN2_LO)));
    float32x4_t p = vdupq_n_f32(EXP_P5);
    p = step(p, r, EXP_P4);
    p = step(p, r, EXP_P3);
    p = step(p, r, EXP_P2);
    p = step(p, r, EXP_P1);
    p = step(p, r, EXP_P0);
    p = vaddq_f32(vmulq_f32(p, vmulq_f32(r, r)), r);
    p = vaddq_f32(p, vdupq_n_f32(1.0f));
    int32x4_t n = vcvtq_s32_f32(fn), half = vshrq_n_s32(n, 1);
    p = vmulq_f32(p, pow2(half));
    return vmulq_f32(p, pow2(vsubq_s32(n, half)));
}

#endif
