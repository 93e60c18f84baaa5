/*
 * task_sum.h - the figures of a run of items: mean, interval, what went wrong.
 */
#ifndef EVAL_TASK_SUM_H
#define EVAL_TASK_SUM_H

#include "eval/items.h"

struct task_sum {
    double mean, low, high; /* of the main metric; 95 % interval */
    double ppl;    /* cloze and choices: exp(-mean log-likelihood of the right one);
                               0: not known */
    int64_t n_cut; /* prompts that lost their beginning */
    int64_t n_unfinished; /* answers that ran into their limit of tokens */
};

/* Scores of 0 and 1: Wilson's interval; else (several answers per item) the normal one
 * from the standard error, cut to 0..1. */
void task_sum_make(struct task_sum *out, const struct item_set *s);

/* Wilson's score interval of k successes in n > 0 trials, z standard deviations wide. */
void task_sum_wilson(double *low, double *high, double k, double n, double z);

#endif
