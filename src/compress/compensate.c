/*
 * compensate.c - blocks of rows over threads: goal, steps, bytes.
 */
#include "compress/compensate_int.h"

#include "base/mem.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

struct job {
    struct compensate_out *out;
    const struct codes *codes;
    const float *w;
    int64_t rows, row_bytes;
    const struct metric *m;
    const float *target;
    const struct rotate *rotate;
    const struct compensate_how *how;
    const struct blas *b;
    struct comp_block *block; /* [threads] */
    struct fit_stat *stat;    /* [blocks of rows] */
    double *loss, *energy;    /* [blocks of rows] */
    int64_t *bad;             /* [blocks of rows] a row beyond the type, or -1 */
    int64_t *uncorrected;     /* [blocks of rows] */
};

/* The goal of row r of a block from row [d], which is overwritten. */
static void set_goal(const struct job *j, struct comp_block *k, int64_t r, float *row)
{
    if (j->rotate)
        rotate_fold_row(j->rotate, row, k->d);
    for (int64_t p = 0; p < k->d; p++)
        k->goal[r * k->d + p] = row[k->m->perm[p]];
}

/* Eta of the way from the teacher's rows to those that make up for the inputs' error;
 * rotated, in the order of the metric. */
static void make_goal(const struct job *j, struct comp_block *k, int64_t first)
{
    int64_t d = k->d;
    const float *w = j->w + first * d;
    float eta = (float)j->how->eta;

    memcpy(k->work, w, (size_t)(k->rows * d) * sizeof *w);
    if (j->target)
        blas_gemm(j->b, k->work, d, (struct blas_size){k->rows, d, d},
                  (struct blas_mat){w, d, false},
                  (struct blas_mat){j->target, d, false}, eta, 1.0f - eta);
    for (int64_t r = 0; r < k->rows; r++)
        set_goal(j, k, r, k->work + r * d);
}

/* Sums of x H xᵀ over the rows of x = other; work is overwritten. */
static double norm_in_metric(struct comp_block *k, const float *x)
{
    double sum = 0.0;

    blas_gemm(k->b, k->work, k->d, (struct blas_size){k->rows, k->d, k->d},
              (struct blas_mat){x, k->d, false},
              (struct blas_mat){k->m->h, k->d, false}, 1.0f, 0.0f);
    for (int64_t i = 0; i < k->rows * k->d; i++)
        sum += (double)k->work[i] * (double)x[i];
    return sum;
}

/* The bytes of row r, and what they decode to in dst, still rotated. */
static void write_row(const struct job *j, struct comp_block *k, int64_t r,
                      uint8_t *bytes, float *dst)
{
    int64_t n = k->m->group;
    int block_bytes = dtype_info(j->codes->type)->bytes;
    int8_t code[FIT_MAX_BLOCK];

    for (int64_t g = 0; g < k->n_groups; g++) {
        int64_t id = k->m->perm[g * n] / n; /* of the group in the row */
        for (int64_t p = g * n; p < (g + 1) * n; p++)
            code[k->m->perm[p] - id * n] = k->code[r * k->d + p];
        codes_join(j->codes, bytes + id * block_bytes, code,
                   k->scale[r * k->n_groups + g], k->min[r * k->n_groups + g]);
    }
    quant_decode_row(j->codes->type, dst, bytes, k->d);
}

/* One row against the teacher's, rotated like it. */
static void count_row(const struct job *j, struct fit_stat *s, const float *got,
                      const float *want, const uint8_t *empty, int64_t d)
{
    s->n += d;
    for (int64_t at = 0, g = 0; at < d; at += j->codes->group, g++) {
        int64_t zeros = 0;
        double energy = 0.0;
        for (int64_t i = at; i < at + j->codes->group; i++) {
            double e = (double)want[i] - (double)got[i];
            s->err += e * e;
            energy += (double)want[i] * (double)want[i];
            zeros += got[i] == 0.0f;
        }
        s->energy += energy;
        s->zeros += zeros;
        if (j->codes->ternary && zeros == j->codes->group) {
            s->zero_groups++;
            s->underflows += energy > 0.0 && !empty[g];
        }
    }
}

static void finish_block(const struct job *j, struct comp_block *k, int64_t index)
{
    int64_t d = k->d, first = index * COMP_ROWS;

    for (int64_t i = 0; i < k->rows * d; i++)
        k->other[i] = k->goal[i] - k->value[i];
    j->loss[index] = norm_in_metric(k, k->other);
    j->energy[index] = norm_in_metric(k, k->goal);
    for (int64_t r = 0; r < k->rows; r++) {
        float *got = k->other + r * d, *want = k->work + r * d;
        write_row(j, k, r, j->out->bytes + (first + r) * j->row_bytes, got);
        memcpy(want, j->w + (first + r) * d, (size_t)d * sizeof *want);
        if (j->rotate)
            rotate_fold_row(j->rotate, want, d);
        count_row(j, &j->stat[index], got, want, k->empty + r * k->n_groups, d);
        if (!j->out->values)
            continue;
        if (j->rotate)
            rotate_unfold_row(j->rotate, got, d);
        memcpy(j->out->values + (first + r) * d, got, (size_t)d * sizeof *got);
    }
}

/* The sweep of block i. What came before can have lost an input that the teacher has, and
 * then to make up for it takes weights beyond the type: such a row gets the teacher's row
 * as its goal. False: that is beyond the type too. */
static bool sweep_block(const struct job *j, struct comp_block *k, int64_t i)
{
    bool plain[COMP_ROWS] = {false};
    int64_t bad = 0;

    comp_choose_empty(k, j->how->zeros);
    while (!comp_sweep(k, j->how->rule, &bad)) {
        float *row = k->work + bad * k->d;
        if (plain[bad] || !j->target) {
            j->bad[i] = i * COMP_ROWS + bad;
            return false;
        }
        plain[bad] = true;
        j->uncorrected[i]++;
        memcpy(row, j->w + (i * COMP_ROWS + bad) * k->d, (size_t)k->d * sizeof *row);
        set_goal(j, k, bad, row);
    }
    return true;
}

static void run_blocks(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    struct comp_block *k = &j->block[thread];

    for (int64_t i = begin; i < end; i++) {
        k->rows = min_i64(COMP_ROWS, j->rows - i * COMP_ROWS);
        make_goal(j, k, i * COMP_ROWS);
        j->bad[i] = -1;
        if (!sweep_block(j, k, i))
            continue;
        if (j->how->passes > 0)
            comp_scales(k);
        for (int pass = 0; pass < j->how->passes; pass++) {
            comp_descend(k);
            comp_scales(k);
        }
        finish_block(j, k, i);
    }
}

/* ---- memory ---- */

static bool make_block(struct comp_block *k, const struct job *j)
{
    int64_t d = j->m->d, G = d / j->m->group;
    size_t n = (size_t)(COMP_ROWS * d), groups = (size_t)(COMP_ROWS * G);

    *k = (struct comp_block){
        .b = j->b, .codes = j->codes, .m = j->m, .d = d, .n_groups = G};
    k->goal = mem_calloc(n, sizeof *k->goal);
    k->work = mem_calloc(n, sizeof *k->work);
    k->value = mem_calloc(n, sizeof *k->value);
    k->other = mem_calloc(n, sizeof *k->other);
    k->err = mem_calloc((size_t)COMP_ROWS * FIT_MAX_BLOCK, sizeof *k->err);
    k->code = mem_calloc(n, sizeof *k->code);
    k->scale = mem_calloc(groups, sizeof *k->scale);
    k->min = mem_calloc(groups, sizeof *k->min);
    k->normal =
        mem_calloc((size_t)(COMP_ROWS + 1) * (size_t)(G * G), sizeof *k->normal);
    k->right = mem_calloc(groups, sizeof *k->right);
    k->solved = mem_calloc((size_t)G, sizeof *k->solved);
    k->empty = mem_calloc(groups, 1);
    k->ranked = mem_calloc((size_t)G, sizeof *k->ranked);
    return k->goal && k->work && k->value && k->other && k->err && k->code &&
           k->scale && k->min && k->normal && k->right && k->solved && k->empty &&
           k->ranked;
}

static void free_block(struct comp_block *k)
{
    mem_free(k->goal);
    mem_free(k->work);
    mem_free(k->value);
    mem_free(k->other);
    mem_free(k->err);
    mem_free(k->code);
    mem_free(k->scale);
    mem_free(k->min);
    mem_free(k->normal);
    mem_free(k->right);
    mem_free(k->solved);
    mem_free(k->empty);
    mem_free(k->ranked);
}

/* Parts added in their order. */
static enum b2_status sum_blocks(const struct job *j, int64_t n, struct b2_err *err)
{
    struct compensate_out *out = j->out;

    out->stat = (struct fit_stat){0};
    out->loss = out->energy = 0.0;
    out->uncorrected = 0;
    for (int64_t i = 0; i < n; i++) {
        if (j->bad[i] >= 0)
            return err_set(err, B2_EUNSUP,
                           "row %lld: a scale is beyond the range of %s",
                           (long long)j->bad[i], dtype_info(j->codes->type)->name);
        fit_stat_add(&out->stat, &j->stat[i]);
        out->loss += j->loss[i];
        out->energy += j->energy[i];
        out->uncorrected += j->uncorrected[i];
    }
    return B2_OK;
}

enum b2_status compensate_rows(struct compensate_out *out, const struct codes *codes,
                               const float *w, int64_t rows, const struct metric *m,
                               const float *target, const struct rotate *rotate,
                               const struct compensate_how *how, const struct blas *b,
                               struct pool *pool, struct b2_err *err)
{
    int64_t n = (rows + COMP_ROWS - 1) / COMP_ROWS;
    int threads = pool ? pool_threads(pool) : 1;
    const struct dtype_info *info = dtype_info(codes->type);
    struct job j = {.out = out,
                    .codes = codes,
                    .w = w,
                    .rows = rows,
                    .m = m,
                    .target = target,
                    .rotate = rotate,
                    .how = how,
                    .b = b};
    bool have;

    j.row_bytes = m->d / info->block * info->bytes;
    j.block = mem_calloc((size_t)threads, sizeof *j.block);
    j.stat = mem_calloc((size_t)n, sizeof *j.stat);
    j.loss = mem_calloc((size_t)n, sizeof *j.loss);
    j.energy = mem_calloc((size_t)n, sizeof *j.energy);
    j.bad = mem_calloc((size_t)n, sizeof *j.bad);
    j.uncorrected = mem_calloc((size_t)n, sizeof *j.uncorrected);
    have = j.block && j.stat && j.loss && j.energy && j.bad && j.uncorrected;
    for (int t = 0; have && t < threads; t++)
        have = make_block(&j.block[t], &j);
    enum b2_status rc = have ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
    if (!rc) {
        pool_run(pool, run_blocks, &j, n, 1);
        rc = sum_blocks(&j, n, err);
    }
    for (int t = 0; j.block && t < threads; t++)
        free_block(&j.block[t]);
    mem_free(j.block);
    mem_free(j.stat);
    mem_free(j.loss);
    mem_free(j.energy);
    mem_free(j.bad);
    mem_free(j.uncorrected);
    return rc;
}
