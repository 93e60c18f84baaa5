/*
 * packings.c - the measurements behind `bonsai2 bench --compare-packings`.
 */
#include "eval/packings.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/stats.h"

#include <string.h>

/* One run of a shape reads RUN_BYTES, many times what a product costs beside it, out of
 * POOL_BYTES, many times the caches. */
enum { RUN_BYTES = 16 << 20, POOL_BYTES = 192 << 20, MAX_SHAPES = 32 };

/* Matrices of one shape in a pass over the model. */
struct shape {
    int64_t cols, rows, count;
};

struct packings {
    const struct model *m;
    struct backend *be;
    struct shape shape[MAX_SHAPES];
    int n_shapes, runs;
    bool (*stop)(void);
    uint8_t *data; /* [POOL_BYTES + the largest matrix] */
    uint64_t at;   /* where the next matrix begins */
    struct act *act;
    float *y;
};

/* A shape beyond MAX_SHAPES joins the last: no model has so many. */
static void add_shape(struct packings *p, const struct weight *w)
{
    int i = 0;

    if (!w->data)
        return;
    while (i < p->n_shapes &&
           (p->shape[i].cols != w->cols || p->shape[i].rows != w->rows))
        i++;
    if (i == p->n_shapes && p->n_shapes < MAX_SHAPES)
        p->shape[p->n_shapes++] = (struct shape){w->cols, w->rows, 0};
    p->shape[min_i64(i, MAX_SHAPES - 1)].count++;
}

static void list_shapes(struct packings *p)
{
    for (int64_t l = 0; l < p->m->hp.n_layers; l++) {
        const struct layer_weights *lw = &p->m->layers[l];
        const struct weight *const w[] = {&lw->q,    &lw->k,  &lw->v,   &lw->o,
                                          &lw->gate, &lw->up, &lw->down};
        const struct delta_weights *d = lw->delta; /* instead of q, k, v, o */
        for (size_t i = 0; i < countof(w); i++)
            add_shape(p, w[i]);
        if (!d)
            continue;
        const struct weight *const dw[] = {&d->qkv, &d->z, &d->alpha, &d->beta,
                                           &d->out};
        for (size_t i = 0; i < countof(dw); i++)
            add_shape(p, dw[i]);
    }
    add_shape(p, &p->m->head);
}

static struct weight weight_of(const struct shape *s, enum dtype type)
{
    int64_t block = dtype_info(type)->block;
    int64_t stored = (s->cols + block - 1) / block * block;

    return (struct weight){.name = "packing",
                           .type = type,
                           .cols = s->cols,
                           .rows = s->rows,
                           .pad = stored - s->cols,
                           .row_bytes = (uint64_t)(stored / block) *
                                        (uint64_t)dtype_info(type)->bytes};
}

/* Seconds of one product of w with n_tokens, on average over enough of them. */
static double time_product(struct packings *p, struct weight w, int64_t n_tokens)
{
    uint64_t size = w.row_bytes * (uint64_t)w.rows;
    int64_t times = n_tokens > 1 ? 1 : 1 + (int64_t)(RUN_BYTES / size);
    double begin = clock_s();

    for (int64_t i = 0; i < times; i++) {
        w.data = p->data + p->at;
        p->at = (p->at + align_up_u64(size, 4096)) % POOL_BYTES;
        act_changed(p->act, n_tokens, w.cols);
        backend_matmul(p->be, p->y, &w, p->act);
    }
    return (clock_s() - begin) / (double)times;
}

/* Seconds of all matrices of a pass: medians of each shape, added. */
static enum b2_status time_pass(double *seconds, struct packings *p, enum dtype type,
                                int64_t n_tokens, struct b2_err *err)
{
    double run[PACKINGS_MAX_RUNS];

    *seconds = 0;
    for (int i = 0; i < p->n_shapes; i++) {
        struct weight w = weight_of(&p->shape[i], type);
        (void)time_product(p, w, n_tokens); /* wakes threads and clocks */
        for (int r = 0; r < p->runs; r++) {
            if (p->stop && p->stop())
                return err_set(err, B2_ECANCEL, "interrupted");
            run[r] = time_product(p, w, n_tokens);
        }
        stats_sort(run, p->runs);
        *seconds += stats_quantile(run, p->runs, 0.5) * (double)p->shape[i].count;
    }
    return B2_OK;
}

static enum b2_status measure_type(struct packing_speed *row, struct packings *p,
                                   enum dtype type, struct b2_err *err)
{
    double decode = 0, prompt = 0, weights = 0;
    enum b2_status rc = time_pass(&decode, p, type, 1, err);

    if (rc == B2_OK)
        rc = time_pass(&prompt, p, type, PACKINGS_TOKENS, err);
    if (rc)
        return rc;
    *row = (struct packing_speed){.type = type};
    for (int i = 0; i < p->n_shapes; i++) {
        struct weight w = weight_of(&p->shape[i], type);
        row->bytes += w.row_bytes * (uint64_t)w.rows * (uint64_t)p->shape[i].count;
        weights += (double)w.cols * (double)w.rows * (double)p->shape[i].count;
    }
    row->bits_per_weight = 8.0 * (double)row->bytes / weights;
    row->decode_tps = decode > 0 ? 1.0 / decode : 0.0;
    row->prompt_tps = prompt > 0 ? PACKINGS_TOKENS / prompt : 0.0;
    row->gbps = 1e-9 * (double)row->bytes * row->decode_tps;
    return B2_OK;
}

/* Memory for the largest matrix in the largest type, with values that every type takes:
 * FP16 scales among them stay finite. */
static enum b2_status make_data(struct packings *p, struct b2_err *err)
{
    uint64_t largest = 0;
    int64_t cols = 1, rows = 1;
    struct rng rng = rng_make(1);

    for (int i = 0; i < p->n_shapes; i++) {
        for (int t = 0; t < N_DTYPES; t++) {
            struct weight w = weight_of(&p->shape[i], (enum dtype)t);
            if (dtype_info((enum dtype)t)->flags & DTF_TERNARY)
                largest = (uint64_t)max_i64((int64_t)largest,
                                            (int64_t)(w.row_bytes * (uint64_t)w.rows));
        }
        cols = max_i64(cols, p->shape[i].cols);
        rows = max_i64(rows, p->shape[i].rows);
    }
    uint64_t size = align_up_u64(POOL_BYTES + largest, 8);
    p->data = mem_aligned(4096, (size_t)size, 1);
    p->y = mem_calloc((size_t)rows * PACKINGS_TOKENS, sizeof *p->y);
    if (!p->data || !p->y)
        return err_set(err, B2_ENOMEM, "packings: no memory for %llu bytes",
                       (unsigned long long)size);
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t v = rng_u64(&rng) & 0x3fff3fff3fff3fff;
        memcpy(p->data + i, &v, sizeof v);
    }
    enum b2_status rc = act_new(&p->act, p->be, PACKINGS_TOKENS, cols, err);
    for (int64_t i = 0; rc == B2_OK && i < PACKINGS_TOKENS * cols; i++)
        p->act->x[i] = (float)rng_normal(&rng);
    return rc;
}

enum b2_status packings_measure(struct packing_speed *row, int *n,
                                const struct model *m, struct backend *be, int runs,
                                bool (*stop)(void), struct b2_err *err)
{
    struct packings p = {.m = m, .be = be, .runs = runs, .stop = stop};
    enum b2_status rc;

    *n = 0;
    list_shapes(&p);
    rc = make_data(&p, err);
    for (int t = 0; t < N_DTYPES && rc == B2_OK && *n < PACKINGS_MAX; t++) {
        unsigned flags = dtype_info((enum dtype)t)->flags;
        if (!(flags & DTF_TERNARY) || !(flags & DTF_WEIGHT) || t == DT_Q2_0_G128)
            continue;
        rc = measure_type(&row[*n], &p, (enum dtype)t, err);
        *n += rc == B2_OK;
    }
    act_free(be, p.act);
    mem_free(p.y);
    mem_free(p.data);
    return rc;
}

const struct packing_speed *packings_best(const struct packing_speed *row, int n)
{
    const struct packing_speed *fastest = row, *best;

    for (int i = 1; i < n; i++)
        if (row[i].decode_tps > fastest->decode_tps)
            fastest = &row[i];
    best = fastest;
    for (int i = 0; i < n; i++)
        if (row[i].decode_tps >= 0.97 * fastest->decode_tps &&
            row[i].bytes < best->bytes)
            best = &row[i];
    return best;
}
