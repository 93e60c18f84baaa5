/*
 * unpack_neon.c - rows of the simple and ternary types to codes and scales, in NEON.
 *
 * Same results as ref/unpack_ref.c. Base-3 digits: with w the byte times 3^k modulo 256,
 * digit k is (3 w) >> 8 = [w >= 86] + [w >= 171], and the next w is 3 w modulo 256.
 */
#include "base/reader.h"
#include "kernel/arm/neon.h"
#include "kernel/variants.h"
#include "tensor/log8.h"

#include <string.h>

static ALWAYS_INLINE float f16_at(const uint8_t *p)
{
    return f32_from_f16(le_get16(p));
}

static ALWAYS_INLINE void fill(float *dst, float v, int n)
{
    for (int g = 0; g < n / KQ_GROUP; g++)
        dst[g] = v;
}

/* 16 bytes of nibbles: 32 codes, less off. */
static ALWAYS_INLINE void put_nibbles(int8_t *code, const uint8_t *p, uint8x16_t lo_top,
                                      uint8x16_t hi_top, int off)
{
    uint8x16_t v = vld1q_u8(p), offs = vdupq_n_u8((uint8_t)off);
    uint8x16_t lo = vorrq_u8(vandq_u8(v, vdupq_n_u8(15)), lo_top);
    uint8x16_t hi = vorrq_u8(vshrq_n_u8(v, 4), hi_top);

    vst1q_s8(code, vreinterpretq_s8_u8(vsubq_u8(lo, offs)));
    vst1q_s8(code + 16, vreinterpretq_s8_u8(vsubq_u8(hi, offs)));
}

/* Bits 0-15 of two bytes: all ones in the byte of each bit that is set. */
static ALWAYS_INLINE uint8x16_t spread_bits(const uint8_t *p)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                    1, 2, 4, 8, 16, 32, 64, 128};

    return vtstq_u8(vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1])), vld1q_u8(bit));
}

static ALWAYS_INLINE void put_5bits(int8_t *code, const uint8_t *p, const uint8_t *high,
                                    int off)
{
    const uint8x16_t sixteen = vdupq_n_u8(16);

    put_nibbles(code, p, vandq_u8(spread_bits(high), sixteen),
                vandq_u8(spread_bits(high + 2), sixteen), off);
}

void unpack_q4_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const uint8x16_t none = vdupq_n_u8(0);

    (void)min;
    for (int64_t b = 0; b < n / 32; b++, src += 18) {
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        put_nibbles(code + 32 * b, src + 2, none, none, 8);
    }
}

void unpack_q4_1_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const uint8x16_t none = vdupq_n_u8(0);

    for (int64_t b = 0; b < n / 32; b++, src += 20) {
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        min[2 * b] = min[2 * b + 1] = -f16_at(src + 2);
        put_nibbles(code + 32 * b, src + 4, none, none, 0);
    }
}

void unpack_q5_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / 32; b++, src += 22) {
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        put_5bits(code + 32 * b, src + 6, src + 2, 16);
    }
}

void unpack_q5_1_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    for (int64_t b = 0; b < n / 32; b++, src += 24) {
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        min[2 * b] = min[2 * b + 1] = -f16_at(src + 2);
        put_5bits(code + 32 * b, src + 8, src + 4, 0);
    }
}

void unpack_q8_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / 32; b++, src += 34) {
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        memcpy(code + 32 * b, src + 2, 32);
    }
}

void unpack_q1_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const uint8x16_t two = vdupq_n_u8(2), one = vdupq_n_u8(1);

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 18) {
        fill(scale + i / KQ_GROUP, f16_at(src), 128);
        for (int j = 0; j < 8; j++) {
            uint8x16_t v = vandq_u8(spread_bits(src + 2 + 2 * j), two);
            vst1q_s8(code + i + 16 * j, vreinterpretq_s8_u8(vsubq_u8(v, one)));
        }
    }
}

/* 16 bytes of four neighbouring codes each; vst4 puts neighbours together again. */
static ALWAYS_INLINE void put_2bits(int8_t *code, const uint8_t *p)
{
    const uint8x16_t three = vdupq_n_u8(3), one = vdupq_n_u8(1);
    uint8x16_t v = vld1q_u8(p);
    int8x16x4_t c;

    c.val[0] = vreinterpretq_s8_u8(vsubq_u8(vandq_u8(v, three), one));
    c.val[1] = vreinterpretq_s8_u8(vsubq_u8(vandq_u8(vshrq_n_u8(v, 2), three), one));
    c.val[2] = vreinterpretq_s8_u8(vsubq_u8(vandq_u8(vshrq_n_u8(v, 4), three), one));
    c.val[3] = vreinterpretq_s8_u8(vsubq_u8(vshrq_n_u8(v, 6), one));
    vst4q_s8(code, c);
}

void unpack_q2_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += 18) {
        fill(scale + i / KQ_GROUP, f16_at(src), 64);
        put_2bits(code + i, src + 2);
    }
}

void unpack_q2_0_g128_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                           int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 34) {
        fill(scale + i / KQ_GROUP, f16_at(src), 128);
        put_2bits(code + i, src + 2);
        put_2bits(code + i + 64, src + 18);
    }
}

void unpack_tq2_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                       int64_t n)
{
    const uint8x16_t three = vdupq_n_u8(3), one = vdupq_n_u8(1);

    (void)min;
    for (int64_t i = 0; i < n; i += 256, src += 66) {
        fill(scale + i / KQ_GROUP, f16_at(src + 64), 256);
        for (int part = 0; part < 4; part++) {
            uint8x16_t v = vld1q_u8(src + 16 * part);
            int8_t *to = code + i + 128 * (part / 2) + 16 * (part % 2);
            for (int l = 0; l < 4; l++) {
                vst1q_s8(to + 32 * l,
                         vreinterpretq_s8_u8(vsubq_u8(vandq_u8(v, three), one)));
                v = vshrq_n_u8(v, 2);
            }
        }
    }
}

/* Plane k of 32 columns in the bits from 6 - 2 k on. */
void unpack_i2_s_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const uint8x16_t three = vdupq_n_u8(3), one = vdupq_n_u8(1);

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 32) {
        fill(scale + i / KQ_GROUP, 1.0f, 128);
        for (int half = 0; half < 32; half += 16) {
            uint8x16_t v = vld1q_u8(src + half);
            for (int k = 3; k >= 0; k--) {
                vst1q_s8(code + i + 32 * k + half,
                         vreinterpretq_s8_u8(vsubq_u8(vandq_u8(v, three), one)));
                v = vshrq_n_u8(v, 2);
            }
        }
    }
}

/* The top digits of w, less one. */
static ALWAYS_INLINE int8x16_t digits(uint8x16_t w)
{
    uint8x16_t a = vcgeq_u8(w, vdupq_n_u8(86)), b = vcgeq_u8(w, vdupq_n_u8(171));

    return vsubq_s8(vdupq_n_s8(-1), vreinterpretq_s8_u8(vaddq_u8(a, b)));
}

static ALWAYS_INLINE uint8x16_t triple(uint8x16_t w)
{
    return vaddq_u8(w, vaddq_u8(w, w));
}

void unpack_tq1_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                       int64_t n)
{
    static const uint8_t powers[16] = {1, 1, 1, 1, 3,  3,  3,  3,
                                       9, 9, 9, 9, 27, 27, 27, 27};

    (void)min;
    for (int64_t i = 0; i < n; i += 256, src += 54, code += 256) {
        uint8x16_t a = vld1q_u8(src), b = vld1q_u8(src + 16), c = vld1q_u8(src + 32);
        fill(scale + i / KQ_GROUP, f16_at(src + 52), 256);
        for (int k = 0; k < 5; k++) {
            vst1q_s8(code + 32 * k, digits(a));
            vst1q_s8(code + 32 * k + 16, digits(b));
            vst1q_s8(code + 160 + 16 * k, digits(c));
            a = triple(a);
            b = triple(b);
            c = triple(c);
        }
        uint8x16_t last = vreinterpretq_u8_u32(vdupq_n_u32(le_get32(src + 48)));
        vst1q_s8(code + 240, digits(vmulq_u8(last, vld1q_u8(powers))));
    }
}

void unpack_ptq1_0_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    static const uint8_t powers[16] = {1, 1, 3, 3, 9, 9, 27, 27,
                                       1, 1, 3, 3, 9, 9, 27, 27};

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 28, code += 128) {
        uint8x16_t a = vld1q_u8(src);
        uint8x16_t b = vcombine_u8(vld1_u8(src + 16), vdup_n_u8(0));
        fill(scale + i / KQ_GROUP, f16_at(src + 26), 128);
        for (int k = 0; k < 5; k++) {
            vst1q_s8(code + 16 * k, digits(a));
            vst1_s8(code + 80 + 8 * k, vget_low_s8(digits(b)));
            a = triple(a);
            b = triple(b);
        }
        uint8x16_t last = vreinterpretq_u8_u16(vdupq_n_u16(le_get16(src + 24)));
        vst1_s8(code + 120, vget_low_s8(digits(vmulq_u8(last, vld1q_u8(powers)))));
    }
}

/* Each store writes four codes too many, which the next one puts right. */
void unpack_b2_t64_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += 14, code += 64) {
        unsigned last = src[12];
        /* Bytes 0-7 and 6-13: nothing behind the block is read. */
        uint8x8_t low = vld1_u8(src), high = vext_u8(vld1_u8(src + 6), low, 2);
        uint8x16_t w = vcombine_u8(low, high);
        fill(scale + i / KQ_GROUP, f32_from_log8(src[13]), 64);
        for (int k = 0; k < 5; k++) {
            vst1q_s8(code + 12 * k, digits(w));
            w = triple(w);
        }
        for (int k = 0; k < 4; k++) {
            code[60 + k] = (int8_t)((int)(3 * last >> 8) - 1);
            last = 3 * last & 255;
        }
    }
}
