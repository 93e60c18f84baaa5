/*
 * unpack_quad_neon.c - rows of words of four codes (tensor/quad.h) to codes and scales, in
 * NEON: one look-up in 64 bytes gives a word's four 2-bit codes.
 */
#include "kernel/arm/neon.h"
#include "kernel/variants.h"
#include "tensor/log8.h"
#include "tensor/quad.h"

static ALWAYS_INLINE uint8x16x4_t words_table(void)
{
    uint8x16x4_t t;

    for (int i = 0; i < 4; i++)
        t.val[i] = vaddq_u8(vreinterpretq_u8_s8(vld1q_s8(quad_value + 16 * i)),
                            vdupq_n_u8(85));
    return t;
}

/* 16 words to 64 codes: low has the low four bits of their indices, high the high two in
 * bits 0 and 1; other bits of high are anything. */
static ALWAYS_INLINE void put_words(int8_t *code, uint8x16_t low, uint8x16_t high,
                                    uint8x16x4_t table)
{
    const uint8x16_t three = vdupq_n_u8(3);
    const int8x16_t one = vdupq_n_s8(1);
    uint8x16_t index = vorrq_u8(low, vshlq_n_u8(vandq_u8(high, three), 4));
    uint8x16_t v = vqtbl4q_u8(table, index);
    int8x16x4_t c;

    c.val[0] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(v, three)), one);
    c.val[1] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(v, 2), three)), one);
    c.val[2] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(v, 4), three)), one);
    c.val[3] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(v, 6)), one);
    vst4q_s8(code, c);
}

void unpack_b2_c128_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                         int64_t n)
{
    const uint8x16x4_t table = words_table();

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 25) {
        uint8x16_t low = vld1q_u8(src);
        uint8x8_t h = vld1_u8(src + 16);
        float32x4_t d = vdupq_n_f32(f32_from_log8(src[24]));
        vst1q_f32(scale + i / KQ_GROUP, d);
        vst1q_f32(scale + i / KQ_GROUP + 4, d);
        put_words(code + i, vandq_u8(low, vdupq_n_u8(15)),
                  vcombine_u8(h, vshr_n_u8(h, 2)), table);
        put_words(code + i + 64, vshrq_n_u8(low, 4),
                  vcombine_u8(vshr_n_u8(h, 4), vshr_n_u8(h, 6)), table);
    }
}

void unpack_b2_c64_neon(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    static const int8_t right[16] = {0,  0,  0,  0,  -2, -2, -2, -2,
                                     -4, -4, -4, -4, -6, -6, -6, -6};
    static const uint8_t four[16] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    const uint8x16x4_t table = words_table();

    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += 13) {
        uint8x8_t low = vld1_u8(src);
        uint8x8_t last = vld1_u8(src + 5); /* bytes 3 to 6: the high bits */
        uint8x16_t h = vqtbl1q_u8(vcombine_u8(last, last),
                                  vaddq_u8(vld1q_u8(four), vdupq_n_u8(3)));
        vst1q_f32(scale + i / KQ_GROUP, vdupq_n_f32(f32_from_log8(src[12])));
        put_words(code + i, vcombine_u8(vand_u8(low, vdup_n_u8(15)), vshr_n_u8(low, 4)),
                  vshlq_u8(h, vld1q_s8(right)), table);
    }
}
