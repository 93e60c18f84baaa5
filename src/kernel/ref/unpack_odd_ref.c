/*
 * unpack_odd_ref.c - rows of 4 or 8 odd levels (format/private.h) to codes and scales.
 * Scalar.
 */
#include "kernel/variants.h"
#include "tensor/log8.h"

enum { BLOCK = 64, LOW = 16 };

static void unpack_odd(int8_t *code, float *scale, const uint8_t *src, int64_t n,
                       int top)
{
    const int at = top > 3 ? LOW + BLOCK / 8 : LOW;

    for (int64_t i = 0; i < n; i += BLOCK, src += at + 1) {
        for (int g = 0; g < BLOCK / KQ_GROUP; g++)
            scale[i / KQ_GROUP + g] = f32_from_log8(src[at]);
        for (int j = 0; j < BLOCK; j++) {
            int c = src[j % LOW] >> 2 * (j / LOW) & 3;
            if (top > 3)
                c |= (src[LOW + j % 8] >> j / 8 & 1) << 2;
            code[i + j] = (int8_t)(2 * c - top);
        }
    }
}

void unpack_b2_q2_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                    int64_t n)
{
    (void)min;
    unpack_odd(code, scale, src, n, 3);
}

void unpack_b2_q3_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                    int64_t n)
{
    (void)min;
    unpack_odd(code, scale, src, n, 7);
}
