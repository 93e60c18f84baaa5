/*
 * hidden.h - how far hidden states are from the teacher's.
 *
 *   loss = mean over tokens of |s - t|^2 / |t|^2
 *
 * Relative to each token's own length, so that the few tokens with huge activations do not
 * count for more than the others.
 */
#ifndef TRAIN_HIDDEN_H
#define TRAIN_HIDDEN_H

#include "train/mm.h"

struct hidden_io {
    const real *s, *t; /* [n, d] student's and teacher's */
    int64_t n, d;
    real weight; /* on the gradient (share of the loss / tokens of a step) */
    real *ds;    /* [n, d], added to; NULL: only the sum */
};

/* Sum over tokens of the relative squares, in order. */
double hidden_run(const struct env *e, const struct hidden_io *io);

#endif
