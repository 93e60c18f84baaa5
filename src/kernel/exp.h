/*
 * exp.h - the constants of our expf and of gelu, shared by all variants.
 *
 * exp(x) = 2^n * exp(r), n = x * log2(e) rounded to nearest (ties to even), r = x - n *
 * ln 2 in two parts (the first has 9 bits, so that n * EXP_LN2_HI is exact). exp(r) =
 * 1 + r + r^2 * P(r), P of degree 5 by Horner (the coefficients of Cephes' expf). 2^n is
 * multiplied in two halves, so that results pass through subnormals to 0 and end at
 * infinity without any special case. x is first cut to [EXP_MIN, EXP_MAX], beyond which
 * the result is 0 or infinity anyway; NaN passes through the cut.
 *
 * All in F32, each product and sum rounded on its own. Adding and subtracting
 * EXP_ROUND = 1.5 * 2^23 rounds to an integer in every variant alike.
 */
#ifndef KERNEL_EXP_H
#define KERNEL_EXP_H

#define EXP_MIN (-104.0f)
#define EXP_MAX 89.0f
#define EXP_LOG2E 1.44269504088896341f
#define EXP_ROUND 12582912.0f
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO (-2.12194440e-4f)
#define EXP_P5 1.9875691500e-4f
#define EXP_P4 1.3981999507e-3f
#define EXP_P3 8.3334519073e-3f
#define EXP_P2 4.1665795894e-2f
#define EXP_P1 1.6666665459e-1f
#define EXP_P0 5.0000001201e-1f

/* gelu(x) = x / 2 (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2 / pi), which equals
 * x / (1 + exp(-2 c (x + 0.044715 x^3))). */
#define GELU_CUBE 0.044715f
#define GELU_MINUS_2C (-1.5957691216057308f)

#endif
