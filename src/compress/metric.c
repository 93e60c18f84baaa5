/*
 * metric.c - sums over tokens, and what is solved from them in F64.
 */
#include "compress/metric.h"

#include "base/mem.h"
#include "compress/rank.h"

#include <math.h>
#include <string.h>

enum { TILE = 96, SOLVE_ROWS = 64 };

enum b2_status metric_sums_new(struct metric_sums *s, int64_t d, struct b2_err *err)
{
    size_t n = (size_t)(d * d);

    *s = (struct metric_sums){.d = d};
    s->h = mem_calloc(n, sizeof *s->h);
    s->c = mem_calloc(n, sizeof *s->c);
    s->part = mem_calloc(2 * n, sizeof *s->part);
    if (s->h && s->c && s->part)
        return B2_OK;
    metric_sums_free(s);
    return err_set(err, B2_ENOMEM,
                   "out of memory for the input statistics of rows of %lld",
                   (long long)d);
}

void metric_sums_free(struct metric_sums *s)
{
    mem_free(s->h);
    mem_free(s->c);
    mem_free(s->part);
    *s = (struct metric_sums){0};
}

/* ---- sums ---- */

struct adding {
    struct metric_sums *s;
    const struct blas *b;
    const float *x, *z;
    int64_t stride, n_tokens, n_tiles;
};

/* Tile i of H below the diagonal's end, or (from n_tiles on) of C. */
static void add_tile(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct adding *a = ctx;
    int64_t d = a->s->d;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        bool cross = i >= a->n_tiles;
        int64_t from = (cross ? i - a->n_tiles : i) * TILE;
        int64_t rows = min_i64(TILE, d - from);
        int64_t skip = cross ? 0 : from; /* H is symmetric: only its upper part */
        float *part = a->s->part + (cross ? d * d : 0) + from * d + skip;
        double *sum = (cross ? a->s->c : a->s->h) + from * d + skip;
        struct blas_size size = {rows, d - skip, a->n_tokens};
        struct blas_mat left = {(cross ? a->z : a->x) + from, a->stride, true};
        blas_gemm(a->b, part, d, size, left,
                  (struct blas_mat){a->x + skip, a->stride, false}, 1.0f, 0.0f);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < d - skip; k++)
                sum[r * d + k] += (double)part[r * d + k];
    }
}

void metric_sums_add(struct metric_sums *s, const struct blas *b, struct pool *pool,
                     const float *x, const float *z, int64_t n_tokens)
{
    struct adding a = {s,
                       b,
                       x + s->from,
                       z ? z + s->from : NULL,
                       s->stride ? s->stride : s->d,
                       n_tokens,
                       (s->d + TILE - 1) / TILE};

    pool_run(pool, add_tile, &a, (z ? 2 : 1) * a.n_tiles, 1);
    s->n_tokens += n_tokens;
}

/* H in full, as means. *mean: of its diagonal; 1 when that is 0, so that inputs that are
 * always zero leave plain rounding. */
static enum b2_status mean_h(double *h, double *mean, const struct metric_sums *s,
                             struct b2_err *err)
{
    int64_t d = s->d;
    double trace = 0.0, n = (double)max_i64(1, s->n_tokens);

    for (int64_t i = 0; i < d; i++) {
        for (int64_t k = i; k < d; k++)
            h[i * d + k] = h[k * d + i] = s->h[i * d + k] / n;
        trace += h[i * d + i];
    }
    if (!isfinite(trace))
        return err_set(
            err, B2_EFORMAT,
            "the activations are no numbers (NaN or infinity): the source is "
            "broken, or its values are beyond F32");
    *mean = trace > 0.0 ? trace / (double)d : 1.0;
    return B2_OK;
}

/* ---- the target ---- */

struct solving {
    const struct blas *b;
    const double *r;
    double *x;
    int64_t d;
};

static void solve_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct solving *s = ctx;

    (void)thread;
    if (!blas_cholesky_solve(s->b, s->r, s->d, s->x + begin * s->d, end - begin))
        s->x[begin * s->d] = (double)NAN;
}

enum b2_status metric_target(float *m, const struct metric_sums *s,
                             const struct blas *b, struct pool *pool,
                             struct b2_err *err)
{
    int64_t d = s->d, n = d * d;
    double *h = mem_calloc((size_t)n, sizeof *h), *x = mem_calloc((size_t)n, sizeof *x);
    double mean = 0.0, damp = METRIC_DAMP;
    enum b2_status rc = B2_OK;

    if (!h || !x) {
        mem_free(h);
        mem_free(x);
        return err_set(err, B2_ENOMEM, "out of memory for rows of %lld", (long long)d);
    }
    for (bool solved = false; !rc && !solved; damp *= 10.0) {
        rc = mean_h(h, &mean, s, err);
        for (int64_t i = 0; i < d && !rc; i++)
            h[i * d + i] += damp * mean;
        solved = rc || blas_cholesky(b, h, d);
        if (!solved && damp > 1e3)
            rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
    }
    damp /= 10.0; /* the loop raised it once too often */
    if (!rc) {
        struct solving solving = {b, h, x, d};
        for (int64_t i = 0; i < n; i++)
            x[i] = s->c[i] / (double)max_i64(1, s->n_tokens);
        for (int64_t i = 0; i < d; i++)
            x[i * d + i] += damp * mean;
        pool_run(pool, solve_rows, &solving, d, SOLVE_ROWS);
        for (int64_t i = 0; i < n && !rc; i++) {
            m[i] = (float)x[i];
            if (!isfinite(m[i]))
                rc = err_set(err, B2_EFORMAT, "the activations are no numbers");
        }
    }
    mem_free(h);
    mem_free(x);
    return rc;
}

/* ---- order and factor ---- */

/* h := Rᵀ h R for the rotation of rows w -> w R, in F64 through F32 rows. */
static void rotate_both(double *h, int64_t d, const struct rotate *rotate, float *row)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t i = 0; i < d; i++) {
            for (int64_t k = 0; k < d; k++)
                row[k] = (float)h[i * d + k];
            rotate_fold_row(rotate, row, d);
            for (int64_t k = 0; k < d; k++)
                h[i * d + k] = (double)row[k];
        }
        for (int64_t i = 0; i < d; i++) { /* transpose */
            for (int64_t k = i + 1; k < d; k++) {
                double t = h[i * d + k];
                h[i * d + k] = h[k * d + i];
                h[k * d + i] = t;
            }
        }
    }
    for (int64_t i = 0; i < d; i++) /* F32 rounded the halves differently */
        for (int64_t k = i + 1; k < d; k++)
            h[i * d + k] = h[k * d + i] = 0.5 * (h[i * d + k] + h[k * d + i]);
}

/* Runs [first + k * n, + n) of columns, k < count, by falling sums of their diagonal. */
static void rank_runs(struct ranked *r, const double *h, int64_t d, int64_t first,
                      int64_t n, int64_t count)
{
    for (int64_t k = 0; k < count; k++) {
        r[k] = (struct ranked){0.0, (int32_t)(first + k * n)};
        for (int64_t i = r[k].at; i < r[k].at + n; i++)
            r[k].key += h[i * d + i];
    }
    rank_falling(r, count);
}

static bool make_order(struct metric *m, const double *h)
{
    int64_t d = m->d, n = d / m->group, n_units = m->group / m->unit;
    struct ranked *g = mem_calloc((size_t)n, sizeof *g);
    struct ranked *c = mem_calloc((size_t)n_units, sizeof *c);

    if (g && c)
        rank_runs(g, h, d, 0, m->group, n);
    for (int64_t i = 0; g && c && i < n; i++) {
        rank_runs(c, h, d, g[i].at, m->unit, n_units);
        for (int64_t p = 0; p < m->group; p++)
            m->perm[i * m->group + p] = c[p / m->unit].at + (int32_t)(p % m->unit);
    }
    mem_free(g);
    mem_free(c);
    return g && c;
}

/* u from h; work [d, d]. False: not positive definite with this damping. */
static bool factor(struct metric *m, double *work, const double *h, double add,
                   const struct blas *b)
{
    int64_t d = m->d;

    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++)
            work[i * d + k] = h[m->perm[i] * d + m->perm[k]] + (i == k ? add : 0.0);
    for (int64_t i = 0; i < d * d; i++)
        m->h[i] = (float)work[i];
    if (!blas_cholesky(b, work, d) || !blas_cholesky_invert(b, work, d) ||
        !blas_cholesky(b, work, d))
        return false;
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++)
            m->u[i * d + k] = k >= i ? (float)work[i * d + k] : 0.0f;
    return true;
}

/* h and work: [d, d]. */
static enum b2_status fill_metric(struct metric *m, double *h, double *work,
                                  const struct metric_sums *s,
                                  const struct rotate *rotate, const struct blas *b,
                                  struct b2_err *err)
{
    double mean = 0.0;
    enum b2_status rc = mean_h(h, &mean, s, err);

    if (!rc && rotate)
        rotate_both(h, m->d, rotate, m->h);
    if (!rc && !make_order(m, h))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    while (!rc && !factor(m, work, h, m->damp * mean, b)) {
        m->damp *= 10.0;
        if (m->damp > 1e3)
            rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
    }
    return rc;
}

enum b2_status metric_new(struct metric *m, const struct metric_sums *s,
                          const struct rotate *rotate, int64_t group, int64_t unit,
                          const struct blas *b, struct b2_err *err)
{
    int64_t d = s->d;
    size_t n = (size_t)(d * d);
    double *h = mem_calloc(n, sizeof *h), *work = mem_calloc(n, sizeof *work);
    enum b2_status rc;

    *m = (struct metric){.d = d, .group = group, .unit = unit, .damp = METRIC_DAMP};
    m->perm = mem_calloc((size_t)d, sizeof *m->perm);
    m->h = mem_calloc(n, sizeof *m->h);
    m->u = mem_calloc(n, sizeof *m->u);
    if (h && work && m->perm && m->h && m->u)
        rc = fill_metric(m, h, work, s, rotate, b, err);
    else
        rc = err_set(err, B2_ENOMEM, "out of memory for rows of %lld", (long long)d);
    mem_free(h);
    mem_free(work);
    if (rc)
        metric_free(m);
    return rc;
}

void metric_free(struct metric *m)
{
    mem_free(m->perm);
    mem_free(m->h);
    mem_free(m->u);
    *m = (struct metric){0};
}
