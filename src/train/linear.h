/*
 * linear.h - y = x Wᵀ + b, forward and backward. Rows are tokens.
 */
#ifndef TRAIN_LINEAR_H
#define TRAIN_LINEAR_H

#include "train/mm.h"

struct linear {
    const real *w; /* [rows, cols] */
    const real *b; /* [rows] or NULL */
    int64_t rows, cols;
};

/* Gradients, added to; NULL: not wanted. */
struct linear_grad {
    real *w, *b;
};

/* y [n, rows] of x [n, cols] */
void linear_forward(const struct env *e, real *y, const struct linear *l, const real *x,
                    int64_t n);

/* dx [n, cols] = dy W, or += when add. */
void linear_backward_x(const struct env *e, real *dx, const struct linear *l,
                       const real *dy, int64_t n, bool add);

/* g->w += dyᵀ x, g->b += the sum of dy's rows. */
void linear_backward_w(const struct env *e, const struct linear_grad *g,
                       const struct linear *l, const real *dy, const real *x,
                       int64_t n);

/* sum [d] += the rows of x [n, d], row after row. */
void add_rows(const struct env *e, real *sum, const real *x, int64_t n, int64_t d);

#endif
