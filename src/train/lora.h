/*
 * lora.h - a change of a matrix as the product of two thin ones.
 *
 *   dW [rows, cols] = unit B [rows, rank] A [rank, cols]
 *
 * A starts random, B at zero, so that the change is none at the start (arXiv:2106.09685).
 */
#ifndef TRAIN_LORA_H
#define TRAIN_LORA_H

#include "train/mm.h"

struct lora {
    int64_t rows, cols, rank;
    real unit;
    real *a, *b;   /* [rank, cols], [rows, rank] */
    real *ga, *gb; /* gradients, added to */
};

/* delta [rows, cols], written */
void lora_delta(const struct env *e, const struct lora *l, real *delta);

/* Takes in the gradient [rows, cols] of the change. */
void lora_collect(const struct env *e, const struct lora *l, const real *grad);

#endif
