/*
 * vec.h - loops over long rows, by the runtime's kernels where there are any.
 *
 * The kernels give the same bits on every processor level; plain C (no kernels in env, or
 * F64) differs in the last digits.
 */
#ifndef TRAIN_VEC_H
#define TRAIN_VEC_H

#include "backend/backend.h"
#include "train/mm.h"

/* p = exp(p by - *top), *top the largest p by; returns the sum. n >= 1. */
real vec_softmax(const struct env *e, real *p, int64_t n, real by, real *top);

/* y = f(gate) up; y apart from gate and up. False: no kernel for it, nothing is done. */
bool vec_glu(const struct env *e, enum glu_kind kind, real *y, const real *gate,
             const real *up, int64_t n);

/* y = 1 / (1 + exp(-x)). False: as above. */
bool vec_sigmoid(const struct env *e, real *y, const real *x, int64_t n);

/* p *= by */
void vec_scale(const struct env *e, real *p, int64_t n, real by);

#endif
