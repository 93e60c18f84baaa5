/*
 * retention.c - pairing items and the figures of a pair of answers.
 *
 * "At chance": the one-sided 95 % bound of the baseline's mean, mean - 1.645 standard
 * errors, is not above the score of a guess. "Needed" scales the interval's half width h
 * by the square root law: n (h / 0.01)^2. It is never fewer than 299: so many items without
 * a change are needed before a share of changes of 1 % can be excluded, 0.99^299 < 5 %.
 */
#include "eval/retention.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double one_sided_95 = 1.6448536269514722;

/* The paired scores of a task. */
struct pairs {
    double *a, *b, *w; /* [n] baseline, candidate, weight; one allocation */
    int64_t n, n_unpaired;
};

static int by_id(const void *x, const void *y)
{
    const struct item *const *a = x, *const *b = y;

    return strcmp((*a)->id, (*b)->id);
}

/* The items of a set in the order of their ids. NULL: out of memory. */
static const struct item **sorted(const struct item_set *s)
{
    const struct item **p = mem_calloc((size_t)s->n, sizeof(void *));

    for (int64_t i = 0; p && i < s->n; i++)
        p[i] = &s->item[i];
    if (p && s->n > 1)
        qsort(p, (size_t)s->n, sizeof(void *), by_id);
    return p;
}

static void merge(struct pairs *p, const struct item **a, int64_t na,
                  const struct item **b, int64_t nb, int metric)
{
    int64_t i = 0, k = 0;

    while (i < na && k < nb) {
        int order = strcmp(a[i]->id, b[k]->id);
        if (order == 0) {
            p->a[p->n] = a[i]->score;
            p->b[p->n] = b[k]->score;
            p->w[p->n++] = a[i]->weight[metric];
        }
        i += order <= 0;
        k += order >= 0;
    }
    p->n_unpaired = na + nb - 2 * p->n;
}

static enum b2_status pairs_make(struct pairs *p, const struct item_set *base,
                                 const struct item_set *cand, struct b2_err *err)
{
    const struct item **a = sorted(base), **b = sorted(cand);
    size_t most = (size_t)min_i64(base->n, cand->n);
    int metric = item_set_metric(base, base->metric);
    enum b2_status rc = B2_OK;

    *p = (struct pairs){.a = mem_calloc(3 * most + 1, sizeof(double))};
    if (!a || !b || !p->a) {
        rc = err_set(err, B2_ENOMEM, "out of memory");
    } else {
        p->b = p->a + most;
        p->w = p->b + most;
        merge(p, a, base->n, b, cand->n, metric < 0 ? 0 : metric);
        if (p->n == 0)
            rc = err_set(err, B2_EARG, "baseline and candidate share no item");
    }
    mem_free(a);
    mem_free(b);
    return rc;
}

/* sum_i w_i (x_i - c) */
static double total(const double *x, const double *w, int64_t n, double c)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += w[i] * (x[i] - c);
    return sum;
}

static double ratio(double num, double den)
{
    return den > 0.0 ? num / den : 0.0;
}

/* Is the baseline not clearly better than a guess? */
static bool at_chance(const struct pairs *p, double mean, double chance)
{
    double m2 = 0.0, weight = 0.0;

    for (int64_t i = 0; i < p->n; i++) {
        double d = p->w[i] * (p->a[i] - mean);
        m2 += d * d;
        weight += p->w[i];
    }
    return mean - one_sided_95 * sqrt(m2) / weight <= chance;
}

/* The same task has the same draws whatever stands beside it. */
static uint64_t seed_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

    for (const char *p = name; *p; p++)
        h = (h ^ (uint8_t)*p) * 0x100000001b3;
    return seed ^ h;
}

/* Draws of sum w (b - c) / sum w (a - c). num and den [n] are scratch. */
static void draw(double *draws, const struct pairs *p, double c, double *num,
                 uint64_t seed)
{
    struct rng rng = rng_make(seed);
    double *den = num + p->n;

    for (int64_t i = 0; i < p->n; i++) {
        num[i] = p->w[i] * (p->b[i] - c);
        den[i] = p->w[i] * (p->a[i] - c);
    }
    bootstrap_draws(draws, BOOTSTRAP_RESAMPLES, num, den, p->n, &rng);
}

static void count_changes(struct retention_task *t, const struct pairs *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        t->n_up += p->b[i] > p->a[i];
        t->n_down += p->b[i] < p->a[i];
    }
    t->mcnemar_p = bootstrap_mcnemar(t->n_up, t->n_down);
}

/* Fills t from its pairs; the draws of a counted task are added to means. */
static enum b2_status figures(struct retention_task *t, const struct pairs *p,
                              uint64_t seed, double *means, struct b2_err *err)
{
    const int64_t reps = BOOTSTRAP_RESAMPLES;
    double *draws = mem_calloc((size_t)(reps + 2 * p->n), sizeof *draws);
    double weight = 0.0, a, b;

    if (!draws)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < p->n; i++)
        weight += p->w[i];
    a = total(p->a, p->w, p->n, 0.0);
    b = total(p->b, p->w, p->n, 0.0);
    t->n = p->n;
    t->n_unpaired = p->n_unpaired;
    t->baseline = ratio(a, weight);
    t->candidate = ratio(b, weight);
    t->retention = ratio(b, a);
    t->corrected = ratio(b - t->chance * weight, a - t->chance * weight);
    t->at_chance = at_chance(p, t->baseline, t->chance);
    count_changes(t, p);
    seed = seed_of(seed, t->name);
    draw(draws, p, 0.0, draws + reps, seed);
    for (int64_t i = 0; i < reps && !t->at_chance; i++)
        means[i] += draws[i];
    t->ci = bootstrap_interval(draws, reps, 0.95);
    if (t->chance != 0.0) {
        draw(draws, p, t->chance, draws + reps, seed);
        t->corrected_ci = bootstrap_interval(draws, reps, 0.95);
    } else {
        t->corrected_ci = t->ci;
    }
    double half = (t->ci.high - t->ci.low) / 2.0 / RETENTION_CLAIM;
    t->n_needed =
        max_i64(RETENTION_MIN_NEEDED, (int64_t)ceil((double)p->n * half * half));
    mem_free(draws);
    return B2_OK;
}

static enum b2_status make_task(struct retention_task *t, const struct item_set *base,
                                const struct item_set *cand, uint64_t seed,
                                double *means, struct b2_err *err)
{
    struct pairs p = {0};
    enum b2_status rc;

    if (strcmp(base->task, cand->task) != 0 || strcmp(base->metric, cand->metric) != 0)
        return err_set(err, B2_EARG,
                       "task %s by %s cannot be compared with task %s by %s",
                       base->task, base->metric, cand->task, cand->metric);
    *t = (struct retention_task){
        .name = base->task, .metric = base->metric, .chance = base->chance};
    t->prompts_differ = strcmp(base->prompt_sha256, cand->prompt_sha256) != 0;
    rc = pairs_make(&p, base, cand, err);
    if (!rc)
        rc = figures(t, &p, seed, means, err);
    if (rc)
        err_wrap(err, "task %s", base->task);
    mem_free(p.a);
    return rc;
}

/* Worst first; those at chance behind all others. */
static int by_retention(const void *x, const void *y)
{
    const struct retention_task *a = x, *b = y;

    if (a->at_chance != b->at_chance)
        return a->at_chance ? 1 : -1;
    if (a->retention != b->retention)
        return a->retention < b->retention ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void means_of(struct retention *r, double *draws)
{
    double logs = 0.0;

    for (int i = 0; i < r->n; i++) {
        const struct retention_task *t = &r->task[i];
        if (t->at_chance)
            continue;
        r->n_counted++;
        r->mean += t->retention;
        r->mean_corrected += t->corrected;
        logs += log(t->retention); /* 0: -inf, a geometric mean of 0 */
    }
    if (r->n_counted == 0)
        return;
    double n = r->n_counted;
    r->mean /= n;
    r->mean_corrected /= n;
    r->geometric = exp(logs / n);
    for (int64_t i = 0; i < BOOTSTRAP_RESAMPLES; i++)
        draws[i] /= n;
    r->mean_ci = bootstrap_interval(draws, BOOTSTRAP_RESAMPLES, 0.95);
    r->hidden_collapse =
        r->mean > RETENTION_MEAN_GOOD && r->task[0].retention < RETENTION_TASK_BAD;
}

enum b2_status retention_make(struct retention *out, const struct item_set *baseline,
                              const struct item_set *candidate, int n, uint64_t seed,
                              struct b2_err *err)
{
    struct retention r = {.n = n};
    double *draws = mem_calloc(BOOTSTRAP_RESAMPLES, sizeof *draws);
    enum b2_status rc = B2_OK;

    r.task = mem_calloc((size_t)n + 1, sizeof *r.task);
    if (!draws || !r.task) {
        err_set(err, B2_ENOMEM, "out of memory");
        rc = B2_ENOMEM;
    }
    for (int i = 0; i < n && !rc; i++)
        rc = make_task(&r.task[i], &baseline[i], &candidate[i], seed, draws, err);
    if (!rc) {
        if (n > 1)
            qsort(r.task, (size_t)n, sizeof *r.task, by_retention);
        means_of(&r, draws);
    }
    mem_free(draws);
    if (rc) {
        retention_free(&r);
        return rc;
    }
    *out = r;
    return B2_OK;
}

void retention_free(struct retention *r)
{
    mem_free(r->task);
    *r = (struct retention){0};
}
