/*
 * layer.h - one layer of a transformer, forward and backward.
 *
 *   h = norm(x);  q, k, v = Wq h [+ b], …;  [q, k = norm per head];  turn q, k
 *   m = x + [norm](Wo attention(q, k, v))
 *   y = m + [norm](Wdown (f(Wgate norm(m)) Wup norm(m)))
 *
 * The layers of llama, qwen2, qwen3 and gemma3; what stands in brackets depends on them.
 * A forward pass keeps nothing, and the backward pass is given x and makes the rest again,
 * so that one set of buffers serves all layers; or it keeps what costs products to make
 * again in memory that the caller gives. The bits are the same.
 */
#ifndef TRAIN_LAYER_H
#define TRAIN_LAYER_H

#include "train/attn.h"
#include "train/glu.h"
#include "train/linear.h"
#include "train/norm.h"
#include "train/rope.h"

/* The parts of a layer that can be trained. */
enum layer_linear { LIN_Q, LIN_K, LIN_V, LIN_O, LIN_GATE, LIN_UP, LIN_DOWN, N_LINEARS };
enum layer_norm {
    NORM_ATTN,
    NORM_Q,
    NORM_K,
    NORM_ATTN_POST,
    NORM_FFN,
    NORM_FFN_POST,
    N_NORMS
};

struct layer {
    int64_t d, f, n_heads, n_kv_heads, head_dim;
    int64_t window; /* 0: none */
    real attn_scale, attn_softcap;
    enum glu_kind glu;
    struct rope rope;
    struct linear lin[N_LINEARS];
    struct norm norm[N_NORMS]; /* gain NULL: none (not for ATTN and FFN) */
};

/* Gradients, added to; NULL: not wanted. */
struct layer_grad {
    struct linear_grad lin[N_LINEARS];
    real *norm[N_NORMS];
};

/* The tokens of a pass: [n_seqs, ctx]. */
struct layer_batch {
    int64_t n_seqs, ctx;
    const int32_t *pos;   /* [n_seqs * ctx] positions for rope */
    const int32_t *first; /* see attn.h */
};

/* Buffers for layers of one shape. */
struct layer_work;

uint64_t layer_work_bytes(const struct layer *l, const struct layer_batch *max,
                          int threads);
/* NULL: out of memory. */
struct layer_work *layer_work_new(const struct layer *l, const struct layer_batch *max,
                                  int threads);
void layer_work_free(struct layer_work *w); /* NULL is fine */

/* Reals that a forward pass can keep. */
int64_t layer_kept(const struct layer *l, const struct layer_batch *max);

/* y [tokens, d] of x; y may be x. kept: layer_kept() reals for the backward pass, or
 * NULL. */
void layer_forward(const struct env *e, struct layer_work *w, const struct layer *l,
                   const struct layer_batch *b, real *y, const real *x, real *kept);

struct layer_back {
    real *dy;      /* becomes the gradient of x */
    const real *x; /* input of the forward pass */
    real *kept;    /* what it kept; used up. NULL: nothing */
};

void layer_backward(const struct env *e, struct layer_work *w, const struct layer *l,
                    const struct layer_batch *b, const struct layer_grad *g,
                    const struct layer_back *back);

#endif
