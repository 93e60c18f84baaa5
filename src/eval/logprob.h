/*
 * logprob.h - log-softmax of one row of logits and the divergence of two rows.
 *
 *   lse       = log sum_v exp(x_v)
 *   log p(v)  = x_v - lse
 *   KL(b, c)  = sum_v p_b(v) (log p_b(v) - log p_c(v))   (nat)
 *
 * Sums run in double, in index order.
 */
#ifndef EVAL_LOGPROB_H
#define EVAL_LOGPROB_H

#include "base/error.h"

struct logprob {
    double max;     /* largest logit */
    double sum;     /* sum_v exp(x_v - max), >= 1 */
    double lse;     /* max + log(sum) */
    int64_t argmax; /* smallest index of the largest logit */
};

/* Reads x [vocab]. expo [vocab] may be NULL; gets exp(x_v - max). B2_EFORMAT: a NaN or
 * an infinity (names the index): nothing sensible can be said about such a model. */
enum b2_status logprob_row(struct logprob *out, double *expo, const float *x,
                           int64_t vocab, struct b2_err *err) NODISCARD;

/* KL(b, c) >= 0. b and c describe the rows xb and xc; expo_b as logprob_row gave it. */
double logprob_kld(const struct logprob *b, const double *expo_b, const float *xb,
                   const struct logprob *c, const float *xc, int64_t vocab);

#endif
