/*
 * quant_k.c - reading of Q2_K, Q3_K, Q4_K, Q5_K, Q6_K: 256 weights in sub-blocks of 16
 * or 32, whose scales (and minima) are small integers times one FP16 scale.
 *
 * Layouts and order of the F32 operations follow dequantize_row_q*_K of ggml-quants.c,
 * so that values agree bit for bit with it and with gguf-py.
 */
#include "tensor/quant_int.h"

enum { QK = 256 };

/* 16 scale bytes (low nibble scale, high nibble minimum), 64 bytes of 2-bit codes, d,
 * dmin. Bits 2s..2s+1 of byte 32h + i are weight 128h + 32s + i. */
void quant_q2_k_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 84, dst += QK) {
        const uint8_t *scales = src, *q = src + 16;
        float d = quant_get_f16(src + 80), dmin = quant_get_f16(src + 82);
        for (int sub = 0; sub < QK / 16; sub++) {
            const uint8_t *p = q + 32 * (sub / 8) + 16 * (sub & 1);
            int shift = 2 * (sub / 2 & 3);
            float dl = d * (float)(scales[sub] & 15);
            float ml = dmin * (float)(scales[sub] >> 4);
            for (int i = 0; i < 16; i++)
                dst[16 * sub + i] = dl * (float)(p[i] >> shift & 3) - ml;
        }
    }
}

/* The 16 six-bit scales of Q3_K: low nibbles in bytes 0..7 (sub-blocks 0..7 low, 8..15
 * high), upper pairs of bits in bytes 8..11. Stored with an offset of 32. */
static int q3_k_scale(const uint8_t *s, int sub)
{
    int low = sub < 8 ? s[sub] & 15 : s[sub - 8] >> 4;
    int high = s[8 + (sub & 3)] >> 2 * (sub / 4) & 3;

    return (low | high << 4) - 32;
}

/* 32 bytes of third bits (bit set: no offset of 4), 64 bytes of 2-bit codes as in Q2_K,
 * 12 bytes of scales, d. */
void quant_q3_k_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 110, dst += QK) {
        const uint8_t *mask = src, *q = src + 32, *scales = src + 96;
        float d = quant_get_f16(src + 108);
        for (int sub = 0; sub < QK / 16; sub++) {
            int lane = 16 * (sub & 1), shift = 2 * (sub / 2 & 3);
            const uint8_t *p = q + 32 * (sub / 8) + lane, *h = mask + lane;
            float dl = d * (float)q3_k_scale(scales, sub);
            for (int i = 0; i < 16; i++) {
                int low = p[i] >> shift & 3;
                int off = h[i] >> (sub / 2) & 1 ? 0 : 4;
                dst[16 * sub + i] = dl * (float)(low - off);
            }
        }
    }
}

/* Eight six-bit scales and minima in 12 bytes: the first four whole, the others as a
 * nibble and the upper two bits of the first ones. */
static void k4_scale_min(const uint8_t *s, int sub, int *scale, int *min)
{
    if (sub < 4) {
        *scale = s[sub] & 63;
        *min = s[sub + 4] & 63;
    } else {
        *scale = (s[sub + 4] & 15) | s[sub - 4] >> 6 << 4;
        *min = s[sub + 4] >> 4 | s[sub] >> 6 << 4;
    }
}

/* d, dmin, 12 bytes of scales, 128 bytes of nibbles: byte 32g + i holds weights
 * 64g + i (low) and 64g + 32 + i (high). */
void quant_q4_k_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 144, dst += QK) {
        float d = quant_get_f16(src), dmin = quant_get_f16(src + 2);
        for (int sub = 0; sub < QK / 32; sub++) {
            const uint8_t *q = src + 16 + 32 * (sub / 2);
            int shift = 4 * (sub & 1), scale, min;
            k4_scale_min(src + 4, sub, &scale, &min);
            float dl = d * (float)scale, ml = dmin * (float)min;
            for (int i = 0; i < 32; i++)
                dst[32 * sub + i] = dl * (float)(q[i] >> shift & 15) - ml;
        }
    }
}

/* As Q4_K with 32 bytes of fifth bits between scales and nibbles: bit s of byte i
 * belongs to weight 32s + i. */
void quant_q5_k_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 176, dst += QK) {
        const uint8_t *high = src + 16;
        float d = quant_get_f16(src), dmin = quant_get_f16(src + 2);
        for (int sub = 0; sub < QK / 32; sub++) {
            const uint8_t *q = src + 48 + 32 * (sub / 2);
            int shift = 4 * (sub & 1), scale, min;
            k4_scale_min(src + 4, sub, &scale, &min);
            float dl = d * (float)scale, ml = dmin * (float)min;
            for (int i = 0; i < 32; i++) {
                int code = (q[i] >> shift & 15) | (high[i] >> sub & 1) << 4;
                dst[32 * sub + i] = dl * (float)code - ml;
            }
        }
    }
}

/* 128 bytes of nibbles, 64 bytes of upper pairs of bits, 16 signed scales, d. Weight
 * 128h + 32s + i has nibble s / 2 of byte 64h + 32(s & 1) + i and pair s of byte
 * 32h + i. */
void quant_q6_k_decode(float *dst, const uint8_t *src, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++, src += 210, dst += QK) {
        float d = quant_get_f16(src + 208);
        for (int sub = 0; sub < QK / 16; sub++) {
            int half = sub / 8, s = sub / 2 & 3, lane = 16 * (sub & 1);
            const uint8_t *low = src + 64 * half + 32 * (s & 1) + lane;
            const uint8_t *high = src + 128 + 32 * half + lane;
            float dl = d * (float)(int8_t)src[192 + sub];
            for (int i = 0; i < 16; i++) {
                int code = (low[i] >> 4 * (s / 2) & 15) | (high[i] >> 2 * s & 3) << 4;
                dst[16 * sub + i] = dl * (float)(code - 32);
            }
        }
    }
}
