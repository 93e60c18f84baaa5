/*
 * brings.h - what tokens bring to groups of ternary codes, laid out for the products.
 *
 * Once for all rows of a call: a group's dwords and its factor lie side by side, and beside
 * those of the other tokens that meet the group in registers. A product then needs one
 * pointer instead of three for each token, and rows of an activation as they lie would meet
 * in the same few lines of the cache.
 */
#ifndef KERNEL_X86_BRINGS_H
#define KERNEL_X86_BRINGS_H

#include "kernel/x86/avx2.h"

enum {
    QUADS = 4, /* lines of a group of KQ_GROUP positions, four codes each */
    FEW = 4,   /* the most tokens that lie side by side */
};

/* The form of the activation that a type's lines meet: q by position, or the planes of p,
 * where codes of a byte are neighbouring columns. */
enum line_order { LINES_BY_POSITION, LINES_BY_PLANE };

/* What a token brings to a group: its codes, and its factor, once in the lower half of e
 * or in both. */
struct brings {
    int32_t q[QUADS], e;
};

/* A stretch of groups, blocks of 1 << block_log. */
struct stretch {
    const struct kq_act *x;
    int64_t g;
    int n_g, block_log;
    enum line_order order;
    bool twice; /* factors */
};

/* Eight groups of a token out of planes of eight dwords each; tokens are n_t places apart. */
static ALWAYS_INLINE void lay_planes(struct brings *a, int n_t, const int8_t *p)
{
    __m256i v[QUADS], w[QUADS];

    for (int l = 0; l < QUADS; l++)
        v[l] = load256(p + 32 * l);
    for (int l = 0; l < 2; l++) {
        w[2 * l] = _mm256_unpacklo_epi32(v[2 * l], v[2 * l + 1]);
        w[2 * l + 1] = _mm256_unpackhi_epi32(v[2 * l], v[2 * l + 1]);
    }
    for (int l = 0; l < 2; l++) {
        v[2 * l] = _mm256_unpacklo_epi64(w[l], w[l + 2]);
        v[2 * l + 1] = _mm256_unpackhi_epi64(w[l], w[l + 2]);
    }
    for (int l = 0; l < QUADS; l++) {
        store128(a[l * n_t].q, _mm256_castsi256_si128(v[l]));
        store128(a[(l + 4) * n_t].q, _mm256_extracti128_si256(v[l], 1));
    }
}

/* Four groups, half a unit at the end of a row. */
static ALWAYS_INLINE void lay_half_planes(struct brings *a, int n_t, const int8_t *p)
{
    for (int g = 0; g < 4; g++, a += n_t)
        for (int l = 0; l < QUADS; l++)
            memcpy(&a->q[l], p + 4 * (4 * l + g), sizeof a->q[l]);
}

/* What token t brings to the stretch, to a by group and to lows by block (the sum of e * q,
 * negative); n_t tokens lie side by side in both. */
static inline void lay_token(struct brings *a, int32_t *lows, const struct stretch *s,
                             int64_t t, int n_t)
{
    const struct kq_act *x = s->x;
    const int64_t at = t * x->n + s->g * KQ_GROUP;
    const int8_t *p = (s->order == LINES_BY_PLANE ? x->p : x->q) + at;
    const int16_t *e = x->e + at / 2;
    const int32_t *sum = x->sum + t * (x->n / KQ_GROUP + 1) + s->g;
    const int32_t factor = s->twice ? 0x10001 : 1;
    const int n_g = s->n_g, block = 1 << s->block_log;
    int g = 0;

    if (s->order == LINES_BY_POSITION)
        for (; g < n_g; g++)
            memcpy(a[g * n_t].q, p + (ptrdiff_t)g * KQ_GROUP, KQ_GROUP);
    for (; g + 8 <= n_g; g += 8) /* units of 128 columns */
        lay_planes(a + g * n_t, n_t, p + (ptrdiff_t)g * KQ_GROUP);
    if (g < n_g)
        lay_half_planes(a + g * n_t, n_t, p + (ptrdiff_t)g * KQ_GROUP);
    for (g = 0; g < n_g; g++)
        a[g * n_t].e = e[(ptrdiff_t)g * KQ_GROUP / 2] * factor;
    for (g = 0; g < n_g; g += block, lows += n_t)
        *lows = (int32_t)((uint32_t)sum[g] - (uint32_t)sum[g + block]);
}

/* Tokens t..t + n_t - 1 by FEW, the last of them by what is left. */
static inline void lay_tokens(struct brings *a, int32_t *lows, const struct stretch *s,
                              int64_t t, int n_t)
{
    for (int j = 0; j < n_t; j++) {
        int first = j & -FEW, side = n_t - first < FEW ? n_t - first : FEW;
        lay_token(a + first * s->n_g + j - first,
                  lows + first * (s->n_g >> s->block_log) + j - first, s, t + j, side);
    }
}

#endif
