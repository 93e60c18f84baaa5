/*
 * mm.h - matrix products cut over the threads.
 *
 * The cut depends on the sizes alone and each tile is one single-threaded call, so that
 * the bits do not depend on the number of threads.
 */
#ifndef TRAIN_MM_H
#define TRAIN_MM_H

#include "train/real.h"

struct blas;
struct dnn;
struct kernels;
struct pool;

/* What all steps work with. */
struct env {
    struct pool *pool;       /* NULL: the caller alone */
    const struct blas *blas; /* the products */
    const struct kernels *k; /* long rows; NULL: plain C */
    const struct dnn *dnn;   /* mm_bf16(); NULL: F32 */
};

/* A matrix in rows, ld apart; t: read as its transpose. */
struct mat {
    const real *p;
    int64_t ld;
    bool t;
};

struct mm_size {
    int64_t m, n, k;
};

/* c [m, n], rows ldc apart, = alpha a [m, k] b [k, n] (+ c when add). On the caller alone:
 * for use inside a piece of a pool's work. */
struct mm_how {
    real alpha;
    bool add;
};
void mm_one(const struct env *e, real *c, int64_t ldc, struct mm_size size,
            struct mat a, struct mat b, struct mm_how how);

/* The same in tiles over the pool. */
void mm(const struct env *e, real *c, int64_t ldc, struct mm_size size, struct mat a,
        struct mat b, struct mm_how how);

/* The same where operands may be rounded to BF16: products of activations, weights and
 * their gradients. Sums stay F32. Not for anything that must be orthogonal, nor for what
 * scores a model. In F32 as long as env has no dnn. */
void mm_bf16(const struct env *e, real *c, int64_t ldc, struct mm_size size,
             struct mat a, struct mat b, struct mm_how how);

#endif
