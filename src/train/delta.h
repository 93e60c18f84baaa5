/*
 * delta.h - the gated delta rule, forward and backward, over whole sequences.
 *
 *   g = rate softplus(decay + bias),  b = sigmoid(beta),  q, k = q/|q|, k/|k|
 *   S <- e^g S;  d = b (v - k S);  S <- S + k^T d;  out = q S / sqrt(k_dim)
 *
 * S [k_dim, v_dim] is a head's state, zero where a document starts. Value head j reads
 * key head j mod k_heads. Tokens are taken in chunks (arXiv:2412.06464, section 3.3), so
 * that most of the work is products of matrices; of the states only those at starts of
 * chunks are kept, for one head at a time, in the backward pass, which makes the rest
 * again.
 */
#ifndef TRAIN_DELTA_H
#define TRAIN_DELTA_H

#include "train/mm.h"

struct delta {
    int64_t k_heads, v_heads, k_dim, v_dim; /* v_heads: a multiple of k_heads */
    real eps;                               /* least length of q and k */
    const real *rate, *bias;                /* [v_heads] */
    int64_t n_seqs, ctx;                    /* tokens [n_seqs, ctx] */
    const int32_t *first;                   /* see attn.h */
    real *scratch;                          /* delta_scratch() reals for each thread */
};

int64_t delta_scratch(const struct delta *d);

struct delta_in {
    const real *qkv;          /* [tokens, delta_width()]: q, k [k_heads, k_dim], v */
    const real *decay, *beta; /* [tokens, v_heads] */
};
struct delta_grad {
    real *qkv, *decay, *beta; /* written */
    real *rate, *bias;        /* [v_heads], added to; NULL: not wanted */
};

static inline int64_t delta_width(const struct delta *d)
{
    return 2 * d->k_heads * d->k_dim + d->v_heads * d->v_dim;
}

/* out [tokens, v_heads, v_dim] */
void delta_forward(const struct env *e, real *out, const struct delta *d,
                   const struct delta_in *in);
void delta_backward(const struct env *e, const struct delta_grad *g,
                    const struct delta *d, const struct delta_in *in, const real *dout);

#endif
