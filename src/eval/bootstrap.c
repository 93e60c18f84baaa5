/*
 * bootstrap.c - draws with replacement, and the two exact binomial rules beside them.
 */
#include "eval/bootstrap.h"

#include "base/mem.h"
#include "eval/stats.h"

#include <math.h>

enum { REDRAWS = 100, BISECTIONS = 60 };

static double total(const double *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

void bootstrap_draws(double *out, int64_t reps, const double *num, const double *den,
                     int64_t n, struct rng *rng)
{
    const double below = total(den, n);
    const double whole = below > 0.0 ? total(num, n) / below : 0.0;

    for (int64_t r = 0; r < reps; r++) {
        double a = 0.0, b = 0.0;
        for (int try = 0; try < REDRAWS && !(b > 0.0); try++) {
            a = b = 0.0;
            for (int64_t i = 0; i < n; i++) {
                /* 32 random bits times n: no division; a bias below n / 2^32 */
                uint64_t at = (rng_u64(rng) >> 32) * (uint64_t)n >> 32;
                a += num[at];
                b += den[at];
            }
        }
        out[r] = b > 0.0 ? a / b : whole;
    }
}

struct interval bootstrap_interval(double *draws, int64_t reps, double level)
{
    double out = (1.0 - level) / 2.0;

    stats_sort(draws, reps);
    return (struct interval){stats_quantile(draws, reps, out),
                             stats_quantile(draws, reps, 1.0 - out)};
}

enum b2_status bootstrap_ratio(struct interval *out, const double *num,
                               const double *den, int64_t n, uint64_t seed,
                               struct b2_err *err)
{
    struct rng rng = rng_make(seed);
    double *draws = mem_calloc(BOOTSTRAP_RESAMPLES, sizeof *draws);

    if (!draws)
        return err_set(err, B2_ENOMEM, "out of memory for the bootstrap");
    bootstrap_draws(draws, BOOTSTRAP_RESAMPLES, num, den, n, &rng);
    *out = bootstrap_interval(draws, BOOTSTRAP_RESAMPLES, 0.95);
    mem_free(draws);
    return B2_OK;
}

/* log of the binomial probability of k hits in n trials of probability p. */
static double log_binomial(int64_t k, int64_t n, double p)
{
    double a = (double)k, b = (double)(n - k);

    return lgamma(a + b + 1.0) - lgamma(a + 1.0) - lgamma(b + 1.0) +
           (k > 0 ? a * log(p) : 0.0) + (n > k ? b * log1p(-p) : 0.0);
}

/* Probability of at most k hits. */
static double at_most(int64_t k, int64_t n, double p)
{
    double sum = 0.0;

    for (int64_t i = 0; i <= k; i++)
        sum += exp(log_binomial(i, n, p));
    return sum < 1.0 ? sum : 1.0;
}

double bootstrap_mcnemar(int64_t n_up, int64_t n_down)
{
    int64_t n = n_up + n_down, few = min_i64(n_up, n_down);

    if (n == 0)
        return 1.0;
    double p = 2.0 * at_most(few, n, 0.5);
    return p < 1.0 ? p : 1.0;
}

/* The p at which at_most(k, n, p) falls to `want`; it falls as p grows. */
static double solve(int64_t k, int64_t n, double want)
{
    double low = 0.0, high = 1.0;

    for (int i = 0; i < BISECTIONS; i++) {
        double mid = 0.5 * (low + high);
        if (at_most(k, n, mid) > want)
            low = mid;
        else
            high = mid;
    }
    return 0.5 * (low + high);
}

struct interval bootstrap_share(int64_t hits, int64_t n)
{
    return (struct interval){
        .low = hits == 0 ? 0.0 : solve(hits - 1, n, 0.975),
        .high = hits == n ? 1.0 : solve(hits, n, 0.025),
    };
}
