/*
 * hadamard.c - butterflies, and the matrices of orders 12, 20 and 28.
 */
#include "tensor/hadamard.h"

#include <math.h>
#include <string.h>

enum { MAX_ORDER = 28, LANES = 8 };

/* Bit c of row r: the entry is -1. From the quadratic residues of 11 and 19 (Paley 1933,
 * first construction, the columns of the core taken backwards) and of 13 (second). */
static const struct {
    int order, odd; /* 4 * odd */
    uint32_t minus[MAX_ORDER];
} paley[] = {
    {12,
     3,
     {0x000, 0xb8a, 0xdc4, 0x6e2, 0xb70, 0x5b8, 0x2dc, 0x16e, 0x8b6, 0xc5a, 0xe2c,
      0x716}},
    {20, 5, {0x00000, 0x9ea1a, 0xcf50c, 0x67a86, 0xb3d42, 0xd9ea0, 0x6cf50,
             0x367a8, 0x1b3d4, 0x0d9ea, 0x86cf4, 0x4367a, 0xa1b3c, 0x50d9e,
             0xa86ce, 0xd4366, 0xea1b2, 0xf50d8, 0x7a86c, 0x3d436}},
    {28, 7, {0x0004000, 0x4f293c8, 0x9e52790, 0x3ca8f22, 0x7951e44, 0xf2a3c88,
             0xe54b912, 0xca9b226, 0x953a44e, 0x2a7889e, 0x54f113c, 0xa9e2278,
             0x53c84f2, 0xa7909e4, 0xfffc001, 0xb0dd3ca, 0x61be794, 0xc374f2a,
             0x86ede54, 0x0ddfca8, 0x1bb7952, 0x37672a6, 0x6ec654e, 0xdd84a9e,
             0xbb0d53c, 0x761ea78, 0xec354f2, 0xd86e9e4}},
};

enum { N_PALEY = sizeof paley / sizeof paley[0] };

int64_t hadamard_pow2(int64_t block)
{
    for (int p = 0; p < N_PALEY; p++)
        while (block % paley[p].odd == 0)
            block /= paley[p].order;
    return block;
}

bool hadamard_exists(int64_t block)
{
    int64_t odd = block, twos = 1;

    while (odd > 0 && odd % 2 == 0) {
        odd /= 2;
        twos *= 2;
    }
    for (int p = 0; p < N_PALEY; p++) {
        for (; odd > 0 && odd % paley[p].odd == 0; odd /= paley[p].odd) {
            if (twos % 4 != 0)
                return false;
            twos /= 4;
        }
    }
    return odd == 1;
}

int64_t hadamard_largest(int64_t n)
{
    for (int64_t parts = 1; parts < n; parts++)
        if (n % parts == 0 && hadamard_exists(n / parts))
            return n / parts;
    return 1;
}

/* n <= LANES columns that begin at x: [order] rows, stride apart. */
static void multiply(float *x, int64_t stride, int n, int order, const uint32_t *minus)
{
    float in[MAX_ORDER][LANES] = {{0}}, sum[LANES];

    for (int c = 0; c < order; c++)
        memcpy(in[c], x + c * stride, (size_t)n * sizeof *x);
    for (int r = 0; r < order; r++) {
        float sign = minus[r] & 1 ? -1.0f : 1.0f;
        for (int i = 0; i < LANES; i++)
            sum[i] = sign * in[0][i];
        for (int c = 1; c < order; c++) {
            sign = minus[r] >> c & 1 ? -1.0f : 1.0f;
            for (int i = 0; i < LANES; i++)
                sum[i] +=
                    sign * in[c][i]; /* exact product: fused or not, the same bits */
        }
        memcpy(x + r * stride, sum, (size_t)n * sizeof *x);
    }
}

void hadamard_rest(float *x, int64_t n, int64_t block)
{
    int64_t len = hadamard_pow2(block), left = block / len;

    for (int p = 0; p < N_PALEY; p++) {
        for (; left % paley[p].odd == 0; left /= paley[p].order) {
            for (int64_t at = 0; at < n; at += len * paley[p].order)
                for (int64_t i = 0; i < len; i += LANES)
                    multiply(x + at + i, len, len - i < LANES ? (int)(len - i) : LANES,
                             paley[p].order, paley[p].minus);
            len *= paley[p].order;
        }
    }
}

void hadamard_apply(float *x, int64_t n, int64_t block)
{
    float scale = 1.0f / sqrtf((float)block);
    int64_t pow2 = hadamard_pow2(block);

    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
    for (int64_t len = 1; len < pow2; len *= 2) {
        for (int64_t i = 0; i < n; i += 2 * len) {
            for (int64_t j = i; j < i + len; j++) {
                float u = x[j], v = x[j + len];
                x[j] = u + v;
                x[j + len] = u - v;
            }
        }
    }
    hadamard_rest(x, n, block);
}
