/*
 * round.c - threads over rows, batches in file order.
 */
#include "compress/round.h"

#include "base/mem.h"
#include "compress/tiers.h"
#include "tensor/quant.h"

#include <string.h>

enum { BATCH_BYTES = 4 << 20, CHUNK_ROWS = 4, MAX_BATCH_ROWS = 65536 };

/* One batch. Threads write to rows of their own. */
struct batch {
    const struct choose *c;
    const struct choose_item *it;
    enum dtype type;
    const int32_t *rows;   /* of the tensor, in the order of the output; NULL: all */
    int64_t width, stored; /* values of a row, and with the padding it gets */
    int64_t src_row_bytes, dst_row_bytes;
    int64_t first;         /* row of the output that the batch begins with */
    int64_t row_step;      /* the longer of a row as it comes and as it goes */
    float *row;            /* [threads, row_step] */
    uint8_t *out;          /* [rows, dst_row_bytes] */
    struct fit_stat *stat; /* [rows] */
    bool *too_big;         /* [rows] */
};

/* Bytes stay; only what the report wants is counted. */
static void copy_row(const struct batch *b, int64_t r, const uint8_t *src, float *row)
{
    struct fit_stat *stat = &b->stat[r];

    memcpy(b->out + r * b->dst_row_bytes, src, (size_t)b->dst_row_bytes);
    *stat = (struct fit_stat){.n = b->width};
    if (!choose_is_numbers(b->it->t->type))
        return;
    quant_decode_tensor_row(b->it->t, row, src);
    for (int64_t i = 0; i < b->width; i++) {
        stat->energy += (double)row[i] * (double)row[i];
        stat->zeros += row[i] == 0.0f;
    }
}

/* A row of the source with zeros for the padding, rotated if it is to be. */
static void make_row(const struct batch *b, const uint8_t *src, float *row)
{
    quant_decode_tensor_row(b->it->t, row, src);
    for (int64_t i = b->width; i < b->row_step; i++)
        row[i] = 0.0f;
    if (choose_picked(b->it)->fold)
        choose_fold_row(b->c, b->it, row);
}

static const uint8_t *source_row(const struct batch *b, int64_t r, int64_t *row)
{
    *row = b->rows ? b->rows[b->first + r] : b->first + r;
    return b->it->t->data + *row * b->src_row_bytes;
}

static void round_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct batch *b = ctx;
    const struct choose_candidate *cand = choose_picked(b->it);
    const struct fit_how how = choose_how(b->c, b->it);
    float *row = b->row + b->row_step * thread;

    for (int64_t r = begin; r < end; r++) {
        int64_t of_tensor;
        const uint8_t *src = source_row(b, r, &of_tensor);
        b->too_big[r] = false;
        if (cand->copy) {
            copy_row(b, r, src, row);
            continue;
        }
        uint8_t *out = b->out + r * b->dst_row_bytes;
        make_row(b, src, row);
        b->too_big[r] =
            fit_row(b->type, out, row, b->stored, &how, &b->stat[r], NULL) != B2_OK;
        fit_stat_drop_pad(&b->stat[r], b->type, out, b->stored, cand->pad);
    }
}

/* Says which row it was; the columns come from doing the row once more. */
static enum b2_status name_row(struct batch *b, int64_t r, struct b2_err *err)
{
    const struct fit_how how = choose_how(b->c, b->it);
    int64_t row;
    const uint8_t *src = source_row(b, r, &row);

    make_row(b, src, b->row);
    enum b2_status rc =
        fit_row(b->type, b->out, b->row, b->stored, &how, &b->stat[0], err);
    err_wrap(err, "tensor %s: row %lld", b->it->t->name, (long long)row);
    return rc;
}

static enum b2_status run_batch(struct batch *b, int64_t n_rows,
                                const struct scan_env *env, struct work *w,
                                struct fit_stat *sum, struct b2_err *err)
{
    if (env->cancelled && env->cancelled(env->ctx))
        return err_set(err, B2_ECANCEL, "interrupted");
    pool_run(env->pool, round_rows, b, n_rows, CHUNK_ROWS);
    for (int64_t r = 0; r < n_rows; r++) {
        if (b->too_big[r])
            return name_row(b, r, err);
        fit_stat_add(sum, &b->stat[r]);
    }
    return work_piece_data(w, b->out, (size_t)(n_rows * b->dst_row_bytes), err);
}

static void free_batch(struct batch *b)
{
    mem_free(b->row);
    mem_free(b->out);
    mem_free(b->stat);
    mem_free(b->too_big);
}

static bool make_batch(struct batch *b, int64_t n_rows, const struct pool *pool)
{
    size_t threads = pool ? (size_t)pool_threads(pool) : 1;

    b->row = mem_calloc(threads * (size_t)b->row_step, sizeof *b->row);
    b->out = mem_calloc((size_t)n_rows, (size_t)b->dst_row_bytes);
    b->stat = mem_calloc((size_t)n_rows, sizeof *b->stat);
    b->too_big = mem_calloc((size_t)n_rows, sizeof *b->too_big);
    return b->row && b->out && b->stat && b->too_big;
}

/* Rows of one type, which become a tensor of the output. */
static enum b2_status round_part(struct batch *b, int64_t rows,
                                 const struct scan_env *env, struct work *w,
                                 struct fit_stat *stat, struct b2_err *err)
{
    int64_t per_batch = max_i64(1, BATCH_BYTES / b->dst_row_bytes);
    enum b2_status rc = B2_OK;

    per_batch = min_i64(rows, min_i64(per_batch, MAX_BATCH_ROWS));
    if (!make_batch(b, per_batch, env->pool))
        rc = err_set(err, B2_ENOMEM, "tensor %s: out of memory", b->it->t->name);
    for (b->first = 0; b->first < rows && !rc; b->first += per_batch)
        rc = run_batch(b, min_i64(per_batch, rows - b->first), env, w, stat, err);
    free_batch(b);
    return rc;
}

/* One after the other, the second where its tensor may begin. */
static enum b2_status round_parts(const struct batch *like, int32_t *list,
                                  const struct scan_env *env, struct work *w,
                                  struct fit_stat *stat, struct b2_err *err)
{
    static const uint8_t zeros[CHOOSE_ALIGN];
    const struct choose_candidate *cand = choose_picked(like->it);
    struct choose_part part[2];
    const int n = choose_parts(like->it, cand, part);
    int64_t first = 0;
    enum b2_status rc = B2_OK;

    if (n > 1)
        tiers_list(like->c, cand, tensor_rows(like->it->t), list);
    for (int k = 0; k < n && !rc; k++) {
        struct batch b = *like;
        b.type = part[k].type;
        b.rows = n > 1 ? list + first : NULL;
        b.dst_row_bytes = (int64_t)(part[k].n_bytes / (uint64_t)part[k].rows);
        first += part[k].rows;
        rc = round_part(&b, part[k].rows, env, w, stat, err);
        if (!rc && k + 1 < n)
            rc = work_piece_data(w, zeros, part[k + 1].at - part[k].n_bytes, err);
    }
    return rc;
}

enum b2_status round_tensor(const struct choose *c, const struct choose_item *it,
                            struct modelfile *mf, const struct scan_env *env,
                            struct work *w, struct fit_stat *stat, struct b2_err *err)
{
    const int64_t rows = tensor_rows(it->t);
    struct batch like = {.c = c, .it = it, .width = tensor_width(it->t)};
    int32_t *list = NULL;

    *stat = (struct fit_stat){0};
    if (tensor_count(it->t) == 0)
        return B2_OK;
    like.stored = like.width + choose_picked(it)->pad;
    like.row_step = max_i64(like.stored, it->t->ne[0]);
    like.src_row_bytes = (int64_t)(it->t->n_bytes / (uint64_t)rows);
    if (choose_picked(it)->n_hot > 0) {
        list = mem_calloc((size_t)rows, sizeof *list);
        if (!list)
            return err_set(err, B2_ENOMEM, "tensor %s: out of memory", it->t->name);
    }
    enum b2_status rc = modelfile_load(mf, it->index, err);
    if (!rc) {
        rc = round_parts(&like, list, env, w, stat, err);
        modelfile_unload(mf, it->index);
    }
    mem_free(list);
    return rc;
}
