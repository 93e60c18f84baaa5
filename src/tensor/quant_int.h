/*
 * quant_int.h - the codecs behind quant.c, one pair of functions per type.
 *
 * A decoder turns n_blocks blocks into floats, an encoder does the reverse; quant.c
 * picks by type and cares for everything that types share. Not for other folders.
 */
#ifndef TENSOR_QUANT_INT_H
#define TENSOR_QUANT_INT_H

#include "base/reader.h"
#include "tensor/f16.h"
#include "tensor/quant.h"

#include <math.h>

/* 1/d; 0 where that is not a number to multiply with: d = 0, or so small that 1/d
 * overflows. Either way the FP16 scale of the group is 0 and its weights become 0. */
static inline float quant_inverse(float d)
{
    float id = d != 0.0f ? 1.0f / d : 0.0f;

    return isfinite(id) ? id : 0.0f;
}

/* The scale field of a block: FP16, cut to the largest finite half instead of passing
 * into infinity, which would make every weight of the group an infinity or a NaN. */
static inline uint16_t quant_scale_bits(float d)
{
    uint16_t h = f16_from_f32(d);

    return (h & 0x7fffu) == 0x7c00u ? (uint16_t)(h - 1) : h;
}

static inline float quant_get_f16(const uint8_t *p)
{
    return f32_from_f16(le_get16(p));
}

/* quant_basic.c: blocks of 32 weights. */
void quant_q4_0_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q4_1_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q5_0_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q5_1_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q8_0_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q4_0_encode(uint8_t *dst, const float *src, int64_t n_blocks);
void quant_q4_1_encode(uint8_t *dst, const float *src, int64_t n_blocks);
void quant_q5_0_encode(uint8_t *dst, const float *src, int64_t n_blocks);
void quant_q5_1_encode(uint8_t *dst, const float *src, int64_t n_blocks);
void quant_q8_0_encode(uint8_t *dst, const float *src, int64_t n_blocks);

/* quant_k.c: blocks of 256 weights, read only. */
void quant_q2_k_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q3_k_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q4_k_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q5_k_decode(float *dst, const uint8_t *src, int64_t n_blocks);
void quant_q6_k_decode(float *dst, const uint8_t *src, int64_t n_blocks);

/* odd.c: B2_Q2 and B2_Q3. */
void quant_odd_decode(enum dtype t, float *dst, const uint8_t *src, int64_t n_blocks);
void quant_odd_encode(enum dtype t, uint8_t *dst, const float *src, int64_t n_blocks);

/* ternary.c: TQ1_0, TQ2_0, Q1_0, Q2_0, Q2_0_G128, PQ2_0, PTQ1_0, I2_S and ours. */
bool ternary_has(enum dtype t);
void ternary_decode(enum dtype t, float *dst, const uint8_t *src, int64_t n_blocks);
void ternary_encode(enum dtype t, uint8_t *dst, const float *src, int64_t n_blocks);
/* Index of the first block with a code that no encoder writes, -1 if none. */
int64_t ternary_verify(enum dtype t, const uint8_t *src, int64_t n_blocks,
                       const char **what);

#endif
