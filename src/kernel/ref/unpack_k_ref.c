/*
 * unpack_k_ref.c - rows of Q2_K to Q6_K to codes, scales and minima. Scalar.
 *
 * A block is 256 weights; its sub-blocks of 16 or 32 have small integer scales times the
 * block's FP16 d (minima: times dmin). Layouts: tensor/quant_k.c. Scale and minimum are
 * the same F32 products as there, so that scale * code - min gives the same value.
 */
#include "base/reader.h"
#include "kernel/variants.h"
#include "tensor/f16.h"

enum { QK = 256, SUB16 = QK / 16, SUB32 = QK / 32 };

static float f16_at(const uint8_t *p)
{
    return f32_from_f16(le_get16(p));
}

/* 64 bytes of 2-bit fields in two halves: field s of byte 32h + i is weight
 * 128h + 32s + i. */
static int pair_at(const uint8_t *q, int i)
{
    return q[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3;
}

/* 128 bytes of nibbles: byte 32g + i holds weights 64g + i (low), 64g + 32 + i (high). */
static int nibble_at(const uint8_t *q, int i)
{
    return q[32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2) & 15;
}

void unpack_q2_k_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    for (int64_t b = 0; b < n / QK; b++, src += 84, code += QK) {
        float d = f16_at(src + 80), dmin = f16_at(src + 82);
        for (int s = 0; s < SUB16; s++) {
            scale[b * SUB16 + s] = d * (float)(src[s] & 15);
            min[b * SUB16 + s] = dmin * (float)(src[s] >> 4);
        }
        for (int i = 0; i < QK; i++)
            code[i] = (int8_t)pair_at(src + 16, i);
    }
}

/* 32 bytes of third bits, 64 of pairs, 12 of six-bit scales, d. */
void unpack_q3_k_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / QK; b++, src += 110, code += QK) {
        const uint8_t *sc = src + 96;
        float d = f16_at(src + 108);
        for (int s = 0; s < SUB16; s++) {
            int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
            int high = sc[8 + s % 4] >> 2 * (s / 4) & 3;
            scale[b * SUB16 + s] = d * (float)((low | high << 4) - 32);
        }
        for (int i = 0; i < QK; i++) {
            int third = src[i % 32] >> (i / 32) & 1;
            code[i] = (int8_t)(pair_at(src + 32, i) - (third ? 0 : 4));
        }
    }
}

/* The eight 6-bit scales and minima of Q4_K and Q5_K, for groups of 16. */
static void k4_scales(float *scale, float *min, const uint8_t *sc, float d, float dmin)
{
    for (int s = 0; s < SUB32; s++) {
        int a = s < 4 ? sc[s] & 63 : (sc[s + 4] & 15) | sc[s - 4] >> 6 << 4;
        int m = s < 4 ? sc[s + 4] & 63 : sc[s + 4] >> 4 | sc[s] >> 6 << 4;
        scale[2 * s] = scale[2 * s + 1] = d * (float)a;
        min[2 * s] = min[2 * s + 1] = dmin * (float)m;
    }
}

void unpack_q4_k_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    for (int64_t b = 0; b < n / QK; b++, src += 144, code += QK) {
        k4_scales(scale + b * SUB16, min + b * SUB16, src + 4, f16_at(src),
                  f16_at(src + 2));
        for (int i = 0; i < QK; i++)
            code[i] = (int8_t)nibble_at(src + 16, i);
    }
}

void unpack_q5_k_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    for (int64_t b = 0; b < n / QK; b++, src += 176, code += QK) {
        k4_scales(scale + b * SUB16, min + b * SUB16, src + 4, f16_at(src),
                  f16_at(src + 2));
        for (int i = 0; i < QK; i++) {
            int fifth = src[16 + i % 32] >> (i / 32) & 1;
            code[i] = (int8_t)(nibble_at(src + 48, i) | fifth << 4);
        }
    }
}

/* 128 bytes of nibbles, 64 of pairs, 16 signed scales, d. Weight 128h + 32s + i has
 * nibble s / 2 of byte 64h + 32(s % 2) + i. */
void unpack_q6_k_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                   int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / QK; b++, src += 210, code += QK) {
        float d = f16_at(src + 208);
        for (int s = 0; s < SUB16; s++)
            scale[b * SUB16 + s] = d * (float)(int8_t)src[192 + s];
        for (int i = 0; i < QK; i++) {
            int s = i / 32 % 4;
            int low = src[64 * (i / 128) + 32 * (s % 2) + i % 32] >> 4 * (s / 2) & 15;
            code[i] = (int8_t)((low | pair_at(src + 128, i) << 4) - 32);
        }
    }
}
