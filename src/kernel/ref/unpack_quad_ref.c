/*
 * unpack_quad_ref.c - rows of words of four codes (tensor/quad.h) to codes and scales.
 * Scalar.
 */
#include "kernel/variants.h"
#include "tensor/log8.h"
#include "tensor/quad.h"

static void unpack_words(int8_t *code, float *scale, const uint8_t *src, int64_t n,
                         int block)
{
    int n_words = block / QUAD, code_bytes = n_words / 4 * 3;

    for (int64_t i = 0; i < n; i += block, src += code_bytes + 1) {
        float d = f32_from_log8(src[code_bytes]);
        for (int g = 0; g < block / KQ_GROUP; g++)
            scale[i / KQ_GROUP + g] = d;
        quad_unpack(code + i, src, n_words);
    }
}

void unpack_b2_c128_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    unpack_words(code, scale, src, n, 128);
}

void unpack_b2_c64_c(int8_t *code, float *scale, float *min, const uint8_t *src,
                     int64_t n)
{
    (void)min;
    unpack_words(code, scale, src, n, 64);
}
