/*
 * soft.h - a smooth stand-in for the three codes, and its slope.
 *
 *   soft(v) = (tanh(s (v - 1/2)) + tanh(s (v + 1/2))) / 2
 *
 * v is a latent in units of its scale, s the sharpness: from about 4 (nearly a line) it
 * goes to the codes -1, 0, 1 as s grows.
 */
#ifndef TRAIN_SOFT_H
#define TRAIN_SOFT_H

#include "train/real.h"

/* tanh by r_exp(), which compilers make wide. */
static inline real soft_tanh(real x)
{
    return 1 - 2 / (r_exp(2 * x) + 1);
}

static inline real soft_code(real v, real sharp, real *slope)
{
    const real a = soft_tanh(sharp * (v - (real)0.5));
    const real b = soft_tanh(sharp * (v + (real)0.5));

    *slope = sharp * (1 - (a * a + b * b) / 2);
    return (a + b) / 2;
}

#endif
