/*
 * f16.h - half and brain floats to and from F32, with defined rounding.
 *
 * Rounding is to nearest, ties to even, for every input; overflow gives infinity; NaN
 * stays NaN (quiet). Integer arithmetic only, so that every compiler and CPU agree.
 */
#ifndef TENSOR_F16_H
#define TENSOR_F16_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float f32_from_bf16(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

float f32_from_f16(uint16_t h);
uint16_t f16_from_f32(float f);
uint16_t bf16_from_f32(float f);

#endif
