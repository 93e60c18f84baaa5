/*
 * quant_basic.c - Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: 32 weights with one or two FP16 fields.
 *
 *   Q4_0  d, 16 bytes         w = d * (q - 8)         q: low nibbles 0..15, high 16..31
 *   Q4_1  d, m, 16 bytes      w = d * q + m
 *   Q5_0  d, 4 + 16 bytes     w = d * (q - 16)        fifth bits in a 32-bit word
 *   Q5_1  d, m, 4 + 16 bytes  w = d * q + m
 *   Q8_0  d, 32 bytes         w = d * q               q signed
 *
 * The encoders repeat quantize_row_*_ref of ggml-quants.c operation by operation, which
 * is what makes them byte-exact.
 */
#include "tensor/quant_int.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

void quant_q4_0_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 18, dst += BLOCK) {
        const uint8_t *q = src + 2;
        float d = quant_get_f16(src);
        for (int i = 0; i < HALF; i++) {
            dst[i] = (float)((q[i] & 15) - 8) * d;
            dst[i + HALF] = (float)((q[i] >> 4) - 8) * d;
        }
    }
}

void quant_q4_1_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 20, dst += BLOCK) {
        const uint8_t *q = src + 4;
        float d = quant_get_f16(src), m = quant_get_f16(src + 2);
        for (int i = 0; i < HALF; i++) {
            dst[i] = (float)(q[i] & 15) * d + m;
            dst[i + HALF] = (float)(q[i] >> 4) * d + m;
        }
    }
}

/* Weight i's five bits: a nibble and bit i (or i + 16) of the word of fifth bits. */
static int low5(const uint8_t *q, uint32_t high, int i)
{
    return (q[i] & 15) | (int)(high >> i << 4 & 16);
}

static int high5(const uint8_t *q, uint32_t high, int i)
{
    return q[i] >> 4 | (int)(high >> (i + HALF) << 4 & 16);
}

void quant_q5_0_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 22, dst += BLOCK) {
        const uint8_t *q = src + 6;
        float d = quant_get_f16(src);
        uint32_t high = le_get32(src + 2);
        for (int i = 0; i < HALF; i++) {
            dst[i] = (float)(low5(q, high, i) - 16) * d;
            dst[i + HALF] = (float)(high5(q, high, i) - 16) * d;
        }
    }
}

void quant_q5_1_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 24, dst += BLOCK) {
        const uint8_t *q = src + 8;
        float d = quant_get_f16(src), m = quant_get_f16(src + 2);
        uint32_t high = le_get32(src + 4);
        for (int i = 0; i < HALF; i++) {
            dst[i] = (float)low5(q, high, i) * d + m;
            dst[i + HALF] = (float)high5(q, high, i) * d + m;
        }
    }
}

void quant_q8_0_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 34, dst += BLOCK) {
        float d = quant_get_f16(src);
        for (int i = 0; i < BLOCK; i++)
            dst[i] = (float)(int8_t)src[2 + i] * d;
    }
}

/* The value of largest magnitude, with its sign; the first of equals. */
static float signed_max(const float *x)
{
    float max = 0.0f, amax = 0.0f;

    for (int i = 0; i < BLOCK; i++) {
        if (fabsf(x[i]) > amax) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    }
    return max;
}

static void min_max(const float *x, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < BLOCK; i++) {
        if (x[i] < *min)
            *min = x[i];
        if (x[i] > *max)
            *max = x[i];
    }
}

/* Codes are never negative here: the shift is part of the value, so that the cut toward
 * zero rounds to nearest. NaN (a spread that passes F32's range) gives the top code. */
static int to_code(float v, int top)
{
    return v < (float)top ? (int)v : top;
}

void quant_q4_0_encode(uint8_t *dst, const float *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, dst += 18, src += BLOCK) {
        float d = signed_max(src) / -8.0f, id = quant_inverse(d);
        le_put16(dst, quant_scale_bits(d));
        for (int i = 0; i < HALF; i++) {
            int lo = to_code(src[i] * id + 8.5f, 15);
            int hi = to_code(src[i + HALF] * id + 8.5f, 15);
            dst[2 + i] = (uint8_t)(lo | hi << 4);
        }
    }
}

void quant_q4_1_encode(uint8_t *dst, const float *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, dst += 20, src += BLOCK) {
        float min, max;
        min_max(src, &min, &max);
        float d = (max - min) / 15.0f, id = quant_inverse(d);
        le_put16(dst, quant_scale_bits(d));
        le_put16(dst + 2, quant_scale_bits(min));
        for (int i = 0; i < HALF; i++) {
            int lo = to_code((src[i] - min) * id + 0.5f, 15);
            int hi = to_code((src[i + HALF] - min) * id + 0.5f, 15);
            dst[4 + i] = (uint8_t)(lo | hi << 4);
        }
    }
}

/* Stores 32 five-bit codes: fifth bits first, then the nibbles. */
static void put5(uint8_t *dst, const int code[BLOCK])
{
    uint32_t high = 0;

    for (int i = 0; i < BLOCK; i++)
        high |= (uint32_t)(code[i] >> 4) << i;
    le_put32(dst, high);
    for (int i = 0; i < HALF; i++)
        dst[4 + i] = (uint8_t)((code[i] & 15) | (code[i + HALF] & 15) << 4);
}

void quant_q5_0_encode(uint8_t *dst, const float *src, int64_t n_blocks)
{
    int code[BLOCK];

    for (int64_t b = 0; b < n_blocks; b++, dst += 22, src += BLOCK) {
        float d = signed_max(src) / -16.0f, id = quant_inverse(d);
        for (int i = 0; i < BLOCK; i++)
            code[i] = to_code(src[i] * id + 16.5f, 31);
        le_put16(dst, quant_scale_bits(d));
        put5(dst + 2, code);
    }
}

void quant_q5_1_encode(uint8_t *dst, const float *src, int64_t n_blocks)
{
    int code[BLOCK];

    for (int64_t b = 0; b < n_blocks; b++, dst += 24, src += BLOCK) {
        float min, max;
        min_max(src, &min, &max);
        float d = (max - min) / 31.0f, id = quant_inverse(d);
        for (int i = 0; i < BLOCK; i++)
            code[i] = to_code((src[i] - min) * id + 0.5f, 31);
        le_put16(dst, quant_scale_bits(d));
        le_put16(dst + 2, quant_scale_bits(min));
        put5(dst + 4, code);
    }
}

void quant_q8_0_encode(uint8_t *dst, const float *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, dst += 34, src += BLOCK) {
        float d = fabsf(signed_max(src)) / 127.0f, id = quant_inverse(d);
        le_put16(dst, quant_scale_bits(d));
        for (int i = 0; i < BLOCK; i++)
            dst[2 + i] = (uint8_t)(int8_t)roundf(src[i] * id);
    }
}
