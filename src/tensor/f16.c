/*
 * f16.c - half and brain floats, in integer arithmetic.
 *
 * A half is 1 sign, 5 exponent (bias 15) and 10 fraction bits; a float 1, 8 (bias 127)
 * and 23. A brain float is the upper half of a float.
 */
#include "tensor/f16.h"

enum {
    F32_EXP_BIAS = 127,
    F32_FRAC_BITS = 23,
    F16_EXP_BIAS = 15,
    F16_FRAC_BITS = 10,
    FRAC_DROP = F32_FRAC_BITS - F16_FRAC_BITS,
};

float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exp = h >> F16_FRAC_BITS & 0x1fu, frac = h & 0x3ffu;

    if (exp == 0x1f) /* infinity, or NaN with the quiet bit set */
        return f32_from_bits(sign | 0x7f800000u | frac << FRAC_DROP |
                             (frac ? 0x400000u : 0));
    if (exp == 0) {
        /* Zero or subnormal: frac * 2^-24, exact in F32 (10 bits, exponent in range). */
        float f = (float)frac * 0x1p-24f;
        return f32_from_bits(sign | f32_bits(f));
    }
    return f32_from_bits(sign | (exp + F32_EXP_BIAS - F16_EXP_BIAS) << F32_FRAC_BITS |
                         frac << FRAC_DROP);
}

/* Drops the low n bits (1 <= n <= 24) of v, rounding to nearest, ties to even. */
static uint32_t shift_round(uint32_t v, unsigned n)
{
    uint32_t half = 1u << (n - 1), rest = v & ((1u << n) - 1);
    uint32_t kept = v >> n;

    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    return kept;
}

uint16_t f16_from_f32(float f)
{
    uint32_t bits = f32_bits(f), sign = bits >> 16 & 0x8000u;
    uint32_t mag = bits & 0x7fffffffu, exp = mag >> F32_FRAC_BITS;
    uint32_t frac = mag & 0x7fffffu;

    if (mag > 0x7f800000u) /* NaN: keep the upper payload, set the quiet bit */
        return (uint16_t)(sign | 0x7e00u | frac >> FRAC_DROP);
    if (mag >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (exp >= F32_EXP_BIAS - F16_EXP_BIAS + 1) {
        /* Normal half. A carry out of the fraction moves into the exponent. */
        uint32_t rebased = mag - ((F32_EXP_BIAS - F16_EXP_BIAS) << F32_FRAC_BITS);
        return (uint16_t)(sign | shift_round(rebased, FRAC_DROP));
    }
    if (exp < F32_EXP_BIAS - F16_EXP_BIAS - F16_FRAC_BITS) /* below 2^-25: zero */
        return (uint16_t)sign;
    /* Subnormal half: the fraction in units of 2^-24. exp is 102 to 112, so the shift
     * is 24 to 14; a carry out of the top gives the smallest normal half. */
    return (uint16_t)(sign | shift_round(frac | 0x800000u, 126 - exp));
}

uint16_t bf16_from_f32(float f)
{
    uint32_t bits = f32_bits(f);

    if ((bits & 0x7fffffffu) > 0x7f800000u) /* NaN: keep it one after the cut */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
