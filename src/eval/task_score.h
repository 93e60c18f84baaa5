/*
 * task_score.h - log-likelihoods on a session, contexts read once; for task_run.c.
 */
#ifndef EVAL_TASK_SCORE_H
#define EVAL_TASK_SCORE_H

#include "eval/task_run.h"

/* Remembers the context whose last logits it holds. */
struct scorer {
    struct session *s;
    struct tok_ids context; /* what first_row belongs to; n == 0: nothing */
    float *first_row;       /* [V] logits behind the context */
    float *rows;            /* [n_rows, V] of a continuation */
    int64_t n_rows;
};

enum b2_status scorer_init(struct scorer *sc, struct session *s,
                           struct b2_err *err) NODISCARD;
void scorer_free(struct scorer *sc); /* zeroed is fine */
enum b2_status scorer_loglik(struct task_loglik *out, struct scorer *sc,
                             const char *prompt, const char *cont, bool special,
                             struct b2_err *err) NODISCARD;

/* Adds to *out what cont [n] behind context [n_context >= 1] comes to; both fit. */
enum b2_status scorer_tokens(struct task_loglik *out, struct scorer *sc,
                             const int32_t *context, int64_t n_context,
                             const int32_t *cont, int64_t n,
                             struct b2_err *err) NODISCARD;

/* Ids of a prompt and of its continuation, as lm-evaluation-harness cuts them. */
enum b2_status scorer_encode(struct tok_ids *context, struct tok_ids *cont,
                             const struct tokenizer *tok, const char *prompt,
                             const char *text, bool special,
                             struct b2_err *err) NODISCARD;

#endif
