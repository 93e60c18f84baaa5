/*
 * analyze_stats.c - sums over tokens, column by column.
 */
#include "compress/analyze_stats.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK = 64 };

static const double OUTLIER = 6.0, DEAD = 1e-6, MOST = 0.99;

enum b2_status stats_columns_new(struct stats_columns *s, int64_t d, struct b2_err *err)
{
    *s = (struct stats_columns){.d = d};
    s->square = mem_calloc((size_t)d, sizeof *s->square);
    s->max = mem_calloc((size_t)d, sizeof *s->max);
    s->outliers = mem_calloc((size_t)d, sizeof *s->outliers);
    if (s->square && s->max && s->outliers)
        return B2_OK;
    stats_columns_free(s);
    return err_set(err, B2_ENOMEM, "out of memory for the statistics");
}

void stats_columns_free(struct stats_columns *s)
{
    mem_free(s->square);
    mem_free(s->max);
    mem_free(s->outliers);
    *s = (struct stats_columns){0};
}

struct adding {
    struct stats_columns *s;
    const float *x;
    int64_t n_tokens;
    double *square; /* [d] of the batch */
    float limit;
};

static void add_squares(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct adding *a = ctx;

    (void)thread;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *row = a->x + t * a->s->d;
        for (int64_t i = begin; i < end; i++)
            a->square[i] += (double)row[i] * (double)row[i];
    }
}

static void add_outliers(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct adding *a = ctx;

    (void)thread;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *row = a->x + t * a->s->d;
        for (int64_t i = begin; i < end; i++) {
            const float v = fabsf(row[i]);
            a->s->max[i] = v > a->s->max[i] ? v : a->s->max[i];
            a->s->outliers[i] += v > a->limit;
        }
    }
}

void stats_columns_add(struct stats_columns *s, struct pool *pool, const float *x,
                       int64_t n_tokens)
{
    struct adding a = {s, x, n_tokens, s->square, 0.0f};
    double before = 0.0, after = 0.0;

    for (int64_t i = 0; i < s->d; i++)
        before += s->square[i];
    pool_run(pool, add_squares, &a, s->d, CHUNK);
    for (int64_t i = 0; i < s->d; i++)
        after += s->square[i];
    a.limit =
        (float)(OUTLIER * sqrt((after - before) / (double)max_i64(1, n_tokens * s->d)));
    pool_run(pool, add_outliers, &a, s->d, CHUNK);
    s->n_tokens += n_tokens;
}

static int by_size(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;

    return (a > b) - (a < b);
}

/* The median of v [n], which is sorted by it. */
static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n > 0 ? v[n / 2] : 0.0;
}

enum b2_status stats_columns_input(struct sens_input *out,
                                   const struct stats_columns *s, struct b2_err *err)
{
    double *sorted = mem_calloc((size_t)s->d, sizeof *sorted);
    double total = 0.0, most = 0.0, top = 0.0, n = (double)max_i64(1, s->n_tokens);
    int64_t outliers = 0;

    if (!sorted)
        return err_set(err, B2_ENOMEM, "out of memory for the statistics");
    for (int64_t i = 0; i < s->d; i++) {
        sorted[i] = sqrt(s->square[i] / n);
        total += s->square[i];
        top = fmax(top, sorted[i]);
        most = fmax(most, (double)s->max[i]);
        outliers += s->outliers[i];
    }
    const double middle = median(sorted, s->d);
    mem_free(sorted);
    *out = (struct sens_input){sqrt(total / (n * (double)s->d)), most,
                               (double)outliers / (n * (double)s->d),
                               middle > 0.0 ? top / middle : (double)NAN};
    if (!isfinite(total))
        return err_set(
            err, B2_EFORMAT,
            "the activations are no numbers (NaN or infinity): the source is "
            "broken, or its values are beyond F32");
    return B2_OK;
}

/* ---- gates ---- */

enum b2_status stats_gates_new(struct stats_gates *s, int64_t f, struct b2_err *err)
{
    *s = (struct stats_gates){.f = f};
    s->above = mem_calloc((size_t)f, sizeof *s->above);
    s->below = mem_calloc((size_t)f, sizeof *s->below);
    if (s->above && s->below)
        return B2_OK;
    stats_gates_free(s);
    return err_set(err, B2_ENOMEM, "out of memory for the statistics");
}

void stats_gates_free(struct stats_gates *s)
{
    mem_free(s->above);
    mem_free(s->below);
    *s = (struct stats_gates){0};
}

struct counting {
    struct stats_gates *s;
    const float *gate;
    int64_t n_tokens;
};

static void count_gates(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct counting *c = ctx;

    (void)thread;
    for (int64_t t = 0; t < c->n_tokens; t++) {
        const float *row = c->gate + t * c->s->f;
        for (int64_t i = begin; i < end; i++) {
            c->s->above[i] += row[i] > STATS_FAR;
            c->s->below[i] += row[i] < -STATS_FAR;
        }
    }
}

void stats_gates_add(struct stats_gates *s, struct pool *pool, const float *gate,
                     int64_t n_tokens)
{
    struct counting c = {s, gate, n_tokens};

    pool_run(pool, count_gates, &c, s->f, CHUNK);
    s->n_tokens += n_tokens;
}

enum b2_status stats_neurons(struct sens_layer *l, float *cost,
                             const struct stats_columns *hidden,
                             const struct stats_gates *gates, const float *down,
                             int64_t d, struct b2_err *err)
{
    const int64_t f = hidden->d;
    const double often = MOST * (double)gates->n_tokens;
    double *sorted = mem_calloc((size_t)f, sizeof *sorted);

    if (!sorted)
        return err_set(err, B2_ENOMEM, "out of memory for the statistics");
    for (int64_t r = 0; r < d; r++)
        for (int64_t i = 0; i < f; i++)
            sorted[i] += (double)down[r * f + i] * (double)down[r * f + i];
    for (int64_t i = 0; i < f; i++) {
        sorted[i] *= hidden->square[i] / (double)max_i64(1, hidden->n_tokens);
        cost[i] = (float)sorted[i];
    }
    const double middle = median(sorted, f);
    l->dead = l->off = l->saturated = 0;
    for (int64_t i = 0; i < f; i++) {
        l->dead += (double)cost[i] <= DEAD * middle;
        l->off += (double)gates->below[i] >= often;
        l->saturated += (double)gates->above[i] >= often;
    }
    mem_free(sorted);
    return B2_OK;
}

double stats_cosines(const float *a, const float *b, int64_t n_tokens, int64_t d)
{
    double sum = 0.0;

    for (int64_t t = 0; t < n_tokens; t++) {
        double ab = 0.0, aa = 0.0, bb = 0.0;
        for (int64_t i = 0; i < d; i++) {
            const double x = (double)a[t * d + i], y = (double)b[t * d + i];
            ab += x * y;
            aa += x * x;
            bb += y * y;
        }
        sum += aa > 0.0 && bb > 0.0 ? ab / sqrt(aa * bb) : 1.0;
    }
    return sum;
}
