/*
 * exp_ref.h - our expf for the scalar reference; the formula is in exp.h.
 */
#ifndef KERNEL_REF_EXP_REF_H
#define KERNEL_REF_EXP_REF_H

#include "kernel/exp.h"
#include "tensor/f16.h"

static inline float exp_pow2(int n) /* -126 <= n <= 127 */
{
    return f32_from_bits((uint32_t)(n + 127) << 23);
}

static inline float exp_one(float x)
{
    x = EXP_MAX < x ? EXP_MAX : x; /* comparisons with NaN are false: it stays */
    x = EXP_MIN > x ? EXP_MIN : x;
    if (x != x) /* the cast below needs a number */
        return x;
    float fn = (x * EXP_LOG2E + EXP_ROUND) - EXP_ROUND;
    float r = (x - fn * EXP_LN2_HI) - fn * EXP_LN2_LO;
    float p = EXP_P5;
    p = p * r + EXP_P4;
    p = p * r + EXP_P3;
    p = p * r + EXP_P2;
    p = p * r + EXP_P1;
    p = p * r + EXP_P0;
    p = p * (r * r) + r;
    p = p + 1.0f;
    int n = (int)fn, half = n >> 1;
    return p * exp_pow2(half) * exp_pow2(n - half);
}

#endif
