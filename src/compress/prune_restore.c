/*
 * prune_restore.c - least squares in F64, judged in F32 products.
 */
#include "compress/prune_restore.h"

#include "base/mem.h"
#include "compress/prune_solve.h"

#include <math.h>
#include <string.h>

enum { SOLVE_ROWS = 32 };

static const double DAMP_MOST = 1e4;

struct restoring {
    const struct prune_matrix *m;
    int64_t d, n;    /* columns, those that stay */
    int32_t *kept;   /* [n] */
    double *target;  /* [d, n] (1 - eta) H + eta C, columns that stay */
    double *right;   /* [rows, n] W times that */
    double *r;       /* [n, n] factor */
    double *scratch; /* [threads, SOLVE_ROWS, n] */
    double add;      /* l */
    float *out;      /* [rows, d] */
    bool *bad;       /* [rows / SOLVE_ROWS] */
};

struct judging {
    const struct prune_matrix *m;
    const uint8_t *gone;
    int64_t d;
    float *h, *t;     /* [d, d] H and (1 - eta) H + eta C of the tokens; t NULL: none */
    float *goal;      /* [rows, d] W t */
    const float *out; /* NULL: W without what goes */
    float *work;      /* [threads, 2, SOLVE_ROWS, d] */
    double *loss;     /* [rows] */
    bool from_w;      /* the loss of W - out, else that of out against goal */
};

static size_t threads_of(const struct prune_matrix *m)
{
    return m->pool ? (size_t)pool_threads(m->pool) : 1;
}

static enum b2_status no_memory(int64_t d, struct b2_err *err)
{
    (void)err_set(err, B2_ENOMEM, "out of memory for rows of %lld", (long long)d);
    return B2_ENOMEM;
}

uint64_t prune_restore_bytes(int64_t rows, int64_t d, int threads)
{
    const uint64_t u = (uint64_t)d, r = (uint64_t)rows;

    return u * u * (8 + 8 + 4 + 4) + r * u * (8 + 4 + 4) +
           (uint64_t)threads * SOLVE_ROWS * u * (8 + 8);
}

/* ---- solving ---- */

static void free_restoring(struct restoring *k)
{
    mem_free(k->kept);
    mem_free(k->target);
    mem_free(k->right);
    mem_free(k->r);
    mem_free(k->scratch);
    mem_free(k->bad);
}

static void make_target(struct restoring *k)
{
    const struct metric_sums *s = k->m->fit;
    const double eta = k->m->eta;

    for (int64_t i = 0; i < k->d; i++)
        for (int64_t c = 0; c < k->n; c++)
            k->target[i * k->n + c] = (1.0 - eta) * prune_h(s, i, k->kept[c]) +
                                      eta * prune_c(s, i, k->kept[c]);
}

static void right_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct restoring *k = ctx;

    (void)thread;
    for (int64_t i = 0; i < k->d; i++)
        for (int64_t r = begin; r < end; r++) {
            const double w = (double)k->m->w[r * k->d + i];
            const double *t = k->target + i * k->n;
            double *right = k->right + r * k->n;
            for (int64_t c = 0; c < k->n; c++)
                right[c] += w * t[c];
        }
}

static enum b2_status make_restoring(struct restoring *k, const struct prune_matrix *m,
                                     const uint8_t *gone, struct b2_err *err)
{
    const int64_t d = m->fit->d;
    int64_t n = 0;

    for (int64_t i = 0; i < d; i++)
        n += !gone[i];
    *k = (struct restoring){.m = m, .d = d, .n = n};
    const size_t cells = (size_t)n, rows = (size_t)m->rows;
    k->kept = mem_calloc(cells, sizeof *k->kept);
    k->target = mem_calloc((size_t)d * cells, sizeof *k->target);
    k->right = mem_calloc(rows * cells, sizeof *k->right);
    k->r = mem_calloc(cells * cells, sizeof *k->r);
    k->scratch = mem_calloc(threads_of(m) * SOLVE_ROWS, cells * sizeof *k->scratch);
    k->bad = mem_calloc((size_t)(m->rows / SOLVE_ROWS) + 1, sizeof *k->bad);
    if (!k->kept || !k->target || !k->right || !k->r || !k->scratch || !k->bad) {
        free_restoring(k);
        *k = (struct restoring){0};
        return no_memory(d, err);
    }
    n = 0;
    for (int64_t i = 0; i < d; i++)
        if (!gone[i])
            k->kept[n++] = (int32_t)i;
    make_target(k);
    pool_run(m->pool, right_rows, k, m->rows, SOLVE_ROWS);
    return B2_OK;
}

/* At most SOLVE_ROWS of them. */
static void solve_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct restoring *k = ctx;
    const int64_t n = k->n;
    double *x = k->scratch + (int64_t)thread * SOLVE_ROWS * n;

    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < n; c++)
            x[(r - begin) * n + c] =
                k->right[r * n + c] + k->add * (double)k->m->w[r * k->d + k->kept[c]];
    k->bad[begin / SOLVE_ROWS] = !blas_cholesky_solve(k->m->b, k->r, n, x, end - begin);
    memset(k->out + begin * k->d, 0, (size_t)((end - begin) * k->d) * sizeof *k->out);
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < n; c++)
            k->out[r * k->d + k->kept[c]] = (float)x[(r - begin) * n + c];
}

/* False: this damping does not make it solvable. */
static bool solve(struct restoring *k, double damp, float *out)
{
    bool good = true;

    k->add = damp * prune_mean_diagonal(k->m->fit);
    k->out = out;
    for (int64_t i = 0; i < k->n; i++)
        for (int64_t c = 0; c < k->n; c++)
            k->r[i * k->n + c] =
                prune_h(k->m->fit, k->kept[i], k->kept[c]) + (i == c ? k->add : 0.0);
    if (!isfinite(k->add) || !blas_cholesky(k->m->b, k->r, k->n))
        return false;
    pool_run(k->m->pool, solve_rows, k, k->m->rows, SOLVE_ROWS);
    for (int64_t i = 0; i * SOLVE_ROWS < k->m->rows; i++)
        good = good && !k->bad[i];
    return good;
}

enum b2_status prune_restore(float *out, const struct prune_matrix *m,
                             const uint8_t *gone, double damp, struct b2_err *err)
{
    struct restoring k;
    const int64_t d = m->fit->d;
    bool solved = false;

    if (damp <= 0.0) {
        for (int64_t i = 0; i < m->rows * d; i++)
            out[i] = gone[i % d] ? 0.0f : m->w[i];
        return B2_OK;
    }
    if (!isfinite(prune_mean_diagonal(m->fit)))
        return err_set(err, B2_EFORMAT, "the activations are no numbers");
    enum b2_status rc = make_restoring(&k, m, gone, err);
    for (; !rc && !solved && damp <= DAMP_MOST; damp *= 10.0)
        solved = solve(&k, damp, out);
    if (!rc && !solved)
        rc = err_set(err, B2_EFORMAT, "the input statistics cannot be solved");
    free_restoring(&k);
    return rc;
}

/* ---- judging ---- */

static void free_judging(struct judging *j)
{
    mem_free(j->h);
    mem_free(j->t);
    mem_free(j->goal);
    mem_free(j->work);
    mem_free(j->loss);
}

static void goal_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct judging *j = ctx;
    const int64_t d = j->d;

    (void)thread;
    blas_gemm(j->m->b, j->goal + begin * d, d, (struct blas_size){end - begin, d, d},
              (struct blas_mat){j->m->w + begin * d, d, false},
              (struct blas_mat){j->t, d, false}, 1.0f, 0.0f);
}

/* s: the tokens that judge; goal: against t, not against W x. */
static enum b2_status make_judging(struct judging *j, const struct prune_matrix *m,
                                   const uint8_t *gone, const struct metric_sums *s,
                                   bool goal, struct b2_err *err)
{
    const int64_t d = s->d;
    const size_t cells = (size_t)(d * d), rows = (size_t)m->rows;

    *j = (struct judging){.m = m, .gone = gone, .d = d, .from_w = !goal};
    j->h = mem_calloc(cells, sizeof *j->h);
    j->t = goal ? mem_calloc(cells, sizeof *j->t) : NULL;
    j->goal = goal ? mem_calloc(rows * (size_t)d, sizeof *j->goal) : NULL;
    j->work = mem_calloc(threads_of(m) * 2 * SOLVE_ROWS, (size_t)d * sizeof *j->work);
    j->loss = mem_calloc(rows, sizeof *j->loss);
    if (!j->h || (goal && (!j->t || !j->goal)) || !j->work || !j->loss) {
        free_judging(j);
        *j = (struct judging){0};
        return no_memory(d, err);
    }
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++) {
            const double h = prune_h(s, i, k);
            j->h[i * d + k] = (float)h;
            if (goal)
                j->t[i * d + k] =
                    (float)((1.0 - m->eta) * h + m->eta * prune_c(s, i, k));
        }
    if (goal)
        pool_run(m->pool, goal_rows, j, m->rows, SOLVE_ROWS);
    return B2_OK;
}

/* Rows of `out`, of W without what goes, or of what that lacks of W. */
static void fill_rows(const struct judging *j, float *e, int64_t begin, int64_t end)
{
    const float *w = j->m->w;

    for (int64_t i = begin * j->d; i < end * j->d; i++) {
        const float now = j->out ? j->out[i] : j->gone[i % j->d] ? 0.0f : w[i];
        e[i - begin * j->d] = j->from_w ? w[i] - now : now;
    }
}

/* At most SOLVE_ROWS of them. */
static void judge_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct judging *j = ctx;
    const int64_t d = j->d;
    float *e = j->work + (int64_t)thread * 2 * SOLVE_ROWS * d, *he = e + SOLVE_ROWS * d;

    fill_rows(j, e, begin, end);
    blas_gemm(j->m->b, he, d, (struct blas_size){end - begin, d, d},
              (struct blas_mat){e, d, false}, (struct blas_mat){j->h, d, false}, 1.0f,
              0.0f);
    for (int64_t r = begin; r < end; r++) {
        double sum = 0.0;
        for (int64_t i = 0; i < d; i++) {
            const double x = (double)e[(r - begin) * d + i];
            sum += x * (double)he[(r - begin) * d + i];
            if (j->goal)
                sum -= 2.0 * x * (double)j->goal[r * d + i];
        }
        j->loss[r] = sum;
    }
}

static double judge(struct judging *j, const float *out)
{
    double sum = 0.0;

    j->out = out;
    pool_run(j->m->pool, judge_rows, j, j->m->rows, SOLVE_ROWS);
    for (int64_t r = 0; r < j->m->rows; r++)
        sum += j->loss[r];
    return sum;
}

/* tr W H Wᵀ */
static double energy_of(struct judging *j, const uint8_t *none)
{
    const uint8_t *gone = j->gone;
    float *goal = j->goal;
    const bool from_w = j->from_w;

    j->gone = none;
    j->goal = NULL;
    j->from_w = false;
    const double sum = judge(j, NULL);
    j->gone = gone;
    j->goal = goal;
    j->from_w = from_w;
    return sum;
}

static double share(double part, double all)
{
    return all > 0.0 ? part / all : 0.0;
}

enum b2_status prune_lost(double *lost, const struct prune_matrix *m, const float *out,
                          const uint8_t *gone, struct b2_err *err)
{
    struct judging j = {0};
    uint8_t *none = mem_calloc((size_t)m->fit->d, 1);

    if (!none)
        return no_memory(m->fit->d, err);
    enum b2_status rc = make_judging(&j, m, gone, m->fit, false, err);
    if (!rc) {
        *lost = share(judge(&j, out), energy_of(&j, none));
        if (!isfinite(*lost))
            rc = err_set(err, B2_EFORMAT, "the activations are no numbers");
        free_judging(&j);
    }
    mem_free(none);
    return rc;
}

/* Each damping in turn; out is room for [rows, d]. */
static void try_damps(struct prune_choice *c, struct restoring *k, struct judging *j,
                      float *out, double energy)
{
    static const double damps[] = PRUNE_DAMPS;

    for (size_t i = 0; i < countof(damps); i++) {
        if (!solve(k, damps[i], out))
            break; /* weaker ones cannot be solved either */
        const double loss = share(judge(j, out), energy);
        if (isfinite(loss) && loss < c->loss) {
            c->loss = loss;
            c->damp = damps[i];
        }
    }
}

enum b2_status prune_choose(struct prune_choice *out, const struct prune_matrix *m,
                            const uint8_t *gone, struct b2_err *err)
{
    const int64_t d = m->fit->d;
    struct restoring k = {0};
    struct judging j = {0};
    uint8_t *none = mem_calloc((size_t)d, 1);
    float *room = mem_calloc((size_t)(m->rows * d), sizeof *room);
    enum b2_status rc = none && room ? B2_OK : no_memory(d, err);

    *out = (struct prune_choice){0.0, 0.0, 0.0};
    if (!rc)
        rc = make_restoring(&k, m, gone, err);
    if (!rc)
        rc = make_judging(&j, m, gone, m->held, true, err);
    if (!rc) {
        const double energy = energy_of(&j, none);
        out->left = out->loss = share(judge(&j, NULL), energy);
        if (isfinite(out->left))
            try_damps(out, &k, &j, room, energy);
        else
            rc = err_set(err, B2_EFORMAT, "the activations are no numbers");
    }
    free_restoring(&k);
    free_judging(&j);
    mem_free(none);
    mem_free(room);
    return rc;
}
