/*
 * attn.h - inner loops of attention over a cache of keys and values.
 *
 * Included by kernel.h, whose rules hold: the scalar functions of ref/attn_ref.c define
 * the bits, products are rounded, then added.
 *
 * A cache row is one head's key or value at one position: dim values as F16, or as 8-bit
 * or 4-bit codes with an F16 scale for each KV_BLOCK of them, x = scale * code. Codes of
 * neighbouring positions follow each other, and so do their scales of one block, so that
 * eight positions are scored at once. Both codes give exact products in F32 (11 bits by
 * 8), so a decoded value has no rounding of its own.
 *
 * Codes in 8 bits are -127..127. In 4 bits, code + 8 is 0..15, and byte i of a block
 * holds value i in its low half and value i + 16 in its high half, as in Q4_0.
 */
#ifndef KERNEL_ATTN_H
#define KERNEL_ATTN_H

#include <stdint.h>

struct kf_mat;

enum {
    KV_BLOCK = 32,        /* values that share a scale */
    KV_QUERY_MAX = 32767, /* 32 * 127 * 32767 < 2^31 */
};

/* n positions of one head's keys or values. */
struct kv_rows {
    const uint8_t *row;    /* position p at row + p * row_bytes */
    int64_t row_bytes;     /* 2 * dim, dim or dim / 2 */
    const uint16_t *scale; /* of block b at p: scale[b * scale_step + p]; F16: NULL */
    int64_t scale_step;
    int64_t n, dim; /* dim a multiple of KV_BLOCK unless F16 */
};

/* Queries in 16 bits: with 8 they would cost as much again as keys and values in 8 bits do,
 * and a product of pairs takes words anyway. */
struct kv_query {
    int16_t *code; /* [rows][dim] -KV_QUERY_MAX..KV_QUERY_MAX */
    float *scale;  /* [rows][dim / KV_BLOCK] */
    int64_t rows, dim;
};

struct kernels_attn {
    /* One row into a cache: scale[b * scale_step] for each block. Q8_0: scale = F16 of
     * max|x| / 127; Q4_0: F16 of the value of largest magnitude (the first of several) /
     * -8. code = x * (1 / scale), rounded to nearest, ties to even, and cut to the codes
     * there are. A block with NaN or infinity has scale NaN and codes 0; so has one whose
     * scale has no finite inverse, but with its scale. */
    void (*put_q8)(uint8_t *code, uint16_t *scale, int64_t scale_step, const float *x,
                   int64_t dim);
    void (*put_q4)(uint8_t *code, uint16_t *scale, int64_t scale_step, const float *x,
                   int64_t dim);

    /* Row r of q from x [dim]: as put_q8, with scale = max|x| / KV_QUERY_MAX in F32. */
    void (*query)(const struct kv_query *q, int64_t r, const float *x);

    /* 4-bit codes as bytes: dst [n][dim]; the scales stay where they are. */
    void (*widen_q4)(int8_t *dst, const struct kv_rows *rows);
    /* dst [n][dim] = scale * code of 8-bit rows. */
    void (*get_q8)(float *dst, const struct kv_rows *rows);

    /* y[r * y_step + p] = query row r times key p. In 8 bits: for the blocks in order,
     * acc += (key scale * query scale) * (float)(sum of products of codes). In F16: fdot
     * on the decoded keys. */
    void (*score_q8)(float *y, int64_t y_step, const struct kv_rows *k,
                     const struct kv_query *q);
    void (*score_f16)(float *y, int64_t y_step, const struct kv_rows *k,
                      const struct kf_mat *q);

    /* out[r * dim + i] += w[r * w_step + p] * value p, for p in order: weighted_sum on
     * the decoded values, for several rows of weights. */
    void (*mix_q8)(float *out, const float *w, int64_t w_step, int64_t rows,
                   const struct kv_rows *v);
    void (*mix_f16)(float *out, const float *w, int64_t w_step, int64_t rows,
                    const struct kv_rows *v);
};

#endif
