/*
 * real.h - the number type of forward and backward passes.
 *
 * F32. The same sources compiled with TRAIN_F64 compute in F64, so that gradients can be
 * checked against finite differences without the noise of rounding; the tests do that.
 */
#ifndef TRAIN_REAL_H
#define TRAIN_REAL_H

#include "base/util.h"
#include "kernel/exp.h"

#include <math.h>
#include <string.h>

#ifdef TRAIN_F64
typedef double real;

static inline real r_exp(real x)
{
    return exp(x);
}

static inline real r_sqrt(real x)
{
    return sqrt(x);
}

static inline real r_tanh(real x)
{
    return tanh(x);
}

static inline real r_log1p(real x)
{
    return log1p(x);
}
#else
typedef float real;

/* exp by the steps of kernel/exp.h, without a branch, so that compilers make it wide. */
static inline real r_exp(real x)
{
    float y = x < EXP_MIN ? EXP_MIN : x > EXP_MAX ? EXP_MAX : x;
    float n = (y * EXP_LOG2E + EXP_ROUND) - EXP_ROUND;
    float r = (y - n * EXP_LN2_HI) - n * EXP_LN2_LO;
    float p = ((((EXP_P5 * r + EXP_P4) * r + EXP_P3) * r + EXP_P2) * r + EXP_P1) * r;
    int32_t whole = (int32_t)n, half = whole / 2;
    uint32_t lo = (uint32_t)(half + 127) << 23;
    uint32_t hi = (uint32_t)(whole - half + 127) << 23;
    float a, b;

    memcpy(&a, &lo, sizeof a);
    memcpy(&b, &hi, sizeof b);
    return (1.0f + (r + r * r * (p + EXP_P0))) * a * b;
}

static inline real r_sqrt(real x)
{
    return sqrtf(x);
}

static inline real r_tanh(real x)
{
    return tanhf(x);
}

static inline real r_log1p(real x)
{
    return log1pf(x);
}
#endif

static inline real r_sigmoid(real x)
{
    return 1 / (1 + r_exp(-x));
}

/* log(1 + e^x); above 20 the F32 of it is x. */
static inline real r_softplus(real x)
{
    return x > 20 ? x : r_log1p(r_exp(x));
}

#endif
