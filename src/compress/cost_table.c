/*
 * cost_table.c - tables of tokens and heads: made whole, put into the teacher.
 */
#include "compress/cost_int.h"

#include "base/mem.h"
#include "compress/fit.h"
#include "compress/tiers.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

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

/* Rows do not depend on each other: those of two types are in the tables of one. False:
 * these were not kept. */
static bool gathers(const struct rounding *r, uint8_t *const made[N_DTYPES])
{
    struct choose_part part[2];
    const int n = choose_parts(r->it, r->cand, part);
    const int32_t *list = r->list;

    if (n < 2 || !made[part[0].type] || !made[part[1].type])
        return false;
    for (int k = 0; k < n; list += part[k++].rows) {
        const uint64_t size = part[k].n_bytes / (uint64_t)part[k].rows;
        for (int64_t i = 0; i < part[k].rows; i++)
            memcpy(r->bytes + part[k].at + (uint64_t)i * size,
                   made[part[k].type] + (uint64_t)list[i] * size, (size_t)size);
    }
    return true;
}

/* The candidate's bytes. B2_EUNSUP: the type cannot hold the table. */
static enum b2_status make_table(const struct cost *k, struct rounding *r,
                                 uint8_t *const made[N_DTYPES], struct b2_err *err)
{
    const struct scan_env *env = k->p->env;
    const struct table_job j = {.c = r->c,
                                .it = r->it,
                                .cand = r->cand,
                                .metric = &k->metric,
                                .passes = r->c->recipe->refine > 0,
                                .blas = k->blas,
                                .pool = env->pool,
                                .cancelled = env->cancelled,
                                .ctx = env->ctx};
    const int threads = env->pool ? pool_threads(env->pool) : 1;
    struct fit_stat stat = {0};
    bool bad = false;

    if (gathers(r, made))
        return B2_OK;
    if (table_compensable(r->c, r->it, r->cand))
        return table_round(r->bytes, &stat, &j, err);
    pool_run(env->pool, round_rows, r, tensor_rows(r->it->t), CHUNK_ROWS);
    for (int i = 0; i < threads; i++)
        bad |= r->bad[i];
    return bad ? err_set(err, B2_EUNSUP, "tensor %s: a scale beyond the type",
                         r->it->t->name)
               : B2_OK;
}

static void free_rounding(struct rounding *r)
{
    mem_free(r->row);
    mem_free(r->bytes);
    mem_free(r->bad);
    mem_free(r->list);
}

/* Whether to keep the tables of one type for those of two. */
static bool is_kept(const struct cost_params *p, const struct choose_candidate *cand)
{
    return cand->n_hot == 0 && cand->pad == 0 &&
           (p->mem_limit == 0 || cand->n_bytes <= p->mem_limit / 16);
}

/* One candidate; its damage stays unknown when the type cannot hold the table. */
static enum b2_status try_table(struct cost *k, const struct choose_item *it,
                                struct choose_candidate *cand, uint8_t *made[N_DTYPES],
                                struct b2_err *err)
{
    const struct cost_params *p = k->p;
    const size_t threads = p->env->pool ? (size_t)pool_threads(p->env->pool) : 1;
    struct rounding r = {.c = p->c, .it = it, .cand = cand};
    const int64_t rows = tensor_rows(it->t);
    const bool embed = it->role == ROLE_EMBED;
    enum b2_status rc = B2_OK;

    r.stored = max_i64(tensor_width(it->t) + cand->pad, it->t->ne[0]);
    r.row = mem_calloc(threads * (size_t)r.stored, sizeof *r.row);
    r.bytes = mem_calloc((size_t)cand->n_bytes, 1);
    r.bad = mem_calloc(threads, sizeof *r.bad);
    r.list = mem_calloc((size_t)rows, sizeof *r.list);
    if (!r.row || !r.bytes || !r.bad || !r.list) {
        free_rounding(&r);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    if (cand->n_hot > 0)
        tiers_list(p->c, cand, rows, r.list);
    r.w = tiers_weight(it, cand, r.bytes, &r.tiers, r.list);
    rc = make_table(k, &r, made, err);
    if (!rc) {
        char name[CHOOSE_NAME_MAX];
        double nat = stream_damage_table(k->stream, &r.w, embed, !embed || k->m->tied);
        cand->damage = isfinite(nat) ? fmax(nat, 0.0) : -1.0;
        log_line(p->log, LOG_DEBUG, "%s as %s: %.5f nat", it->t->name,
                 choose_name(name, cand), nat);
        if (is_kept(p, cand)) {
            mem_free(made[cand->type]);
            made[cand->type] = r.bytes;
            r.bytes = NULL;
        }
    }
    free_rounding(&r);
    return rc == B2_EUNSUP ? B2_OK : rc;
}

static enum b2_status measure_table(struct cost *k, struct choose_item *it,
                                    struct b2_err *err)
{
    const struct cost_params *p = k->p;
    const struct scan_env *env = p->env;
    uint8_t *made[N_DTYPES] = {NULL}; /* the table as types that are kept */
    enum b2_status rc = modelfile_load(p->mf, it->index, err);

    for (int c = 0; c < it->n_candidates && !rc; c++) {
        struct choose_candidate *cand = &it->candidate[c];
        if (env->cancelled && env->cancelled(env->ctx))
            rc = err_set(err, B2_ECANCEL, "interrupted while costs were measured");
        else if (cand->copy)
            cand->damage = 0.0;
        else if (!cand->fold && cand->n_bytes <= TABLE_MAX &&
                 (p->mem_limit == 0 || cand->n_bytes <= p->mem_limit / 4))
            rc = try_table(k, it, cand, made, err);
        progress_update(
            env->progress,
            k->done + (uint64_t)(tensor_count(it->t) * c / it->n_candidates), 0.0);
    }
    for (int t = 0; t < N_DTYPES; t++)
        mem_free(made[t]);
    modelfile_unload(p->mf, it->index);
    return rc;
}

static bool any_compensable(const struct choose *c)
{
    for (int64_t i = 0; i < c->n; i++)
        for (int k = 0; k < c->item[i].n_candidates; k++)
            if (table_compensable(c, &c->item[i], &c->item[i].candidate[k]))
                return true;
    return false;
}

enum b2_status cost_tables(struct cost *k, struct b2_err *err)
{
    struct choose *c = k->p->c;
    enum b2_status rc = B2_OK;

    if (any_compensable(c))
        rc = table_metric_take(&k->metric, c, k->stream, k->m->hp.d, err);
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
