/*
 * prune_solve.c - inverses in F64, updated when a unit goes.
 */
#include "compress/prune_solve.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 16 };

static const double DAMP_MOST = 1e4;

/* ---- means ---- */

double prune_mean_diagonal(const struct metric_sums *s)
{
    double trace = 0.0;

    for (int64_t i = 0; i < s->d; i++)
        trace += s->h[i * s->d + i];
    trace /= (double)(s->d * max_i64(1, s->n_tokens));
    return trace <= 0.0 ? 1.0 : trace; /* NaN stays */
}

double prune_c(const struct metric_sums *s, int64_t i, int64_t k)
{
    return s->c[i * s->d + k] / (double)max_i64(1, s->n_tokens);
}

/* Only the upper half is summed. */
double prune_h(const struct metric_sums *s, int64_t i, int64_t k)
{
    const int64_t at = i <= k ? i * s->d + k : k * s->d + i;

    return s->h[at] / (double)max_i64(1, s->n_tokens);
}

/* The factor r [d, d] of H with damp times its mean diagonal, or as much more as it takes. */
static enum b2_status factor(double *r, double damp, const struct metric_sums *s,
                             const struct blas *b, struct b2_err *err)
{
    const double mean = prune_mean_diagonal(s);

    if (!isfinite(mean))
        return err_set(err, B2_EFORMAT, "the activations are no numbers");
    while (damp <= DAMP_MOST) {
        for (int64_t i = 0; i < s->d; i++)
            for (int64_t k = 0; k < s->d; k++)
                r[i * s->d + k] = prune_h(s, i, k) + (i == k ? damp * mean : 0.0);
        if (blas_cholesky(b, r, s->d))
            return B2_OK;
        damp *= 10.0;
    }
    return err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
}

/* ---- picking ---- */

struct picking {
    const struct prune_units *u;
    const struct metric_sums *s;
    struct pool *pool;
    double *p;     /* [d, d] inverse; rows and columns that are gone mean nothing */
    double *w;     /* [rows, d] */
    double *score; /* [n] */
    uint8_t *gone;
    int64_t rows, d;
    /* of the unit that goes */
    int64_t first;
    double *solve; /* [d + rows, size] P_:S (P_SS)⁻¹, W_S (P_SS)⁻¹ */
    double *own;   /* [size, d] P_S: as it was */
    double *small; /* [threads, 2, size, size] */
};

/* In place: the lower triangle of a small positive definite matrix. False: it is not. */
static bool small_cholesky(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double sum = a[i * n + k];
            for (int64_t j = 0; j < k; j++)
                sum -= a[i * n + j] * a[k * n + j];
            if (i == k && !(sum > 0.0))
                return false;
            a[i * n + k] = i == k ? sqrt(sum) : sum / a[k * n + k];
        }
    return true;
}

/* x [n] := a⁻¹ x for the factor a. */
static void small_solve(const double *a, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++)
            x[i] -= a[i * n + k] * x[k];
        x[i] /= a[i * n + i];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < n; k++)
            x[i] -= a[k * n + i] * x[k];
        x[i] /= a[i * n + i];
    }
}

static void copy_small(const struct picking *k, double *to, int64_t first)
{
    for (int64_t i = 0; i < k->u->size; i++)
        for (int64_t j = 0; j < k->u->size; j++)
            to[i * k->u->size + j] = k->p[(first + i) * k->d + first + j];
}

/* tr(W_S M W_Sᵀ), M the inverse of the factor a, or H itself without restoring. */
static double unit_cost(const struct picking *k, int64_t unit, double *a, double *x)
{
    const int64_t n = k->u->size, first = unit * n;
    double sum = 0.0, energy = 0.0;

    for (int64_t i = 0; i < n; i++)
        energy += prune_h(k->s, first + i, first + i);
    if (energy <= 0.0)
        return 0.0; /* never anything but zero */
    if (k->u->damp > 0.0) {
        copy_small(k, a, first);
        if (!small_cholesky(a, n))
            return (double)INFINITY;
    }
    for (int64_t r = 0; r < k->rows; r++) {
        const double *w = k->w + r * k->d + first;
        for (int64_t i = 0; i < n; i++) {
            x[i] = k->u->damp > 0.0 ? w[i] : 0.0;
            for (int64_t j = 0; k->u->damp <= 0.0 && j < n; j++)
                x[i] += prune_h(k->s, first + i, first + j) * w[j];
        }
        if (k->u->damp > 0.0)
            small_solve(a, n, x);
        for (int64_t i = 0; i < n; i++)
            sum += x[i] * w[i];
    }
    return sum;
}

static void score_units(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct picking *k = ctx;
    double *a = k->small + (int64_t)thread * 2 * k->u->size * k->u->size;

    for (int64_t i = begin; i < end; i++)
        if (!k->gone[i])
            k->score[i] = unit_cost(k, i, a, a + k->u->size * k->u->size);
}

/* Single columns: squares over the rows, a run of columns at a time. */
static void score_columns(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct picking *k = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        k->score[i] = 0.0;
    for (int64_t r = 0; r < k->rows; r++)
        for (int64_t i = begin; i < end; i++)
            k->score[i] += k->w[r * k->d + i] * k->w[r * k->d + i];
    for (int64_t i = begin; i < end; i++) {
        const double h = prune_h(k->s, i, i);
        k->score[i] = h <= 0.0           ? 0.0
                      : k->u->damp > 0.0 ? k->score[i] / k->p[i * k->d + i]
                                         : k->score[i] * h;
    }
}

static void score(struct picking *k)
{
    if (k->u->size == 1)
        pool_run(k->pool, score_columns, k, k->u->n, 64);
    else
        pool_run(k->pool, score_units, k, k->u->n, 1);
}

/* Rows of P, then those of W, without the unit. */
static void update_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct picking *k = ctx;
    const int64_t n = k->u->size, d = k->d;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        double *row = r < d ? k->p + r * d : k->w + (r - d) * d;
        for (int64_t i = 0; i < n; i++) {
            const double by = k->solve[r * n + i]; /* row_S (P_SS)⁻¹ */
            const double *own = k->own + i * d;
            for (int64_t c = 0; by != 0.0 && c < d; c++)
                row[c] -= by * own[c];
        }
    }
}

/* Takes a unit out of P and W. */
static bool remove_unit(struct picking *k, int64_t unit)
{
    const int64_t n = k->u->size, d = k->d;
    double *a = k->small;

    k->first = unit * n;
    copy_small(k, a, k->first);
    if (!small_cholesky(a, n))
        return false;
    memcpy(k->own, k->p + k->first * d, (size_t)(n * d) * sizeof *k->own);
    for (int64_t r = 0; r < d + k->rows; r++) {
        const double *row = r < d ? k->p + r * d : k->w + (r - d) * d;
        memcpy(k->solve + r * n, row + k->first, (size_t)n * sizeof *row);
        small_solve(a, n, k->solve + r * n);
    }
    pool_run(k->pool, update_rows, k, d + k->rows, CHUNK);
    return true;
}

/* The cheapest unit of a part that is still there, or -1. */
static int64_t cheapest(const struct picking *k, int64_t part)
{
    int64_t best = -1;

    for (int64_t i = part * k->u->part; i < (part + 1) * k->u->part && i < k->u->n; i++)
        if (!k->gone[i] && (best < 0 || k->score[i] < k->score[best]))
            best = i;
    return best;
}

static bool make_picking(struct picking *k, const float *w, struct pool *pool)
{
    const size_t n = (size_t)k->u->size, d = (size_t)k->d;
    const size_t threads = pool ? (size_t)pool_threads(pool) : 1;

    k->p = mem_calloc(d * d, sizeof(double));
    k->w = mem_calloc((size_t)k->rows * d, sizeof(double));
    k->score = mem_calloc((size_t)k->u->n, sizeof(double));
    k->solve = mem_calloc((d + (size_t)k->rows) * n, sizeof(double));
    k->own = mem_calloc(n * d, sizeof(double));
    k->small = mem_calloc(threads * 2 * n, n * sizeof(double));
    if (!k->p || !k->w || !k->score || !k->solve || !k->own || !k->small)
        return false;
    for (int64_t i = 0; i < k->rows * k->d; i++)
        k->w[i] = (double)w[i];
    return true;
}

static void free_picking(struct picking *k)
{
    mem_free(k->p);
    mem_free(k->w);
    mem_free(k->score);
    mem_free(k->solve);
    mem_free(k->own);
    mem_free(k->small);
}

/* P whole from H. */
static enum b2_status make_inverse(struct picking *k, const struct blas *b,
                                   struct b2_err *err)
{
    enum b2_status rc = factor(k->p, k->u->damp, k->s, b, err);

    if (!rc && !blas_cholesky_invert(b, k->p, k->d))
        rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
    for (int64_t i = 0; !rc && i < k->d; i++)
        for (int64_t j = i + 1; j < k->d; j++)
            k->p[j * k->d + i] = k->p[i * k->d + j];
    return rc;
}

enum b2_status prune_pick(uint8_t *gone, float *cost, const struct prune_units *u,
                          int64_t n_more, const struct metric_sums *s, const float *w,
                          int64_t rows, const struct blas *b, struct pool *pool,
                          struct b2_err *err)
{
    struct picking k = {
        .u = u, .s = s, .pool = pool, .gone = gone, .rows = rows, .d = s->d};
    const bool exact = u->damp > 0.0 && s->d <= PRUNE_EXACT;
    enum b2_status rc = make_picking(&k, w, pool)
                            ? B2_OK
                            : err_set(err, B2_ENOMEM, "out of memory for rows of %lld",
                                      (long long)s->d);

    if (!rc && u->damp > 0.0)
        rc = make_inverse(&k, b, err);
    for (int64_t i = 0; i < u->n && !rc && exact; i++)
        if (gone[i] && !remove_unit(&k, i))
            rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
    if (!rc)
        score(&k);
    for (int64_t i = 0; i < n_more && !rc; i++)
        for (int64_t part = 0; part * u->part < u->n && !rc; part++) {
            const int64_t best = cheapest(&k, part);
            if (best < 0)
                continue;
            gone[best] = 1;
            cost[best] = (float)k.score[best];
            if (!exact)
                continue;
            if (!remove_unit(&k, best))
                rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
            score(&k);
        }
    free_picking(&k);
    return rc;
}
