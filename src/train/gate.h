/*
 * gate.h - heads of queries that carry gates: [query, gate] per head, and the sigmoid of a
 * gate on what its head's attention gave.
 */
#ifndef TRAIN_GATE_H
#define TRAIN_GATE_H

#include "train/mm.h"

/* x [n, 2 d] to its halves a, b [n, d], and back. n: tokens times heads. */
void gate_split(const struct env *e, real *a, real *b, const real *x, int64_t n,
                int64_t d);
void gate_join(const struct env *e, real *x, const real *a, const real *b, int64_t n,
               int64_t d);

/* y = x sigmoid(gate) */
void gate_forward(const struct env *e, real *y, const real *x, const real *gate,
                  int64_t n);
/* dy becomes the gradient of x; dgate is written. */
void gate_backward(const struct env *e, real *dgate, real *dy, const real *x,
                   const real *gate, int64_t n);

#endif
