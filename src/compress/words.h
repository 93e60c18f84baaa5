/*
 * words.h - the nearest words of four codes (tensor/quad.h).
 *
 * Two metrics. A diagonal one, for rounding weight by weight and for training: exact and
 * almost as cheap as rounding alone, because a word that is missing is that of four
 * non-zeros, and the nearest one then drops the code that costs least. A full one of four
 * columns, for error compensation: exact over all 64 words.
 */
#ifndef COMPRESS_WORDS_H
#define COMPRESS_WORDS_H

#include "tensor/quad.h"

/* Codes [n] of words that minimise the sum of imp (t - code)^2, word by word; n a multiple
 * of QUAD, t finite, imp [n] >= 0 or NULL: all 1. Halves round away from zero. */
void words_project(int8_t *code, const float *t, const float *imp, int64_t n);

/* A metric of four columns: (t - c) A (t - c)ᵀ. */
struct word_metric {
    float a[QUAD][QUAD];
    float own[QUAD_WORDS]; /* c A cᵀ of each word */
};

/* From the rows of a symmetric matrix, step floats apart. */
void word_metric_of(struct word_metric *m, const float *a, int64_t step);
/* From an upper triangle u, rows step floats apart: A = u⁻¹ u⁻ᵀ, what four columns lose when all later ones
 * make up for them. */
void word_metric_of_factor(struct word_metric *m, const float *u, int64_t step);

/* The word nearest to t, given r = t A. The first of equals by index. */
void word_nearest(int8_t *code, const struct word_metric *m, const float *r);

/* r = t A */
static inline void word_times(float *r, const struct word_metric *m, const float *t)
{
    for (int k = 0; k < QUAD; k++)
        r[k] = ((t[0] * m->a[0][k] + t[1] * m->a[1][k]) + t[2] * m->a[2][k]) +
               t[3] * m->a[3][k];
}

#endif
