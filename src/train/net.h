/*
 * net.h - a whole model, forward and backward, a layer at a time.
 *
 * Who trains owns the weights in whatever form; a layer is asked for when it is needed,
 * so that one layer lies in F32 at a time. The forward pass keeps each layer's input, the
 * backward pass makes the rest again.
 */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include "train/layer.h"

/* What sees the layers' outputs on the way and adds to their gradients. */
struct net_tap {
    void *ctx;
    /* y [tokens, d] of layer i in net_forward() */
    void (*made)(void *ctx, int64_t i, const real *y, int64_t tokens);
    /* dy, its gradient in net_backward(), before it goes on into layer i */
    void (*back)(void *ctx, int64_t i, real *dy, int64_t tokens);
};

struct net {
    int64_t n_layers, d;
    struct norm out_norm; /* before the head */
    void *ctx;            /* of the calls below */
    /* A layer's weights, valid until the next call. */
    const struct layer *(*layer)(void *ctx, int64_t i);
    /* Where its gradients go; called before net_backward() computes them, and the layer
     * may be used up by `done` afterwards. */
    const struct layer_grad *(*grad)(void *ctx, int64_t i);
    void (*done)(void *ctx, int64_t i); /* NULL: nobody wants to know */
    const struct net_tap *tap;          /* NULL: none */
};

/* Inputs of all layers and the buffers of one. */
struct net_work;

enum net_keep {
    NET_FORWARD, /* nothing: no net_backward() */
    NET_INPUTS,  /* of each layer; the rest is made again */
    NET_ALL      /* what costs products to make again, too */
};

/* first: any layer of the model; all have its shape. */
uint64_t net_work_bytes(const struct net *net, const struct layer *first,
                        const struct layer_batch *max, int threads, enum net_keep keep);
/* NULL: out of memory. */
struct net_work *net_work_new(const struct net *net, const struct layer *first,
                              const struct layer_batch *max, int threads,
                              enum net_keep keep);
void net_work_free(struct net_work *w); /* NULL is fine */

/* Where the embeddings [tokens, d] of the batch go before net_forward(). */
real *net_input(struct net_work *w);

/* The last hidden states [tokens, d], normed: in w until its next use. */
const real *net_forward(const struct env *e, struct net_work *w, const struct net *net,
                        const struct layer_batch *b);
/* What the last layer gave, before the norm. */
const real *net_last(const struct net_work *w);

/* What layer i gave; not with NET_FORWARD. */
const real *net_output(const struct net_work *w, int64_t i);

/* dh [tokens, d]: gradient of what net_forward() returned; becomes that of the embeddings.
 * dnorm [d]: of the last norm's gain, added to; may be NULL. */
void net_backward(const struct env *e, struct net_work *w, const struct net *net,
                  const struct layer_batch *b, real *dh, real *dnorm);

#endif
