/*
 * layer.h - one layer of a transformer, forward and backward.
 *
 *   h = norm(x)
 *   q, k, v = Wq h [+ b], …;  [q, gate = q];  [q, k = norm per head];  turn q, k
 *   m = x + [norm](Wo (attention(q, k, v) [sigmoid(gate)]))
 * or, a gated delta net,
 *   q, k, v = silu(convolution(Wqkv h))
 *   m = x + Wout (norm per head(delta(q, k, v, Walpha h, Wbeta h)) silu(Wz h))
 * then
 *   y = m + [norm](Wdown (f(Wgate norm(m)) Wup norm(m)))
 *
 * The layers of llama, qwen2, qwen3, gemma3 and qwen35; what stands in brackets depends on
 * them. The steps up to m are in layer_attn.c and layer_delta.c.
 * A forward pass keeps nothing, and the backward pass is given x and makes the rest again,
 * so that one set of buffers serves all layers; or it keeps what costs products to make
 * again in memory that the caller gives. The bits are the same.
 */
#ifndef TRAIN_LAYER_H
#define TRAIN_LAYER_H

#include "train/attn.h"
#include "train/conv.h"
#include "train/delta.h"
#include "train/gate.h"
#include "train/glu.h"
#include "train/linear.h"
#include "train/norm.h"
#include "train/rope.h"

/* The parts of a layer that can be trained. Those of the kind of layer that it is not have
 * no rows. */
enum layer_linear {
    LIN_Q, /* with attn_gate: of each head its query, then its gate */
    LIN_K,
    LIN_V,
    LIN_O,
    LIN_GATE,
    LIN_UP,
    LIN_DOWN,
    LIN_QKV, /* of a gated delta net, from here on */
    LIN_Z,
    LIN_ALPHA,
    LIN_BETA,
    LIN_OUT,
    N_LINEARS
};
enum layer_norm {
    NORM_ATTN,
    NORM_Q,
    NORM_K,
    NORM_ATTN_POST,
    NORM_FFN,
    NORM_FFN_POST,
    NORM_DELTA, /* of each head's output */
    N_NORMS
};

/* A gated delta net's own numbers. */
struct layer_delta {
    int64_t taps, k_heads, v_heads, k_dim, v_dim;
    real eps;                /* least length of q and k */
    const real *conv;        /* [taps, channels], oldest first */
    const real *rate, *bias; /* [v_heads] of the decay */
};

/* Sizes of both kinds of layers, where a model has both. */
struct layer {
    int64_t d, f, n_heads, n_kv_heads, head_dim;
    int64_t window; /* 0: none */
    real attn_scale, attn_softcap;
    enum glu_kind glu;
    bool attn_gate; /* queries carry gates */
    bool is_delta;  /* this one is a gated delta net */
    struct rope rope;
    struct layer_delta delta;
    struct linear lin[N_LINEARS];
    struct norm norm[N_NORMS]; /* gain NULL: none (not for ATTN, FFN, DELTA) */
};

/* Gradients, added to; NULL: not wanted. */
struct layer_grad {
    struct linear_grad lin[N_LINEARS];
    real *norm[N_NORMS];
    real *conv, *rate, *bias; /* of a gated delta net */
};

/* The tokens of a pass: [n_seqs, ctx]. */
struct layer_batch {
    int64_t n_seqs, ctx;
    const int32_t *pos;   /* [n_seqs * ctx] positions for rope */
    const int32_t *first; /* see attn.h */
};

/* Buffers for layers of one shape. l says which norms there are, of either kind. */
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
