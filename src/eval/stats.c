/*
 * stats.c - running moments and quantiles.
 *
 * Moments follow Welford ("Note on a method for calculating corrected sums of squares
 * and products", 1962): no cancellation however large the mean is.
 */
#include "eval/stats.h"

#include <math.h>
#include <stdlib.h>

void stats_add(struct stats *s, double x)
{
    double d = x - s->mean;

    s->n++;
    s->mean += d / (double)s->n;
    s->m2 += d * (x - s->mean);
}

double stats_stderr(const struct stats *s)
{
    if (s->n < 2)
        return 0.0;
    return sqrt(s->m2 / (double)s->n / (double)(s->n - 1));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void stats_sort(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
}

double stats_quantile(const double *x, int64_t n, double p)
{
    double at = p * (double)(n - 1);
    int64_t lo = (int64_t)at;

    if (lo >= n - 1)
        return x[n - 1];
    return x[lo] + (at - (double)lo) * (x[lo + 1] - x[lo]);
}
