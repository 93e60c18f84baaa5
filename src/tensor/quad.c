/*
 * quad.c - the two tables of the words, and the bytes that hold their indices.
 */
#include "tensor/quad.h"

#include <math.h>

enum { MIDDLE = 85, N_VALUES = 2 * MIDDLE + 1 }; /* of four codes that are all +1: 85 */

const int8_t quad_value[QUAD_WORDS] = {
    0,   81,  80,  79,  76,  69,  68,  67,  65,  64,  63,  61,  60,  59,  52,  49,
    48,  47,  44,  21,  20,  19,  17,  16,  15,  13,  12,  11,  5,   4,   3,   1,
    -84, -81, -80, -79, -76, -69, -68, -67, -65, -64, -63, -61, -60, -59, -52, -49,
    -48, -47, -44, -21, -20, -19, -17, -16, -15, -13, -12, -11, -5,  -4,  -3,  -1,
};

/* The index of each value from -85 on. */
static const int8_t index_of[N_VALUES] = {
    -1, 32, -1, -1, 33, 34, 35, -1, -1, 36, -1, -1, -1, -1, -1, -1, 37, 38, 39,
    -1, 40, 41, 42, -1, 43, 44, 45, -1, -1, -1, -1, -1, -1, 46, -1, -1, 47, 48,
    49, -1, -1, 50, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, 51, 52, 53, -1, 54, 55, 56, -1, 57, 58, 59, -1,
    -1, -1, -1, -1, 60, 61, 62, -1, 63, 0,  31, -1, 30, 29, 28, -1, -1, -1, -1,
    -1, 27, 26, 25, -1, 24, 23, 22, -1, 21, 20, 19, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 18, -1, -1, 17,
    16, 15, -1, -1, 14, -1, -1, -1, -1, -1, -1, 13, 12, 11, -1, 10, 9,  8,  -1,
    7,  6,  5,  -1, -1, -1, -1, -1, -1, 4,  -1, -1, 3,  2,  1,  -1, -1, -1, -1,
};

int quad_index(const int8_t *code)
{
    return index_of[MIDDLE + code[0] + 4 * code[1] + 16 * code[2] + 64 * code[3]];
}

void quad_unpack(int8_t *code, const uint8_t *src, int n_words)
{
    const uint8_t *high = src + n_words / 2;
    int half = n_words / 2, quarter = n_words / 4;

    for (int w = 0; w < n_words; w++) {
        unsigned lo = src[w % half] >> 4 * (w / half) & 15;
        unsigned hi = high[w % quarter] >> 2 * (w / quarter) & 3;
        unsigned v = (unsigned)(quad_value[lo | hi << 4] + MIDDLE);
        for (int k = 0; k < QUAD; k++)
            code[QUAD * w + k] = (int8_t)((int)(v >> 2 * k & 3) - 1);
    }
}

/* The index of the codes, or of what remains of them without the last one. */
static unsigned index_or_less(const int8_t *code)
{
    int index = quad_index(code);
    const int8_t less[QUAD] = {code[0], code[1], code[2], 0};

    return (unsigned)(index >= 0 ? index : quad_index(less));
}

void quad_pack(uint8_t *dst, const int8_t *code, int n_words)
{
    uint8_t *high = dst + n_words / 2;
    int half = n_words / 2, quarter = n_words / 4;

    for (int i = 0; i < half + quarter; i++)
        dst[i] = 0;
    for (int w = 0; w < n_words; w++) {
        unsigned index = index_or_less(code + QUAD * w);
        dst[w % half] |= (uint8_t)((index & 15) << 4 * (w / half));
        high[w % quarter] |= (uint8_t)(index >> 4 << 2 * (w / quarter));
    }
}

void quad_drop_smallest(int8_t *code, const float *x, int n)
{
    for (int i = 0; i < n; i += QUAD) {
        while (quad_index(code + i) < 0) {
            int least = -1;
            for (int k = 0; k < QUAD; k++)
                if (code[i + k] != 0 &&
                    (least < 0 || fabsf(x[i + k]) <= fabsf(x[i + least])))
                    least = k;
            code[i + least] = 0;
        }
    }
}
