/*
 * embed.h - token embeddings, forward and backward.
 */
#ifndef TRAIN_EMBED_H
#define TRAIN_EMBED_H

#include "train/mm.h"

struct embed {
    const real *table; /* [V, d] */
    int64_t d;
    real scale; /* of what is looked up; 1: none */
};

/* x [n, d] = the ids' rows */
void embed_forward(const struct env *e, real *x, const struct embed *w,
                   const int32_t *ids, int64_t n);

/* dtable [V, d] += what each token's row got, tokens in order. */
void embed_backward(const struct env *e, real *dtable, const struct embed *w,
                    const real *dx, const int32_t *ids, int64_t n);

#endif
