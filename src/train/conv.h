/*
 * conv.h - causal convolution over time, channel by channel, with SiLU behind it: what
 * stands before the recurrence of a gated delta net.
 *
 *   c_t = sum over taps j of w_j u_{t - (taps - 1) + j},  y = c sigmoid(c)
 *
 * Tokens of another document, and those before the sequence, count as zero.
 */
#ifndef TRAIN_CONV_H
#define TRAIN_CONV_H

#include "train/mm.h"

struct conv {
    const real *w; /* [taps, channels], oldest first */
    int64_t taps, channels;
    int64_t n_seqs, ctx;  /* tokens [n_seqs, ctx] */
    const int32_t *first; /* see attn.h */
};

struct conv_grad {
    real *du; /* [tokens, channels], written; neither dy nor u */
    real *dw; /* [taps, channels], added to; NULL: not wanted */
};

/* y [tokens, channels], not u */
void conv_forward(const struct env *e, real *y, const struct conv *c, const real *u);
/* dy becomes the gradient of c. u: input of the forward step. */
void conv_backward(const struct env *e, const struct conv_grad *g, const struct conv *c,
                   real *dy, const real *u);

#endif
