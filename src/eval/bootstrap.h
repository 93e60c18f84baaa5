/*
 * bootstrap.h - how sure a ratio of sums is, from the clusters it was summed over.
 *
 *   statistic = sum_i num_i / sum_i den_i      over clusters i = 0..n-1
 *
 * Clusters (documents, windows, items) are drawn with replacement, n at a time, and the
 * statistic of each draw is kept; the interval is the percentiles of these (Efron and
 * Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13). With den = counts
 * this is a mean, with num = candidate and den = baseline of the same items a paired
 * ratio. Same seed, same bits.
 */
#ifndef EVAL_BOOTSTRAP_H
#define EVAL_BOOTSTRAP_H

#include "base/error.h"
#include "base/rng.h"

enum { BOOTSTRAP_RESAMPLES = 10000 };

struct interval {
    double low, high;
};

/* Fills out [reps] with the statistic of reps draws, unsorted. A draw whose denominator
 * is not above 0 is made anew (100 tries, then it counts as the statistic of all, or as
 * 0 where that has none). 1 <= n < 2^31. */
void bootstrap_draws(double *out, int64_t reps, const double *num, const double *den,
                     int64_t n, struct rng *rng);

/* The central level (0.95) of draws [reps], which get sorted. */
struct interval bootstrap_interval(double *draws, int64_t reps, double level);

/* Both at once with BOOTSTRAP_RESAMPLES draws and 95 %. B2_ENOMEM. */
enum b2_status bootstrap_ratio(struct interval *out, const double *num,
                               const double *den, int64_t n, uint64_t seed,
                               struct b2_err *err) NODISCARD;

/* Two-sided exact McNemar test: of n_up + n_down items that changed, is the split
 * plausible for a fair coin? 1 when nothing changed. */
double bootstrap_mcnemar(int64_t n_up, int64_t n_down);

/* Clopper-Pearson interval of a share of hits in n trials, 95 %; n >= 1. */
struct interval bootstrap_share(int64_t hits, int64_t n);

#endif
