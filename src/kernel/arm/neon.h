/*
 * neon.h - small helpers of the NEON files.
 */
#ifndef KERNEL_ARM_NEON_H
#define KERNEL_ARM_NEON_H

#include "kernel/kernel.h"

#include <arm_neon.h>

/* A kernel body with constant counts must become straight code in each of its callers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* LANES of 8 or 16 from four at a time: v[0] has lanes 0-3, v[1] lanes 4-7, ... */
static ALWAYS_INLINE float fold_quads(const float32x4_t *v, int n)
{
    float32x4_t a = n == 4 ? vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]))
                           : vaddq_f32(v[0], v[1]);
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));

    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

/* The sum of e * q over groups [g, g + n_g) of token t. */
static ALWAYS_INLINE int32_t act_sum(const struct kq_act *x, int64_t t, int64_t g,
                                     int64_t n_g)
{
    const int32_t *sum = x->sum + t * (x->n / KQ_GROUP + 1) + g;

    return (int32_t)((uint32_t)sum[n_g] - (uint32_t)sum[0]);
}

#endif
