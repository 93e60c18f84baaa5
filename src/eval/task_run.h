/*
 * task_run.h - asks a model the items of a task and keeps what it did.
 *
 * Log-likelihoods follow lm-evaluation-harness: context and continuation are tokenised
 * together, spaces at the end of the context belong to the continuation, a prompt that is
 * too long loses its beginning. The context of an item, and the examples before it, are
 * read once: choices share them through the session's cache.
 */
#ifndef EVAL_TASK_RUN_H
#define EVAL_TASK_RUN_H

#include "base/progress.h"
#include "eval/items.h"
#include "eval/task.h"
#include "model/session.h"

struct task_run_params {
    const struct chat
        *chat;          /* the model's template, where the task was opened with chat */
    const char *model;  /* the file as the user named it, for the record */
    bool exact;         /* for the record: how the session's backend computes */
    const char *cache;  /* for the record, where it is not F16: "q8_0"; else NULL */
    int64_t samples;    /* answers per generated item; 0, 1: one */
    double temperature; /* 0: greedy */
    uint64_t seed;      /* of sampling: answer k of an item uses seed + k */
    int64_t ctx;        /* for the record: the user's limit of the context, 0: none */
    int64_t max_tokens; /* of an answer; 0: as the task says */
    bool allow_code;    /* TASK_CODE may run the model's code in a sandbox */
    const char *scores; /* file that keeps the items, gone on with; NULL: none */
    bool force;         /* begin that file anew */
};

/* Tokens that the longest item needs (prompt and continuation or answer), so that a session can
 * be made for it. */
enum b2_status task_run_context(int64_t *n_tokens, const struct task *t,
                                const struct model *m, const struct task_run_params *p,
                                struct b2_err *err) NODISCARD;

/* Runs all items that p->scores has not got yet; *out gets all, also on failure those
 * that were done, and must be freed. pr counts items (total task_items()) and shows the
 * mean of the main metric. Several answers of an item: its scores are their means.
 * B2_ECANCEL after session_cancel. B2_EUNSUP: the task runs code and allow_code is
 * missing, or this machine has no sandbox for it. */
enum b2_status task_run(struct item_set *out, const struct task *t, struct session *s,
                        const struct task_run_params *p, struct progress *pr,
                        struct b2_err *err) NODISCARD;

/* Log-likelihood of cont after prompt, both plain text or (special) with control tokens
 * in them. *greedy: cont is what greedy decoding would say. *n_tokens: of cont. */
struct task_loglik {
    double sum;
    bool greedy;
    int64_t n_tokens;
    bool truncated; /* the prompt lost its beginning */
};
enum b2_status task_loglik(struct task_loglik *out, struct session *s,
                           const char *prompt, const char *cont, bool special,
                           struct b2_err *err) NODISCARD;

#endif
