/*
 * prune_solve.c - inverses in F64, updated when a unit goes.
 */
#include "compress/prune_solve.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 16, SOLVE_ROWS = 32 };

static const double DAMP = 1e-4, DAMP_MOST = 1e3;

/* ---- means ---- */

static double mean_diagonal(const struct metric_sums *s)
{
    double trace = 0.0;

    for (int64_t i = 0; i < s->d; i++)
        trace += s->h[i * s->d + i];
    trace /= (double)(s->d * max_i64(1, s->n_tokens));
    return trace > 0.0 ? trace : 1.0;
}

static double mean_at(const struct metric_sums *s, const double *m, int64_t i,
                      int64_t k)
{
    return m[i * s->d + k] / (double)max_i64(1, s->n_tokens);
}

/* H of the columns listed, both ways, from its upper half. */
static double h_at(const struct metric_sums *s, int64_t i, int64_t k)
{
    return i <= k ? mean_at(s, s->h, i, k) : mean_at(s, s->h, k, i);
}

/* The factor of H over n columns with damping that suffices, *damp. */
static enum b2_status factor(double *r, double *damp, const struct metric_sums *s,
                             const int32_t *column, int64_t n, const struct blas *b,
                             struct b2_err *err)
{
    const double mean = mean_diagonal(s);

    if (!isfinite(mean))
        return err_set(err, B2_EFORMAT, "the activations are no numbers");
    for (*damp = DAMP; *damp <= DAMP_MOST; *damp *= 10.0) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n; k++)
                r[i * n + k] =
                    h_at(s, column[i], column[k]) + (i == k ? *damp * mean : 0.0);
        if (blas_cholesky(b, r, n))
            return B2_OK;
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
        energy += h_at(k->s, first + i, first + i);
    if (energy <= 0.0)
        return 0.0; /* never anything but zero */
    if (k->u->restore) {
        copy_small(k, a, first);
        if (!small_cholesky(a, n))
            return (double)INFINITY;
    }
    for (int64_t r = 0; r < k->rows; r++) {
        const double *w = k->w + r * k->d + first;
        for (int64_t i = 0; i < n; i++) {
            x[i] = k->u->restore ? w[i] : 0.0;
            for (int64_t j = 0; !k->u->restore && j < n; j++)
                x[i] += h_at(k->s, first + i, first + j) * w[j];
        }
        if (k->u->restore)
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
        const double h = h_at(k->s, i, i);
        k->score[i] = h <= 0.0        ? 0.0
                      : k->u->restore ? k->score[i] / k->p[i * k->d + i]
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

/* P whole from H over all columns. */
static enum b2_status make_inverse(struct picking *k, const struct blas *b,
                                   struct b2_err *err)
{
    double damp;
    int32_t *all = mem_calloc((size_t)k->d, sizeof *all);
    enum b2_status rc = all ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");

    for (int64_t i = 0; all && i < k->d; i++)
        all[i] = (int32_t)i;
    if (!rc)
        rc = factor(k->p, &damp, k->s, all, k->d, b, err);
    if (!rc && !blas_cholesky_invert(b, k->p, k->d))
        rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
    for (int64_t i = 0; !rc && i < k->d; i++)
        for (int64_t j = i + 1; j < k->d; j++)
            k->p[j * k->d + i] = k->p[i * k->d + j];
    mem_free(all);
    return rc;
}

enum b2_status prune_pick(uint8_t *gone, float *cost, const struct prune_units *u,
                          int64_t n_more, const struct metric_sums *s, const float *w,
                          int64_t rows, const struct blas *b, struct pool *pool,
                          struct b2_err *err)
{
    struct picking k = {
        .u = u, .s = s, .pool = pool, .gone = gone, .rows = rows, .d = s->d};
    const bool exact = u->restore && s->d <= PRUNE_EXACT;
    enum b2_status rc = make_picking(&k, w, pool)
                            ? B2_OK
                            : err_set(err, B2_ENOMEM, "out of memory for rows of %lld",
                                      (long long)s->d);

    if (!rc && u->restore)
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

/* ---- restoring ---- */

struct restoring {
    const struct metric_sums *s;
    const struct blas *b;
    const float *w;
    const double *target; /* [d, n] what W is multiplied with */
    const double *r;      /* [n, n] factor */
    const int32_t *kept;  /* [n] */
    const float *h;       /* [d, d] */
    float *out;
    double *lost;  /* [rows, 3] plain, restored, all */
    double *right; /* [threads, SOLVE_ROWS, n] */
    float *work;   /* [threads, 2, SOLVE_ROWS, d] */
    int64_t n, d;
};

/* sum[3 i] = e H eᵀ of the rows e [n, d]. */
static void in_metric(const struct restoring *k, double *sum, const float *e,
                      float *work, int64_t n)
{
    blas_gemm(k->b, work, k->d, (struct blas_size){n, k->d, k->d},
              (struct blas_mat){e, k->d, false}, (struct blas_mat){k->h, k->d, false},
              1.0f, 0.0f);
    for (int64_t r = 0; r < n; r++) {
        sum[3 * r] = 0.0;
        for (int64_t i = r * k->d; i < (r + 1) * k->d; i++)
            sum[3 * r] += (double)work[i] * (double)e[i];
    }
}

/* n rows of the result; right [n, kept]. */
static void restore_block(const struct restoring *k, float *out, const float *w,
                          double *right, int64_t n)
{
    memset(right, 0, (size_t)(n * k->n) * sizeof *right);
    for (int64_t i = 0; i < k->d; i++)
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = 0; c < k->n; c++)
                right[r * k->n + c] +=
                    (double)w[r * k->d + i] * k->target[i * k->n + c];
    if (!blas_cholesky_solve(k->b, k->r, k->n, right, n))
        right[0] = (double)NAN;
    memset(out, 0, (size_t)(n * k->d) * sizeof *out);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < k->n; c++)
            out[r * k->d + k->kept[c]] = (float)right[r * k->n + c];
}

/* At most SOLVE_ROWS of them. */
static void restore_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct restoring *k = ctx;
    const int64_t d = k->d, n = end - begin;
    float *e = k->work + (int64_t)thread * 2 * SOLVE_ROWS * d,
          *work = e + SOLVE_ROWS * d;
    const float *w = k->w + begin * d;
    double *lost = k->lost + 3 * begin;

    if (k->out)
        restore_block(k, k->out + begin * d, w,
                      k->right + (int64_t)thread * SOLVE_ROWS * k->n, n);
    memcpy(e, w, (size_t)(n * d) * sizeof *e);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < k->n; c++)
            e[r * d + k->kept[c]] = 0.0f;
    in_metric(k, lost, e, work, n);
    for (int64_t i = 0; k->out && i < n * d; i++)
        e[i] = w[i] - k->out[begin * d + i];
    in_metric(k, lost + 1, e, work, n);
    in_metric(k, lost + 2, w, work, n);
}

static bool make_restoring(struct restoring *k, struct prune_lost *lost, int64_t rows,
                           struct pool *pool)
{
    const size_t threads = pool ? (size_t)pool_threads(pool) : 1;

    *lost = (struct prune_lost){0.0, 0.0};
    k->lost = mem_calloc((size_t)rows, 3 * sizeof *k->lost);
    k->right = mem_calloc(threads * SOLVE_ROWS, (size_t)k->n * sizeof *k->right);
    k->work = mem_calloc(threads * 2 * SOLVE_ROWS, (size_t)k->d * sizeof *k->work);
    return k->lost && k->right && k->work;
}

/* (1 - eta) (H + l I) + eta (C + l I), kept columns, and H whole in F32. */
static void make_target(double *target, float *h, const struct metric_sums *s,
                        const int32_t *kept, int64_t n, double eta, double add)
{
    for (int64_t i = 0; i < s->d; i++) {
        for (int64_t k = 0; k < s->d; k++)
            h[i * s->d + k] = (float)h_at(s, i, k);
        for (int64_t c = 0; c < n; c++)
            target[i * n + c] = (1.0 - eta) * h_at(s, i, kept[c]) +
                                eta * mean_at(s, s->c, i, kept[c]) +
                                (i == kept[c] ? add : 0.0);
    }
}

static void sum_lost(struct prune_lost *lost, const double *each, int64_t rows)
{
    double all = 0.0;

    for (int64_t r = 0; r < rows; r++) {
        lost->plain += each[3 * r];
        lost->restored += each[3 * r + 1];
        all += each[3 * r + 2];
    }
    lost->plain = all > 0.0 ? lost->plain / all : 0.0;
    lost->restored = all > 0.0 ? lost->restored / all : 0.0;
}

enum b2_status prune_restore(float *out, struct prune_lost *lost, const uint8_t *gone,
                             const struct metric_sums *s, const float *w, int64_t rows,
                             double eta, const struct blas *b, struct pool *pool,
                             struct b2_err *err)
{
    const size_t d = (size_t)s->d;
    struct restoring k = {.s = s, .b = b, .w = w, .out = out, .d = s->d};
    int32_t *kept = mem_calloc(d, sizeof *kept);
    double *r = NULL, *target = NULL, damp = 0.0;
    float *h = mem_calloc(d * d, sizeof *h);
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; kept && i < s->d; i++)
        if (!gone[i])
            kept[k.n++] = (int32_t)i;
    r = mem_calloc((size_t)(k.n * k.n), sizeof *r);
    target = mem_calloc(d * (size_t)k.n, sizeof *target);
    if (!kept || !h || !r || !target || !make_restoring(&k, lost, rows, pool))
        rc = err_set(err, B2_ENOMEM, "out of memory for rows of %lld", (long long)s->d);
    if (!rc && out)
        rc = factor(r, &damp, s, kept, k.n, b, err);
    if (!rc) {
        make_target(target, h, s, kept, k.n, eta, damp * mean_diagonal(s));
        k.target = target;
        k.r = r;
        k.kept = kept;
        k.h = h;
        pool_run(pool, restore_rows, &k, rows, SOLVE_ROWS);
        sum_lost(lost, k.lost, rows);
        if (!isfinite(lost->restored))
            rc = err_set(err, B2_EFORMAT, "the activations are no numbers");
    }
    mem_free(kept);
    mem_free(h);
    mem_free(r);
    mem_free(target);
    mem_free(k.lost);
    mem_free(k.right);
    mem_free(k.work);
    return rc;
}
