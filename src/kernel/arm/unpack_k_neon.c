/*
 * unpack_k_neon.c - rows of Q2_K to Q6_K to codes, scales and minima, in NEON.
 *
 * Same results as ref/unpack_k_ref.c; layouts there. Sub-block scales are a handful per
 * 256 weights and stay scalar.
 */
#include "base/reader.h"
#include "kernel/arm/neon.h"
#include "kernel/variants.h"
#include "tensor/f16.h"

enum { QK = 256, SUB16 = QK / 16, SUB32 = QK / 32 };

static ALWAYS_INLINE float f16_at(const uint8_t *p)
{
    return f32_from_f16(le_get16(p));
}

/* Field s of 2 bits of 16 bytes. */
static ALWAYS_INLINE uint8x16_t pairs(uint8x16_t v, int s)
{
    return vandq_u8(vshlq_u8(v, vdupq_n_s8((int8_t)(-2 * s))), vdupq_n_u8(3));
}

void unpack_q2_k_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    for (int64_t b = 0; b < n / QK; b++, src += 84, code += QK) {
        float d = f16_at(src + 80), dmin = f16_at(src + 82);
        for (int s = 0; s < SUB16; s++) {
            scale[b * SUB16 + s] = d * (float)(src[s] & 15);
            min[b * SUB16 + s] = dmin * (float)(src[s] >> 4);
        }
        for (int i = 0; i < SUB16; i++) { /* 16 columns */
            uint8x16_t v = vld1q_u8(src + 16 + i / 8 * 32 + i % 2 * 16);
            vst1q_s8(code + 16 * i, vreinterpretq_s8_u8(pairs(v, i / 2 % 4)));
        }
    }
}

/* 32 bytes of third bits, 64 of pairs, 12 of six-bit scales, d. */
void unpack_q3_k_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
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
        for (int i = 0; i < SUB16; i++) {
            uint8x16_t v = vld1q_u8(src + 32 + i / 8 * 32 + i % 2 * 16);
            uint8x16_t third = vld1q_u8(src + i % 2 * 16);
            uint8x16_t set = vtstq_u8(third, vdupq_n_u8((uint8_t)(1 << i / 2)));
            uint8x16_t off = vbicq_u8(vdupq_n_u8(4), set);
            vst1q_s8(code + 16 * i,
                     vreinterpretq_s8_u8(vsubq_u8(pairs(v, i / 2 % 4), off)));
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

/* 16 columns of sub-blocks 2 i (low nibbles) and 2 i + 1, with bits 2 i and 2 i + 1 of
 * high as fifth bits. */
static ALWAYS_INLINE void put_k4(int8_t *code, const uint8_t *p, uint8x16_t high, int i)
{
    const uint8x16_t sixteen = vdupq_n_u8(16);
    uint8x16_t v = vld1q_u8(p);
    uint8x16_t a = vtstq_u8(high, vdupq_n_u8((uint8_t)(1 << 2 * i)));
    uint8x16_t b = vtstq_u8(high, vdupq_n_u8((uint8_t)(2 << 2 * i)));
    uint8x16_t lo = vorrq_u8(vandq_u8(v, vdupq_n_u8(15)), vandq_u8(a, sixteen));
    uint8x16_t hi = vorrq_u8(vshrq_n_u8(v, 4), vandq_u8(b, sixteen));

    vst1q_s8(code, vreinterpretq_s8_u8(lo));
    vst1q_s8(code + 32, vreinterpretq_s8_u8(hi));
}

void unpack_q4_k_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const uint8x16_t none = vdupq_n_u8(0);

    for (int64_t b = 0; b < n / QK; b++, src += 144, code += QK) {
        k4_scales(scale + b * SUB16, min + b * SUB16, src + 4, f16_at(src),
                  f16_at(src + 2));
        for (int i = 0; i < 4; i++)
            for (int half = 0; half < 32; half += 16)
                put_k4(code + 64 * i + half, src + 16 + 32 * i + half, none, i);
    }
}

void unpack_q5_k_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    for (int64_t b = 0; b < n / QK; b++, src += 176, code += QK) {
        uint8x16_t high[2] = {vld1q_u8(src + 16), vld1q_u8(src + 32)};
        k4_scales(scale + b * SUB16, min + b * SUB16, src + 4, f16_at(src),
                  f16_at(src + 2));
        for (int i = 0; i < 4; i++)
            for (int half = 0; half < 2; half++)
                put_k4(code + 64 * i + 16 * half, src + 48 + 32 * i + 16 * half,
                       high[half], i);
    }
}

/* 16 columns of the four steps of half a Q6_K block. */
static ALWAYS_INLINE void put_q6_k(int8_t *code, const uint8_t *low,
                                   const uint8_t *high)
{
    const uint8x16_t four = vdupq_n_u8(15), two = vdupq_n_u8(48);
    uint8x16_t a = vld1q_u8(low), b = vld1q_u8(low + 32), h = vld1q_u8(high);
    uint8x16_t v[4];

    v[0] = vorrq_u8(vandq_u8(a, four), vandq_u8(vshlq_n_u8(h, 4), two));
    v[1] = vorrq_u8(vandq_u8(b, four), vandq_u8(vshlq_n_u8(h, 2), two));
    v[2] = vorrq_u8(vshrq_n_u8(a, 4), vandq_u8(h, two));
    v[3] = vorrq_u8(vshrq_n_u8(b, 4), vandq_u8(vshrq_n_u8(h, 2), two));
    for (int k = 0; k < 4; k++)
        vst1q_s8(code + 32 * k, vsubq_s8(vreinterpretq_s8_u8(v[k]), vdupq_n_s8(32)));
}

void unpack_q6_k_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / QK; b++, src += 210, code += QK) {
        float d = f16_at(src + 208);
        for (int s = 0; s < SUB16; s++)
            scale[b * SUB16 + s] = d * (float)(int8_t)src[192 + s];
        for (int i = 0; i < 4; i++)
            put_q6_k(code + 128 * (i / 2) + 16 * (i % 2),
                     src + 64 * (i / 2) + 16 * (i % 2),
                     src + 128 + 32 * (i / 2) + 16 * (i % 2));
    }
}
