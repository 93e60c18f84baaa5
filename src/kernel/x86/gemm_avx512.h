/*
 * gemm_avx512.h - panels of unpacked rows, and the activations' part of a chunk.
 *
 * Sixteen rows are a panel: a register has 4 columns of each, so that a lane is a row and
 * no sum ever crosses lanes. A panel is woven from the unpacked rows once for each chunk
 * of columns and meets all tokens. Included by files built with AVX-512 alone.
 */
#ifndef KERNEL_X86_GEMM_AVX512_H
#define KERNEL_X86_GEMM_AVX512_H

#include "kernel/x86/avx2.h"

#include <string.h>

enum {
    ROWS = 16,   /* of a panel: lanes of a register */
    PANELS = 4,  /* that share what is laid out of the activations */
    TOKENS = 64, /* at a time */
    CHUNK = 256, /* columns at a time: whole blocks of every type */
    GROUPS = CHUNK / KQ_GROUP,
};

/* Codes are unsigned: kq_mat.code + low. Quad i has columns 4 i.. of each row. */
struct panel {
    uint8_t code[CHUNK / 4][4 * ROWS];
    float scale[GROUPS][ROWS], min[GROUPS][ROWS]; /* at the first group of a block */
};

/* The activations' part of a chunk. */
struct chunk_act {
    int32_t e[TOKENS][GROUPS];
    int32_t lows[TOKENS][GROUPS]; /* - low * sum of e * q over the block */
    float sum[TOKENS][GROUPS];    /* of e * q over the block, by the block's number */
};

/* What a product's parts share. */
struct gemm {
    const struct kq_mat *w;
    const struct kq_act *x;
    int64_t r, t, c;                       /* first row, token, column */
    int n_panels, n_tokens, cols, n_block; /* n_block: blocks of the chunk */
    int block_groups; /* groups of a block; the last may have fewer */
    struct chunk_act act;
    struct panel panel;
    float acc[PANELS][TOKENS][ROWS];
};

/* The 16 bytes at p of rows k, k + 4, k + 8, k + 12, where n_lanes dwords exist. */
static ALWAYS_INLINE __m512i four_rows(const uint8_t *const *row, int k, int64_t at,
                                       __mmask8 lanes)
{
    __m512i v = _mm512_castsi128_si512(_mm_maskz_loadu_epi32(lanes, row[k] + at));

    v = _mm512_inserti32x4(v, _mm_maskz_loadu_epi32(lanes, row[k + 4] + at), 1);
    v = _mm512_inserti32x4(v, _mm_maskz_loadu_epi32(lanes, row[k + 8] + at), 2);
    return _mm512_inserti32x4(v, _mm_maskz_loadu_epi32(lanes, row[k + 12] + at), 3);
}

/* Four dwords of each of sixteen rows: out[i] has dword i of all rows, in their order. */
static ALWAYS_INLINE void weave(__m512i *out, const uint8_t *const *row, int64_t at,
                                __mmask8 lanes)
{
    __m512i a = four_rows(row, 0, at, lanes), b = four_rows(row, 1, at, lanes);
    __m512i c = four_rows(row, 2, at, lanes), d = four_rows(row, 3, at, lanes);
    __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);

    out[0] = _mm512_unpacklo_epi64(ab0, cd0);
    out[1] = _mm512_unpackhi_epi64(ab0, cd0);
    out[2] = _mm512_unpacklo_epi64(ab1, cd1);
    out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

/* Numbers of a block's first group, of all rows. */
static inline void weave_floats(float (*out)[ROWS], const struct gemm *m,
                                const float *const *from)
{
    int n = m->cols / KQ_GROUP;
    const uint8_t *row[ROWS];

    for (int i = 0; i < ROWS; i++)
        row[i] = (const uint8_t *)from[i];
    for (int g = 0; g < n; g += 4) {
        __m512i v[4];
        if (g % m->block_groups)
            continue;
        weave(v, row, g * (int64_t)sizeof(float),
              (__mmask8)(n - g >= 4 ? 15 : (1 << (n - g)) - 1));
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(out[g + i], v[i]);
    }
}

/* Rows from r on; those beyond the last are the last. */
static inline void fill_panel(struct gemm *m, int64_t r)
{
    const struct kq_mat *w = m->w;
    const __m512i low = _mm512_set1_epi8((char)(w->low < 0 ? -128 : w->low));
    const float *scale[ROWS], *min[ROWS];
    const uint8_t *row[ROWS];

    for (int i = 0; i < ROWS; i++) {
        int64_t at = min_i64(r + i, w->rows - 1);
        row[i] = (const uint8_t *)w->code + at * w->code_step + m->c;
        scale[i] = w->scale + at * w->group_step + m->c / KQ_GROUP;
        min[i] = w->min ? w->min + at * w->group_step + m->c / KQ_GROUP : NULL;
    }
    for (int c = 0; c < m->cols; c += 16) {
        __m512i v[4];
        weave(v, row, c, 15);
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(m->panel.code[c / 4 + i], _mm512_add_epi8(v[i], low));
    }
    weave_floats(m->panel.scale, m, scale);
    if (w->min)
        weave_floats(m->panel.min, m, min);
}

/* One factor of each of n groups, which has eight of them. */
static ALWAYS_INLINE void fill_factors(int32_t *to, const int16_t *e, int n)
{
    const __m512i firsts =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i v[4];

    for (int i = 0; i < 4; i++) {
        int left = 4 * n - 16 * i; /* pairs of factors */
        __mmask16 there = (__mmask16)(left >= 16 ? 0xffff
                                      : left > 0 ? (1 << left) - 1
                                                 : 0);
        v[i] = _mm512_maskz_loadu_epi32(there, e + 32 * i);
    }
    v[0] = _mm512_permutex2var_epi32(v[0], firsts, v[1]);
    v[2] = _mm512_permutex2var_epi32(v[2], firsts, v[3]);
    v[0] = _mm512_inserti64x4(v[0], _mm512_castsi512_si256(v[2]), 1);
    _mm512_storeu_si512(to, _mm512_and_si512(v[0], _mm512_set1_epi32(0xffff)));
}

static inline void fill_act(struct gemm *m)
{
    const struct kq_act *x = m->x;
    int n = m->cols / KQ_GROUP, low = m->w->low < 0 ? 128 : m->w->low;
    int64_t g = m->c / KQ_GROUP;

    for (int j = 0; j < m->n_tokens; j++) {
        int64_t t = m->t + j;
        const int32_t *sum = x->sum + t * (x->n / KQ_GROUP + 1) + g;
        fill_factors(m->act.e[j], x->e + (t * x->n + m->c) / 2, n);
        for (int b = 0; b < m->n_block; b++) {
            int from = b * m->block_groups, to = from + m->block_groups;
            uint32_t s = (uint32_t)sum[to < n ? to : n] - (uint32_t)sum[from];
            m->act.lows[j][b] = -(int32_t)((uint32_t)low * s);
            m->act.sum[j][b] = (float)(int32_t)s;
        }
    }
}

/* Results of all panels and tokens of m. */
static inline void put_results(const struct gemm *m, float *y, int64_t y_step)
{
    for (int p = 0; p < m->n_panels; p++) {
        int64_t r = m->r + p * ROWS, left = m->w->rows - r;
        __mmask16 mask = (__mmask16)(left >= ROWS ? 0xffff : (1 << left) - 1);
        for (int j = 0; j < m->n_tokens; j++) {
            __m512 v = _mm512_mul_ps(_mm512_set1_ps(m->x->d[m->t + j]),
                                     _mm512_loadu_ps(m->acc[p][j]));
            _mm512_mask_storeu_ps(y + (m->t + j) * y_step + r, mask, v);
        }
    }
}

/* Starts chunk c. */
static inline void begin_chunk(struct gemm *m, int64_t c)
{
    m->c = c;
    m->cols = (int)min_i64(CHUNK, m->x->n - c);
    m->n_block = (m->cols + m->w->block - 1) / m->w->block;
    fill_act(m);
}

#endif
