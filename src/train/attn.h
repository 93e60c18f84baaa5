/*
 * attn.h - causal grouped attention, forward and backward, over whole sequences.
 *
 *   s = scale q·k,  [s = cap tanh(s / cap)],  p = softmax over what a token sees,  o = p v
 *
 * Blocks of queries: nothing of the size [tokens, tokens] lies in memory. The backward
 * pass makes p again. Each sequence's key head is one piece of work, its query heads in
 * order, so that sums over a group do not depend on the threads.
 */
#ifndef TRAIN_ATTN_H
#define TRAIN_ATTN_H

#include "train/mm.h"

struct attn {
    int64_t n_heads, n_kv_heads, head_dim;
    int64_t window;      /* 0: all; else the last `window` positions, itself included */
    real scale, softcap; /* softcap 0: none */
    int64_t n_seqs, ctx; /* tokens [n_seqs, ctx] */
    const int32_t *first; /* [n_seqs, ctx] first place in its sequence that a token sees
                           * (its document's start); NULL: 0 */
    real *scratch;        /* attn_scratch() reals for each thread */
};

int64_t attn_scratch(int64_t ctx);

/* q [tokens, H, head_dim], k and v [tokens, K, head_dim] */
struct attn_in {
    const real *q, *k, *v;
};
struct attn_grad {
    real *q, *k, *v; /* written */
};

void attn_forward(const struct env *e, real *out, const struct attn *a,
                  const struct attn_in *in);
void attn_backward(const struct env *e, const struct attn_grad *g, const struct attn *a,
                   const struct attn_in *in, const real *dout);

#endif
