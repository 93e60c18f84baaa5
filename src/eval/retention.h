/*
 * retention.h - what share of a baseline's ability a candidate kept, task by task.
 *
 *   retention  R = sum_i w_i b_i / sum_i w_i a_i    a baseline, b candidate, w weight
 *   corrected  C = sum_i w_i (b_i - c) / sum_i w_i (a_i - c)     c score of a guess
 *
 * over the items that both answered, paired by id. Intervals are paired bootstraps over
 * items, 10,000 draws. A task on which the baseline itself is not clearly better than a
 * guess says nothing about the candidate: it is marked and left out of the means.
 */
#ifndef EVAL_RETENTION_H
#define EVAL_RETENTION_H

#include "eval/bootstrap.h"
#include "eval/items.h"

/* The claim that the number of needed items is for: +- 1 point. */
#define RETENTION_CLAIM 0.01
/* Fewer items cannot carry it, however alike the answers were. */
#define RETENTION_MIN_NEEDED 299
/* Above this mean, a task below the other is a hidden collapse. */
#define RETENTION_MEAN_GOOD 0.95
#define RETENTION_TASK_BAD 0.85

struct retention_task {
    const char *name, *metric; /* borrowed from the baseline's items */
    int64_t n;                 /* paired items */
    int64_t n_unpaired;        /* of either side, left out */
    double baseline, candidate, chance;
    double retention, corrected;
    struct interval ci, corrected_ci;
    int64_t n_up, n_down; /* items that the candidate does better, worse */
    double mcnemar_p;     /* two-sided, exact */
    int64_t n_needed;     /* items for an interval of +- RETENTION_CLAIM */
    bool at_chance;       /* the baseline: retention says nothing */
    bool prompts_differ;  /* the two were not asked the same */
};

struct retention {
    struct retention_task *task; /* [n]; worst first, those at chance last */
    int n, n_counted;            /* n_counted: not at chance; they come first */
    double mean, geometric;      /* of the counted; 0 when there are none */
    double mean_corrected;
    struct interval mean_ci;
    bool hidden_collapse; /* a good mean with a bad task */
};

/* baseline and candidate [n] are sets of the same task each. B2_EARG: another task or
 * metric, or no item in common (named). B2_ENOMEM. The sets are borrowed until free. */
enum b2_status retention_make(struct retention *out, const struct item_set *baseline,
                              const struct item_set *candidate, int n, uint64_t seed,
                              struct b2_err *err) NODISCARD;
void retention_free(struct retention *r); /* zeroed is fine */

#endif
