/*
 * divergence.h - perplexity of a model, and how far it is from a baseline.
 *
 *   nll   = mean over scored positions of -log p(next)       (nat)
 *   ppl   = exp(nll)
 *   kld   = mean over scored positions of sum_v p_b(v) (log p_b(v) - log p(v)) (nat)
 *   same_top1 = share of positions with equal argmax
 *
 * Baseline and candidate walk the windows side by side, a batch at a time, so that
 * no logits are ever stored: each model needs one buffer of divergence_rows() rows.
 */
#ifndef EVAL_DIVERGENCE_H
#define EVAL_DIVERGENCE_H

#include "base/progress.h"
#include "eval/textset.h"
#include "model/session.h"

struct ppl_result {
    double nll, ppl, nll_stderr; /* stderr of ppl: ppl * nll_stderr */
    int64_t n_tokens;
};

struct kld_result {
    double mean_kld, kld_stderr, median_kld, p90_kld, p99_kld, max_kld;
    double same_top1;
    double ppl, ppl_baseline, ppl_ratio;
    int64_t n_tokens;
};

/* One scored position. Losses in nat; the baseline's parts are 0 for perplexity alone. */
struct divergence_row {
    int64_t window, pos; /* pos inside the window */
    double nll, nll_base, kld;
    bool same_top1;
};

struct logprob;
struct teacher_row;

/* A walk over all windows of text. The baseline is either a session or a function that
 * gives its stored rows; without both the walk measures perplexity alone. */
struct divergence_walk {
    struct session *cand; /* NULL: only the baseline walks, for on_logits */
    struct session *base; /* NULL: none, or stored */
    enum b2_status (*stored)(void *ctx, struct teacher_row *out, int64_t window,
                             int64_t row, struct b2_err *err); /* NULL: none */
    /* Gets the baseline's logits of each scored position in order. May be NULL. */
    enum b2_status (*on_logits)(void *ctx, const float *x, const struct logprob *b,
                                int32_t target, struct b2_err *err);
    void (*on_row)(void *ctx, const struct divergence_row *row); /* may be NULL */
    /* Asked before each window: false leaves its rows out. May be NULL. */
    bool (*wanted)(void *ctx, int64_t window);
    void *ctx;
    const struct textset *text;
    struct progress *pr; /* counts done0 and the scored tokens */
    uint64_t done0;
};

/* Errors as below, those of the functions, and B2_EARG: two sessions of different
 * vocabularies. */
enum b2_status divergence_run(const struct divergence_walk *w,
                              struct b2_err *err) NODISCARD;

/* Rows of logits that one buffer holds: as many as fit 64 MB, at least 1, at most
 * `batch`, a session's batch. */
int64_t divergence_rows(int64_t vocab, int64_t batch);

/* Both walk all windows; ppl looks at p's cand and text, and gives its on_row each row.
 * The sessions' contexts must hold a window (else B2_EARG). pr counts scored tokens (text->n_scored in all) and shows the perplexity (mean
 * divergence) so far. B2_EFORMAT: a logit that is no number. Errors of session_eval. */
enum b2_status divergence_ppl(struct ppl_result *out, const struct divergence_walk *p,
                              struct b2_err *err) NODISCARD;
/* Both sessions must have the same vocabulary size (else B2_EARG). */
enum b2_status divergence_kld(struct kld_result *out, struct session *s,
                              struct session *baseline, const struct textset *text,
                              struct progress *pr, struct b2_err *err) NODISCARD;

#endif
