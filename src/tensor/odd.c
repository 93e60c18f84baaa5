/*
 * odd.c - B2_Q2 and B2_Q3: blocks of 64 weights with 4 or 8 odd levels
 * (format/private.h).
 *
 *   w = d * (2 c - L)     c = 0 .. L, L = 3 or 7; d a scale of one byte (log8.h)
 *
 * Levels at odd multiples of d divide a range that is even about zero into equal steps,
 * with none wasted on a zero that weights are never exactly: .119 and .0375 of a Gaussian's
 * energy are lost, where codes of -2 to 1 and -4 to 3 lose .14 and .044.
 *
 * The encoder tries every scale of the byte that can be the best one: no closer block of
 * this type exists.
 */
#include "tensor/log8.h"
#include "tensor/quant_int.h"

#include <string.h>

enum { BLOCK = 64, LOW = 16, DOWN = 40, UP = 24 };

static int top_of(enum dtype t)
{
    return t == DT_B2_Q2 ? 3 : 7;
}

static int scale_at(enum dtype t)
{
    return t == DT_B2_Q2 ? LOW : LOW + BLOCK / 8;
}

/* The level number of w in units of a scale, inv = 1 / d. */
static int level(float w, float inv, int top)
{
    float c = (w * inv + (float)top) * 0.5f + 0.5f;

    c = c < 0.0f ? 0.0f : c > (float)top ? (float)top : c;
    return (int)c;
}

static double error_with(const float *x, float d, int top)
{
    const float inv = quant_inverse(d);
    double sum = 0.0;

    for (int i = 0; i < BLOCK; i++) {
        const double e =
            (double)x[i] - (double)(d * (float)(2 * level(x[i], inv, top) - top));
        sum += e * e;
    }
    return sum;
}

/* The byte of the best scale, from well below the one that puts the largest weight on the
 * last level up to the one that puts it on the first. */
static uint8_t best_scale(const float *x, int top)
{
    float most = 0.0f;
    double least = HUGE_VAL;
    int best = 0;

    for (int i = 0; i < BLOCK; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const int start = log8_from_f32(most / (float)top);
    for (int q = start - DOWN; q <= start + UP; q++) {
        if (q < 0 || q > 255)
            continue;
        const double e = error_with(x, f32_from_log8((uint8_t)q), top);
        if (e < least) {
            least = e;
            best = q;
        }
    }
    return (uint8_t)best;
}

void quant_odd_join(enum dtype t, uint8_t *dst, const int8_t *code, float d)
{
    const int top = top_of(t), at = scale_at(t);

    memset(dst, 0, (size_t)at);
    for (int i = 0; i < BLOCK; i++) {
        const unsigned c = (unsigned)(code[i] + top) / 2;
        dst[i % LOW] |= (uint8_t)((c & 3) << 2 * (i / LOW));
        if (top > 3)
            dst[LOW + i % 8] |= (uint8_t)((c >> 2) << i / 8);
    }
    dst[at] = log8_from_f32(d);
}

void quant_odd_encode(enum dtype t, uint8_t *dst, const float *src, int64_t n_blocks)
{
    const int top = top_of(t);

    for (int64_t b = 0; b < n_blocks; b++, src += BLOCK, dst += scale_at(t) + 1) {
        const float d = f32_from_log8(best_scale(src, top));
        const float inv = quant_inverse(d);
        int8_t code[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            code[i] = (int8_t)(2 * level(src[i], inv, top) - top);
        quant_odd_join(t, dst, code, d);
    }
}

void quant_odd_decode(enum dtype t, float *dst, const uint8_t *src, int64_t n_blocks)
{
    const int top = top_of(t), at = scale_at(t);

    for (int64_t b = 0; b < n_blocks; b++, src += at + 1, dst += BLOCK) {
        const float d = f32_from_log8(src[at]);
        for (int i = 0; i < BLOCK; i++) {
            int c = src[i % LOW] >> 2 * (i / LOW) & 3;
            if (top > 3)
                c |= (src[LOW + i % 8] >> i / 8 & 1) << 2;
            dst[i] = d * (float)(2 * c - top);
        }
    }
}
