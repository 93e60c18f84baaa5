/*
 * layer_int.h - what the steps of a layer share.
 */
#ifndef TRAIN_LAYER_INT_H
#define TRAIN_LAYER_INT_H

#include "train/layer.h"

/* [tokens, …]; "raw": before the norm of heads. The backward pass needs all of them. */
struct layer_work {
    /* kept from a forward pass, or made again; in the caller's memory or in `own` */
    real *q_raw, *k_raw; /* H head_dim, K head_dim */
    real *q, *k, *v;
    real *q_gate;       /* H head_dim: gates of queries */
    real *u, *z;        /* channels, V v_dim */
    real *alpha, *beta; /* V */
    real *a;         /* H head_dim or V v_dim: output of attention or the delta rule */
    real *o;         /* d: of the o projection, before its norm */
    real *m;         /* d */
    real *gate, *up; /* f */
    /* made again in any case: cheap */
    real *h;      /* d: norm of x, then of m */
    real *act;    /* f */
    real *down;   /* d: before its norm */
    real *joined; /* 2 H head_dim: queries with their gates, and their gradients */
    real *gated;  /* H head_dim or V v_dim: input of the o projection */
    real *conv;   /* channels */
    real *normed; /* V v_dim: a through its norm */
    /* gradients */
    real *dq, *dk, *dv, *da; /* like q, k, v, a */
    real *dconv;             /* channels */
    real *dalpha, *dbeta;    /* V */
    real *dact;              /* f */
    real *dd;                /* d */
    real *inv;               /* of rows of heads */
    real *mix;               /* scratch of attention or the delta rule */
    real *own, *all;
    int threads;
};

/* A forward or backward pass. */
struct layer_pass {
    const struct env *e;
    struct layer_work *w;
    const struct layer *l;
    const struct layer_batch *b;
    const struct layer_grad *g;
    int64_t n; /* tokens */
};

/* Reals in the work's memory. */
struct layer_cut {
    real **to;
    int64_t n;
};
enum { LAYER_CUTS = 24 };

/* y = a + b */
void layer_add(const struct env *e, real *y, const real *a, const real *b, int64_t n);
/* One weight's own gradient, and what it hands to its input. */
void layer_back_linear(const struct layer_pass *p, enum layer_linear which, real *dx,
                       const real *dy, const real *x, bool add_to);
void layer_back_norm(const struct layer_pass *p, enum layer_norm which, real *dx,
                     const real *dy, const real *x, int64_t n);

/* layer_attn.c, layer_delta.c: sizes of what can be kept, and of the rest; how many. */
int layer_attn_kept(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                    int64_t tokens);
int layer_delta_kept(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                     int64_t tokens);
int layer_attn_rest(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                    const struct layer_batch *b, int threads);
int layer_delta_rest(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                     const struct layer_batch *b, int threads);

/* From x to m. */
void layer_attn_forward(const struct layer_pass *p, const real *x);
void layer_delta_forward(const struct layer_pass *p, const real *x);
/* dm: gradient of m; becomes that of x. */
void layer_attn_backward(const struct layer_pass *p, real *dm, const real *x);
void layer_delta_backward(const struct layer_pass *p, real *dm, const real *x);

#endif
