/*
 * stats.h - mean, standard error and exact quantiles of a stream of numbers.
 */
#ifndef EVAL_STATS_H
#define EVAL_STATS_H

#include "base/util.h"

struct stats { /* start as zero */
    int64_t n;
    double mean, m2; /* m2: sum of squared distances from the mean */
};

void stats_add(struct stats *s, double x);

/* Standard error of the mean, from the population variance over n - 1 as llama.cpp
 * prints it; 0 for n < 2. */
double stats_stderr(const struct stats *s);

/* Sorts x [n], n >= 1. */
void stats_sort(double *x, int64_t n);

/* Quantile 0 <= p <= 1 of sorted x [n], n >= 1, linear between the two nearest ranks
 * (NumPy's default and llama.cpp's percentile). */
double stats_quantile(const double *x, int64_t n, double p);

#endif
