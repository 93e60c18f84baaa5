/*
 * glu.h - the gated activation f(gate) * up, forward and backward.
 */
#ifndef TRAIN_GLU_H
#define TRAIN_GLU_H

#include "backend/backend.h"
#include "train/mm.h"

/* y[i] = f(gate[i]) up[i] */
void glu_forward(const struct env *e, enum glu_kind kind, real *y, const real *gate,
                 const real *up, int64_t n);

/* gate and up become their gradients; dy stays. */
void glu_backward(const struct env *e, enum glu_kind kind, real *gate, real *up,
                  const real *dy, int64_t n);

#endif
