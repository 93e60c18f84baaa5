/*
 * unpack_ref.c - rows of the simple and ternary types to codes and scales. Scalar.
 *
 * Byte layouts: FORMATS.md and tensor/quant_basic.c. The scale (and minimum) of a block is
 * repeated for each of its groups. Types with "+ m" give the minimum -m.
 */
#include "base/reader.h"
#include "kernel/variants.h"
#include "tensor/f16.h"
#include "tensor/log8.h"

static float f16_at(const uint8_t *p)
{
    return f32_from_f16(le_get16(p));
}

/* Sets the n weights' groups to one value. */
static void fill(float *dst, float v, int n)
{
    for (int g = 0; g < n / KQ_GROUP; g++)
        dst[g] = v;
}

void unpack_q4_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 32, src += 18) {
        fill(scale + i / KQ_GROUP, f16_at(src), 32);
        for (int j = 0; j < 16; j++) {
            code[i + j] = (int8_t)((src[2 + j] & 15) - 8);
            code[i + 16 + j] = (int8_t)((src[2 + j] >> 4) - 8);
        }
    }
}

void unpack_q4_1_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    for (int64_t i = 0; i < n; i += 32, src += 20) {
        fill(scale + i / KQ_GROUP, f16_at(src), 32);
        fill(min + i / KQ_GROUP, -f16_at(src + 2), 32);
        for (int j = 0; j < 16; j++) {
            code[i + j] = (int8_t)(src[4 + j] & 15);
            code[i + 16 + j] = (int8_t)(src[4 + j] >> 4);
        }
    }
}

/* Nibbles at q and fifth bits: 32 codes 0..31, less off. */
static void unpack_5bits(int8_t *code, const uint8_t *q, uint32_t high, int off)
{
    for (int j = 0; j < 16; j++) {
        int lo = (q[j] & 15) | (int)(high >> j & 1) << 4;
        int hi = q[j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
        code[j] = (int8_t)(lo - off);
        code[16 + j] = (int8_t)(hi - off);
    }
}

void unpack_q5_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 32, src += 22) {
        fill(scale + i / KQ_GROUP, f16_at(src), 32);
        unpack_5bits(code + i, src + 6, le_get32(src + 2), 16);
    }
}

void unpack_q5_1_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    for (int64_t i = 0; i < n; i += 32, src += 24) {
        fill(scale + i / KQ_GROUP, f16_at(src), 32);
        fill(min + i / KQ_GROUP, -f16_at(src + 2), 32);
        unpack_5bits(code + i, src + 8, le_get32(src + 4), 0);
    }
}

void unpack_q8_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 32, src += 34) {
        fill(scale + i / KQ_GROUP, f16_at(src), 32);
        for (int j = 0; j < 32; j++)
            code[i + j] = (int8_t)src[2 + j];
    }
}

void unpack_q1_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 18) {
        fill(scale + i / KQ_GROUP, f16_at(src), 128);
        for (int j = 0; j < 128; j++)
            code[i + j] = src[2 + j / 8] >> (j % 8) & 1 ? 1 : -1;
    }
}

/* FP16 scale, then four 2-bit codes per byte, neighbours in one byte. */
static void unpack_2bits(int8_t *code, float *scale, const uint8_t *src, int64_t n,
                         int block)
{
    for (int64_t i = 0; i < n; i += block, src += 2 + block / 4) {
        fill(scale + i / KQ_GROUP, f16_at(src), block);
        for (int j = 0; j < block; j++)
            code[i + j] = (int8_t)((src[2 + j / 4] >> 2 * (j % 4) & 3) - 1);
    }
}

void unpack_q2_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    unpack_2bits(code, scale, src, n, 64);
}

void unpack_q2_0_g128_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    (void)min;
    unpack_2bits(code, scale, src, n, 128);
}

/* The scale of the matrix is the caller's. */
void unpack_i2_s_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 32) {
        fill(scale + i / KQ_GROUP, 1.0f, 128);
        for (int j = 0; j < 128; j++)
            code[i + j] = (int8_t)((src[j % 32] >> (6 - 2 * (j / 32)) & 3) - 1);
    }
}

void unpack_tq2_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                    int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 256, src += 66) {
        fill(scale + i / KQ_GROUP, f16_at(src + 64), 256);
        for (int j = 0; j < 256; j++) {
            int shift = 2 * (j / 32 % 4);
            code[i + j] = (int8_t)((src[32 * (j / 128) + j % 32] >> shift & 3) - 1);
        }
    }
}

/* Base-3 digits, most significant first: digit k of byte m is code m + n_bytes * k. */
static void unpack_base3(int8_t *code, const uint8_t *src, int n_bytes, int n_digits)
{
    for (int m = 0; m < n_bytes; m++) {
        unsigned w = src[m];
        for (int k = 0; k < n_digits; k++) {
            code[m + n_bytes * k] = (int8_t)((int)(w * 3 >> 8) - 1);
            w = w * 3 & 255;
        }
    }
}

void unpack_tq1_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                    int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 256, src += 54) {
        fill(scale + i / KQ_GROUP, f16_at(src + 52), 256);
        unpack_base3(code + i, src, 32, 5);
        unpack_base3(code + i + 160, src + 32, 16, 5);
        unpack_base3(code + i + 240, src + 48, 4, 4);
    }
}

void unpack_ptq1_0_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                     int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 28) {
        fill(scale + i / KQ_GROUP, f16_at(src + 26), 128);
        unpack_base3(code + i, src, 16, 5);
        unpack_base3(code + i + 80, src + 16, 8, 5);
        unpack_base3(code + i + 120, src + 24, 2, 4);
    }
}

void unpack_b2_t64_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                     int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += 14) {
        fill(scale + i / KQ_GROUP, f32_from_log8(src[13]), 64);
        unpack_base3(code + i, src, 12, 5);
        unpack_base3(code + i + 60, src + 12, 1, 4);
    }
}
