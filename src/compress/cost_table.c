/*
 * cost_table.c - tables of tokens and heads: made whole, put into the teacher.
 */
#include "compress/cost_int.h"

#include "base/mem.h"
#include "compress/fit.h"
#include "compress/tiers.h"
#include "tensor/quant.h"

#include <math.h>

enum { CHUNK_ROWS = 64 };

/* A table that is larger is not tried: it would have to lie in memory. */
static const uint64_t TABLE_MAX = (uint64_t)1 << 30;

struct rounding {
    const struct choose *c;
    const struct choose_item *it;
    const struct choose_candidate *cand;
    float *row;     /* [threads, stored] */
    uint8_t *bytes; /* of the table */
    bool *bad;      /* [threads] a row that the type cannot hold */
    int64_t stored;
    int32_t *list; /* hot rows of a table in two types */
    struct weight_tiers tiers;
    struct weight w; /* around the bytes */
};

static void round_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct rounding *r = ctx;
    const struct tensor *t = r->it->t;
    int64_t rows = tensor_rows(t), width = tensor_width(t);
    uint64_t src = t->n_bytes / (uint64_t)rows;
    const struct fit_how how = choose_how(r->c, r->it);
    float *row = r->row + thread * r->stored;
    struct fit_stat stat;

    for (int64_t i = begin; i < end; i++) {
        int64_t at = i;
        const struct weight *w = weight_of_row(&r->w, &at);
        uint8_t *dst = r->bytes + (w->data - r->bytes) + (uint64_t)at * w->row_bytes;
        quant_decode_tensor_row(t, row, t->data + (uint64_t)i * src);
        for (int64_t k = width; k < r->stored; k++)
            row[k] = 0.0f;
        if (fit_row(w->type, dst, row, r->stored, &how, &stat, NULL))
            r->bad[thread] = true;
    }
}

static bool compensates(const struct cost *k, const struct rounding *r)
{
    const struct table_job j = {.c = r->c,
                                .it = r->it,
                                .cand = r->cand,
                                .metric = &k->metric,
                                .passes = r->c->recipe->refine > 0,
                                .blas = k->blas,
                                .pool = k->p->env->pool};
    struct fit_stat stat = {0};

    return table_round(r->bytes, &stat, &j, NULL) == B2_OK;
}

/* One candidate; its damage stays unknown when the type cannot hold the table. */
static enum b2_status try_table(struct cost *k, const struct choose_item *it,
                                struct choose_candidate *cand, struct b2_err *err)
{
    const struct cost_params *p = k->p;
    size_t threads = p->env->pool ? (size_t)pool_threads(p->env->pool) : 1;
    struct rounding r = {.c = p->c, .it = it, .cand = cand};
    int64_t rows = tensor_rows(it->t);
    bool embed = it->role == ROLE_EMBED, bad = false;

    r.stored = max_i64(tensor_width(it->t) + cand->pad, it->t->ne[0]);
    r.row = mem_calloc(threads * (size_t)r.stored, sizeof *r.row);
    r.bytes = mem_calloc((size_t)cand->n_bytes, 1);
    r.bad = mem_calloc(threads, sizeof *r.bad);
    r.list = mem_calloc((size_t)rows, sizeof *r.list);
    bool have = r.row && r.bytes && r.bad && r.list;
    if (have && cand->n_hot)
        tiers_list(p->c, cand, rows, r.list);
    r.w = tiers_weight(it, cand, r.bytes, &r.tiers, r.list);
    if (have && table_compensable(p->c, it, cand))
        bad = !compensates(k, &r);
    else if (have)
        pool_run(p->env->pool, round_rows, &r, rows, CHUNK_ROWS);
    for (size_t i = 0; have && i < threads; i++)
        bad |= r.bad[i];
    if (have && !bad) {
        char name[CHOOSE_NAME_MAX];
        double nat = stream_damage_table(k->stream, &r.w, embed, !embed || k->m->tied);
        cand->damage = isfinite(nat) ? fmax(nat, 0.0) : -1.0;
        log_line(p->log, LOG_DEBUG, "%s as %s: %.5f nat", it->t->name,
                 choose_name(name, cand), nat);
    }
    mem_free(r.row);
    mem_free(r.bytes);
    mem_free(r.bad);
    mem_free(r.list);
    return have ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status measure_table(struct cost *k, struct choose_item *it,
                                    struct b2_err *err)
{
    const struct cost_params *p = k->p;
    enum b2_status rc = modelfile_load(p->mf, it->index, err);

    for (int c = 0; c < it->n_candidates && !rc; c++) {
        struct choose_candidate *cand = &it->candidate[c];
        if (cand->copy)
            cand->damage = 0.0;
        else if (!cand->fold && cand->n_bytes <= TABLE_MAX &&
                 (p->mem_limit == 0 || cand->n_bytes <= p->mem_limit / 4))
            rc = try_table(k, it, cand, err);
    }
    modelfile_unload(p->mf, it->index);
    return rc;
}

enum b2_status cost_tables(struct cost *k, struct b2_err *err)
{
    struct choose *c = k->p->c;
    enum b2_status rc = table_metric_take(&k->metric, c, k->stream, k->m->hp.d, err);

    for (int64_t i = 0; i < c->n && !rc; i++) {
        struct choose_item *it = &c->item[i];
        if ((it->role != ROLE_EMBED && it->role != ROLE_HEAD) || it->n_candidates < 2)
            continue;
        rc = measure_table(k, it, err);
        k->done += (uint64_t)tensor_count(it->t);
        progress_update(k->p->env->progress, k->done, 0.0);
    }
    return rc;
}
