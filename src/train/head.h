/*
 * head.h - the loss: from last hidden states to divergence over the whole vocabulary.
 *
 *   y = [cap tanh(. / cap)] W h    of student and teacher
 *   p = softmax(y / T)             of both
 *   loss = kl T^2 sum_v p_t ln(p_t / p_s) + ce (-ln softmax(y_s)[target])
 *
 * A block of tokens at a time: no logits are kept. Rows of W are decoded in slices when
 * they are not at hand in F32, once for both models where they share them.
 */
#ifndef TRAIN_HEAD_H
#define TRAIN_HEAD_H

#include "train/mm.h"

struct head {
    int64_t vocab, d;
    const real *w; /* [vocab, d]; NULL: rows() makes slices of it */
    void (*rows)(void *ctx, real *dst, int64_t begin, int64_t end); /* any thread */
    void *ctx;
    real softcap; /* 0: none */
};

struct head_loss {
    struct head student, teacher; /* the same vocabulary; d may differ */
    bool shared;                  /* both have the same W */
    real kl, ce;                  /* weights of the two parts */
    real temperature;             /* of kl; 1: plain */
    int threads;                  /* of the pool */
    real *scratch;                /* head_scratch() reals */
};

struct head_io {
    const real *hs, *ht;   /* [n, d] last hidden states, normed; ht NULL: see row */
    const int32_t *target; /* [n], the tokens that follow, below 0: none does; may be
                            * NULL when ce is 0 */
    const uint8_t *skip;   /* [n] 1: this token does not count; NULL: all do */
    real weight;           /* on the gradients (1 / tokens of a step) */
    real *dhs;             /* [n, d], written; NULL: only the sums */
    real *dw;              /* [vocab, d], added to; NULL: not wanted */
    /* Sees a token's logits [vocab], behind their soft caps, before the losses; with ht
     * NULL it makes the teacher's. Any thread. NULL: not wanted. */
    void (*row)(void *ctx, int64_t token, real *yt, const real *ys);
    void *row_ctx;
};

/* Sums over tokens, in order. */
struct head_sums {
    double kl, ce;       /* nat; kl at the temperature, without T^2 */
    int64_t n, same_top; /* tokens; where both have the same best */
    int64_t n_ce;        /* tokens that another follows */
};

int64_t head_scratch(const struct head_loss *l, int threads);

/* Adds to sums. */
void head_run(const struct env *e, struct head_sums *sums, const struct head_loss *l,
              const struct head_io *io, int64_t n);

#endif
