/*
 * scan.c - one pass over the source's values.
 */
#include "compress/scan.h"

#include "base/mem.h"
#include "compress/fit.h"
#include "tensor/quant.h"

#include <math.h>

enum { SAMPLE_ROWS = 128, CHUNK_ROWS = 16 };

static const float f16_max = 65504.0f;

/* The first value of a row that is wrong; -1: none. */
struct row_check {
    int64_t bad_col; /* NaN or infinity */
    int64_t big_col; /* beyond FP16 */
    float big;
};

/* One tensor's pass. Threads write to rows and samples of their own. */
struct pass {
    const struct choose *c;
    const struct choose_item *it;
    int64_t width, rows, src_row_bytes, stride;
    struct row_check *check; /* [rows] */
    struct fit_stat *stat;   /* [samples, candidates] */
    bool *too_big;           /* [samples, candidates] */
    int64_t row_step;        /* width with the most padding that any type may want */
    float *row;       /* [threads, 2 * row_step], the folded row behind the row */
    uint8_t *encoded; /* [threads, encoded_bytes] */
    int64_t encoded_bytes;
};

static void check_row(struct row_check *check, const float *row, int64_t n)
{
    int64_t col;

    *check = (struct row_check){-1, -1, 0.0f};
    if (quant_check_row(row, n, &col, NULL)) {
        check->bad_col = col;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (fabsf(row[i]) > f16_max) {
            check->big_col = i;
            check->big = row[i];
            return;
        }
    }
}

/* Measures every candidate on one row. */
static void measure_row(const struct pass *p, int64_t sample, const float *row,
                        float *folded, uint8_t *encoded)
{
    const int64_t r = sample * p->stride; /* of the tensor */
    const struct choose_item *it = p->it;
    const struct fit_how how = choose_how(p->c, it);
    bool have_folded = false;

    for (int k = 0; k < it->n_candidates; k++) {
        const struct choose_candidate *cand = &it->candidate[k];
        int64_t at = sample * CHOOSE_MAX_CANDIDATES + k;
        const float *src = row;
        if (cand->copy)
            continue;
        if (cand->fold) {
            for (int64_t i = 0; i < p->width && !have_folded; i++)
                folded[i] = row[i];
            if (!have_folded)
                choose_fold_row(p->c, it, folded);
            have_folded = true;
            src = folded;
        }
        int64_t stored = p->width + cand->pad;
        enum dtype type = choose_row_type(p->c, cand, r);
        p->too_big[at] =
            fit_row(type, encoded, src, stored, &how, &p->stat[at], NULL) != B2_OK;
        fit_stat_drop_pad(&p->stat[at], type, encoded, stored, cand->pad);
    }
}

static void scan_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct pass *p = ctx;
    float *row = p->row + 2 * p->row_step * thread;
    uint8_t *encoded = p->encoded + p->encoded_bytes * thread;

    for (int64_t r = begin; r < end; r++) {
        quant_decode_tensor_row(p->it->t, row, p->it->t->data + r * p->src_row_bytes);
        for (int64_t i = p->width; i < p->row_step; i++)
            row[i] = 0.0f; /* what padding is rounded from */
        check_row(&p->check[r], row, p->width);
        bool measure = p->stat && p->check[r].bad_col < 0 && r % p->stride == 0;
        if (measure)
            measure_row(p, r / p->stride, row, row + p->row_step, encoded);
    }
}

/* A type whose scales or values are FP16 and near the weights in size. */
static bool is_f16_bound(const struct choose_candidate *cand)
{
    bool ternary = (dtype_info(cand->type)->flags & DTF_TERNARY) != 0;

    return !cand->copy && (ternary || cand->type == DT_F16 || cand->type == DT_Q1_0);
}

/* The first row that cannot be used, in words. */
static enum b2_status judge_rows(const struct pass *p, struct b2_err *err)
{
    const struct choose_item *it = p->it;
    bool bound = it->n_candidates == 1 && is_f16_bound(&it->candidate[0]);

    for (int64_t r = 0; r < p->rows; r++) {
        const struct row_check *check = &p->check[r];
        if (check->bad_col >= 0)
            return err_set(err, B2_EFORMAT,
                           "tensor %s: NaN or infinity at row %lld, column %lld; the "
                           "source is broken and cannot be compressed",
                           it->t->name, (long long)r, (long long)check->bad_col);
        if (bound && check->big_col >= 0)
            return err_set(err, B2_EUNSUP,
                           "tensor %s: %g at row %lld, column %lld is beyond the FP16 "
                           "range (65504) of %s; leave it with --rule '%s=keep'",
                           it->t->name, (double)check->big, (long long)r,
                           (long long)check->big_col,
                           dtype_info(it->candidate[0].type)->name, it->t->name);
    }
    return B2_OK;
}

/* Rows added in their order; a candidate that cannot hold some row gets out of the
 * budget's sight. */
static void sum_samples(const struct pass *p, struct choose_item *it)
{
    int64_t samples = (p->rows + p->stride - 1) / p->stride;
    int n = 0;

    for (int k = 0; k < it->n_candidates; k++) {
        struct fit_stat sum = {0};
        bool too_big = false;
        for (int64_t s = 0; s < samples; s++) {
            fit_stat_add(&sum, &p->stat[s * CHOOSE_MAX_CANDIDATES + k]);
            too_big |= p->too_big[s * CHOOSE_MAX_CANDIDATES + k];
        }
        for (int64_t r = 0; r < p->rows && is_f16_bound(&it->candidate[k]); r++)
            too_big |= p->check[r].big_col >= 0;
        it->candidate[k].error = it->candidate[k].copy ? 0.0 : fit_stat_error(&sum);
        if (!too_big)
            it->candidate[n++] = it->candidate[k];
    }
    it->n_candidates = n;
}

static void free_pass(struct pass *p)
{
    mem_free(p->check);
    mem_free(p->stat);
    mem_free(p->too_big);
    mem_free(p->row);
    mem_free(p->encoded);
}

/* Rows are measured where candidates are to be compared. False: out of memory. */
static bool make_pass(struct pass *p, const struct choose *c,
                      const struct choose_item *it, const struct scan_env *env)
{
    size_t threads = env->pool ? (size_t)pool_threads(env->pool) : 1;
    bool measure = it->n_candidates > 1 || env->measure_all;

    *p = (struct pass){.c = c, .it = it, .width = tensor_width(it->t)};
    p->rows = tensor_rows(it->t);
    p->src_row_bytes = (int64_t)(it->t->n_bytes / (uint64_t)p->rows);
    p->stride = max_i64(1, p->rows / SAMPLE_ROWS);
    p->row_step = p->width + FIT_MAX_BLOCK;
    p->encoded_bytes = 4 * p->row_step + 64; /* no type takes more than F32 */
    p->check = mem_calloc((size_t)p->rows, sizeof *p->check);
    p->row = mem_calloc(threads * 2 * (size_t)p->row_step, sizeof *p->row);
    p->encoded = mem_calloc(threads, (size_t)p->encoded_bytes);
    if (measure) {
        size_t n = (size_t)((p->rows + p->stride - 1) / p->stride);
        p->stat = mem_calloc(n * CHOOSE_MAX_CANDIDATES, sizeof *p->stat);
        p->too_big = mem_calloc(n * CHOOSE_MAX_CANDIDATES, sizeof *p->too_big);
        if (!p->stat || !p->too_big)
            return false;
    }
    return p->check && p->row && p->encoded;
}

static enum b2_status scan_tensor(struct choose *c, struct choose_item *it,
                                  struct modelfile *mf, const struct scan_env *env,
                                  struct b2_err *err)
{
    struct pass p = {0};
    enum b2_status rc;

    if (tensor_count(it->t) == 0)
        return B2_OK;
    rc = modelfile_load(mf, it->index, err);
    if (rc)
        return rc;
    if (make_pass(&p, c, it, env)) {
        pool_run(env->pool, scan_rows, &p, p.rows, CHUNK_ROWS);
        rc = judge_rows(&p, err);
        if (!rc && p.stat)
            sum_samples(&p, it);
        if (!rc && it->n_candidates == 0)
            rc = err_set(err, B2_EUNSUP,
                         "tensor %s: values beyond the FP16 range (65504) that no type "
                         "of the budget's ladder holds; leave it with --rule '%s=F32'",
                         it->t->name, it->t->name);
    } else {
        rc = err_set(err, B2_ENOMEM, "tensor %s: out of memory", it->t->name);
    }
    free_pass(&p);
    modelfile_unload(mf, it->index);
    return rc;
}

enum b2_status scan_run(struct choose *c, struct modelfile *mf,
                        const struct scan_env *env, struct b2_err *err)
{
    uint64_t done = 0;

    for (int64_t i = 0; i < c->n; i++) {
        struct choose_item *it = &c->item[i];
        bool numbers = choose_is_numbers(it->t->type);
        if (env->cancelled && env->cancelled(env->ctx))
            return err_set(err, B2_ECANCEL, "interrupted while reading the source");
        enum b2_status rc = numbers ? scan_tensor(c, it, mf, env, err) : B2_OK;
        if (rc)
            return rc;
        done += (uint64_t)tensor_count(it->t);
        progress_update(env->progress, done, 0.0);
    }
    return B2_OK;
}
