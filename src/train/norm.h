/*
 * norm.h - RMS norm, forward and backward: y = x r g, r = 1 / sqrt(mean(x^2) + eps).
 */
#ifndef TRAIN_NORM_H
#define TRAIN_NORM_H

#include "train/mm.h"

struct norm {
    const real *gain; /* [d]; NULL: there is no such norm */
    int64_t d;
    real eps;
};

struct norm_grad {
    real *dx;    /* [n, d], written; may be dy */
    real *dgain; /* [d], added to; NULL: not wanted */
    real *inv;   /* [n] scratch */
};

/* n rows; y may be x. */
void norm_forward(const struct env *e, real *y, const struct norm *w, const real *x,
                  int64_t n);

/* dx_i = r (g_i dy_i - x_i r^2 / d sum_j g_j dy_j x_j); dgain_i += sum over rows of
 * dy_i x_i r. x is the input of the forward step. */
void norm_backward(const struct env *e, const struct norm_grad *g, const struct norm *w,
                   const real *dy, const real *x, int64_t n);

#endif
