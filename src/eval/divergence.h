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

/* Rows of logits that one buffer holds: as many as fit 64 MB, at least 1, at most
 * `batch`, a session's batch. */
int64_t divergence_rows(int64_t vocab, int64_t batch);

/* Both walk all windows. The sessions' contexts must hold a window (else B2_EARG). pr
 * counts scored tokens (text->n_scored in all) and shows the perplexity (mean
 * divergence) so far. B2_EFORMAT: a logit that is no number. Errors of session_eval. */
enum b2_status divergence_ppl(struct ppl_result *out, struct session *s,
                              const struct textset *text, struct progress *pr,
                              struct b2_err *err) NODISCARD;
/* Both sessions must have the same vocabulary size (else B2_EARG). */
enum b2_status divergence_kld(struct kld_result *out, struct session *s,
                              struct session *baseline, const struct textset *text,
                              struct progress *pr, struct b2_err *err) NODISCARD;

#endif
