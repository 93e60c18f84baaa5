/*
 * cost.c - layer by layer: metrics, candidates on samples, one whole tensor at a time.
 */
#include "compress/cost.h"

#include "base/mem.h"
#include "compress/cost_int.h"
#include "compress/normal.h"
#include "compress/slab.h"

#include <math.h>
#include <string.h>

enum { SAMPLE_ROWS = 128 };

/* Whether the sweep can make a candidate. */
static bool is_compensable(const struct choose_item *it,
                           const struct choose_candidate *cand, struct codes *codes)
{
    return !cand->copy && cand->pad == 0 && codes_of(codes, cand->type) &&
           tensor_width(it->t) % codes->group == 0;
}

/* The candidate of fewest bytes that can be compensated, or -1. */
static int find_smallest(const struct choose_item *it)
{
    struct codes codes;
    int best = -1;

    for (int k = 0; k < it->n_candidates; k++)
        if (is_compensable(it, &it->candidate[k], &codes) &&
            (best < 0 || it->candidate[k].n_bytes < it->candidate[best].n_bytes))
            best = k;
    return best;
}

/* ---- one input of a layer ---- */

/* A part that reads it. */
struct tried {
    struct choose_item *it;
    enum stream_part part;
    int smallest;              /* candidate that is made in full */
    uint8_t *bytes;            /* of that */
    struct compensate_out out; /* of that */
    /* Of the sample's outputs, summed over slabs; and whether this slab is done. */
    double loss[CHOOSE_MAX_CANDIDATES], energy[CHOOSE_MAX_CANDIDATES];
    bool done[CHOOSE_MAX_CANDIDATES];
};

struct trial {
    struct cost *k;
    struct slabs slabs;
    int i; /* the slab */
    struct metric_sums sums;
    struct rotate *rotate; /* of the slab */
    struct tried tried[N_ALL_PARTS];
    int n;
};

/* Evenly spaced rows of a weight, one after the other; how many. */
static int64_t take_sample(float *dst, const float *w, int64_t rows, int64_t d)
{
    int64_t n = min_i64(rows, SAMPLE_ROWS);

    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * d, w + i * rows / n * d, (size_t)d * sizeof *w);
    return n;
}

/* One slab of a matrix as one type. */
static enum b2_status compensate(struct trial *t, struct compensate_out *out,
                                 const struct choose_candidate *cand,
                                 const struct metric *m, const float *w, int64_t rows,
                                 struct b2_err *err)
{
    const struct recipe *r = t->k->p->c->recipe;
    const struct compensate_how how = {0.0, r->refine > 0, r->ternary_rule,
                                       cand->left_out};
    struct codes codes;

    if (!codes_of(&codes, cand->type))
        return err_set(err, B2_EUNSUP, "%s has no codes", dtype_info(cand->type)->name);
    const struct slab_job j = {.slabs = &t->slabs,
                               .i = t->i,
                               .codes = &codes,
                               .w = w,
                               .rows = rows,
                               .m = m,
                               .rotate = cand->fold ? t->rotate : NULL,
                               .how = &how,
                               .b = t->k->blas,
                               .pool = t->k->p->env->pool};
    return slab_compensate(out, &j, err);
}

/* A candidate on the sample, and the smallest one on all rows too. */
static enum b2_status try_candidate(struct trial *t, struct tried *tr, int cand,
                                    const struct metric *m, struct b2_err *err)
{
    struct cost *k = t->k;
    const struct choose_candidate *cd = &tr->it->candidate[cand];
    const float *w = stream_teacher(k->stream, tr->part);
    int64_t d = t->slabs.d, rows = stream_rows(k->stream, tr->part);
    int64_t n = min_i64(rows, SAMPLE_ROWS);
    float *sample = mem_calloc((size_t)(n * d), sizeof *sample);
    struct compensate_out out = {.bytes = mem_calloc((size_t)cd->n_bytes, 1)};
    enum b2_status rc = B2_ENOMEM;

    if (!sample || !out.bytes) {
        (void)err_set(err, B2_ENOMEM, "out of memory");
    } else {
        take_sample(sample, w, rows, d);
        rc = compensate(t, &out, cd, m, sample, n, err);
    }
    tr->loss[cand] += out.loss;
    tr->energy[cand] += out.energy;
    tr->done[cand] = true;
    if (!rc && cand == tr->smallest)
        rc = compensate(t, &tr->out, cd, m, w, rows, err);
    mem_free(sample);
    mem_free(out.bytes);
    return rc;
}

/* All candidates that round in one metric. */
static enum b2_status try_metric(struct trial *t, const struct codes *like, bool fold,
                                 struct b2_err *err)
{
    struct metric m = {0};
    enum b2_status rc = metric_new(&m, &t->sums, fold ? t->rotate : NULL, like->group,
                                   like->unit, t->k->blas, err);

    for (int i = 0; i < t->n && !rc; i++) {
        struct tried *tr = &t->tried[i];
        for (int c = 0; c < tr->it->n_candidates && !rc; c++) {
            const struct choose_candidate *cd = &tr->it->candidate[c];
            struct codes codes;
            if (!is_compensable(tr->it, cd, &codes) || codes.group != like->group ||
                codes.unit != like->unit || cd->fold != fold || tr->done[c])
                continue;
            rc = try_candidate(t, tr, c, &m, err);
            if (rc)
                err_wrap(err, "tensor %s", tr->it->t->name);
        }
    }
    metric_free(&m);
    return rc;
}

/* The first candidate that waits says which metric is next; each is made once. */
static enum b2_status try_all(struct trial *t, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < t->n; i++) {
        const struct tried *tr = &t->tried[i];
        for (int c = 0; c < tr->it->n_candidates && !rc; c++) {
            struct codes codes;
            if (is_compensable(tr->it, &tr->it->candidate[c], &codes) && !tr->done[c])
                rc = try_metric(t, &codes, tr->it->candidate[c].fold, err);
        }
    }
    return rc;
}

static double output_error(const struct tried *tr, int cand)
{
    return tr->energy[cand] > 0.0 ? tr->loss[cand] / tr->energy[cand] : 0.0;
}

/* From errors to nat. Candidates that the sweep cannot make compare by their weights'
 * error. */
static void fill_damage(struct cost *k, struct tried *tr)
{
    struct choose_item *it = tr->it;
    const struct choose_candidate *ref = &it->candidate[tr->smallest];
    double nat = stream_damage(k->stream, tr->part),
           per = output_error(tr, tr->smallest);

    log_line(k->p->log, LOG_DEBUG, "%s as %s: %.5f nat, %.4f of the output's energy",
             it->t->name, dtype_info(ref->type)->name, nat, per);
    if (!isfinite(nat))
        return;
    nat = fmax(nat, 0.0);
    k->nat += nat;
    k->prior += cost_prior(k->p->c, it, ref);
    for (int c = 0; c < it->n_candidates; c++) {
        struct choose_candidate *cd = &it->candidate[c];
        double ratio = 1.0;
        if (tr->done[c])
            ratio = per > 0.0 ? output_error(tr, c) / per : 0.0;
        else if (ref->error > 0.0)
            ratio = cd->error / ref->error;
        cd->damage = cd->copy ? 0.0 : nat * ratio;
    }
}

static enum b2_status find_tried(struct trial *t, enum stream_input in,
                                 struct b2_err *err)
{
    struct choose *c = t->k->p->c;

    for (int part = 0; part < N_ALL_PARTS; part++) {
        int64_t at = normal_find(c, t->k->layer, (enum stream_part)part);
        if (at < 0 || stream_input_of((enum stream_part)part) != in ||
            c->item[at].n_candidates < 2 || find_smallest(&c->item[at]) < 0)
            continue;
        struct tried *tr = &t->tried[t->n++];
        *tr = (struct tried){.it = &c->item[at],
                             .part = (enum stream_part)part,
                             .smallest = find_smallest(&c->item[at])};
        tr->bytes = mem_calloc((size_t)tr->it->candidate[tr->smallest].n_bytes, 1);
        if (!tr->bytes)
            return err_set(err, B2_ENOMEM, "out of memory");
        tr->out.bytes = tr->bytes;
        tr->out.values = stream_student(t->k->stream, tr->part);
    }
    return B2_OK;
}

/* As in normal.c, for all candidates at once. */
static void cut_input(struct trial *t, enum stream_input in)
{
    const struct choose *c = t->k->p->c;
    int64_t d = stream_width(t->k->stream, in), unit = 1;

    for (int i = 0; i < t->n; i++) {
        const struct choose_item *it = t->tried[i].it;
        for (int k = 0; k < it->n_candidates; k++) {
            struct codes codes;
            if (!is_compensable(it, &it->candidate[k], &codes))
                continue;
            unit = slabs_unit(unit, codes.group);
            if (it->candidate[k].fold)
                unit = slabs_unit(unit, rotate_block_of(c->rotate, d));
        }
    }
    t->slabs = slabs_cut(d, unit, c->recipe->metric_width);
}

static bool folds_any(const struct trial *t)
{
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->tried[i].it->n_candidates; k++)
            if (t->tried[i].it->candidate[k].fold)
                return true;
    return false;
}

static enum b2_status measure_slab(struct trial *t, enum stream_input in,
                                   struct b2_err *err)
{
    enum b2_status rc = metric_sums_new(&t->sums, slab_width(&t->slabs, t->i), err);

    for (int i = 0; i < t->n; i++)
        memset(t->tried[i].done, 0, sizeof t->tried[i].done);
    if (!rc && folds_any(t)) {
        t->rotate = slab_rotate(t->k->p->c->rotate, &t->slabs, t->i);
        rc = t->rotate ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
    }
    if (!rc) {
        t->sums.from = t->slabs.from[t->i];
        t->sums.stride = t->slabs.d;
        stream_collect(t->k->stream, in, &t->sums);
        rc = try_all(t, err);
    }
    rotate_free(t->rotate);
    t->rotate = NULL;
    metric_sums_free(&t->sums);
    return rc;
}

static enum b2_status measure_input(struct cost *k, enum stream_input in,
                                    struct b2_err *err)
{
    struct trial t = {.k = k};
    enum b2_status rc = find_tried(&t, in, err);

    cut_input(&t, in);
    for (t.i = 0; t.i < t.slabs.n && t.n > 0 && !rc; t.i++)
        rc = measure_slab(&t, in, err);
    for (int i = 0; i < t.n && !rc; i++)
        fill_damage(k, &t.tried[i]);
    for (int i = 0; i < t.n; i++)
        mem_free(t.tried[i].bytes);
    return rc;
}

/* ---- all layers ---- */

static enum b2_status measure_layer(struct cost *k, struct b2_err *err)
{
    const struct scan_env *env = k->p->env;
    enum b2_status rc = stream_begin(k->stream, k->layer, err);

    for (int in = 0; in < N_INPUTS && !rc; in++) {
        if (env->cancelled && env->cancelled(env->ctx))
            return err_set(err, B2_ECANCEL, "interrupted while costs were measured");
        rc = measure_input(k, (enum stream_input)in, err);
        if (!rc && in == INPUT_O)
            stream_attention(k->stream);
        if (!rc && in == INPUT_DOWN)
            stream_ffn(k->stream);
    }
    for (int64_t i = 0; i < k->p->c->n; i++)
        if (k->p->c->item[i].layer == k->layer)
            k->done += (uint64_t)tensor_count(k->p->c->item[i].t);
    progress_update(env->progress, k->done, 0.0);
    return rc;
}

double cost_prior(const struct choose *c, const struct choose_item *it,
                  const struct choose_candidate *cand)
{
    return role_damage(cand->error) *
           role_prior(it->role, it->layer, c->n_layers, c->tied) *
           (double)tensor_count(it->t);
}

/* What was not measured, in the units of what was. */
static void fill_priors(struct cost *k)
{
    struct choose *c = k->p->c;

    for (int64_t i = 0; i < c->n && k->prior > 0.0; i++) {
        struct choose_item *it = &c->item[i];
        for (int n = 0; n < it->n_candidates; n++)
            if (it->candidate[n].damage < 0.0)
                it->candidate[n].damage =
                    cost_prior(c, it, &it->candidate[n]) * k->nat / k->prior;
    }
}

static enum b2_status start(struct cost *k, struct b2_err *err)
{
    const struct model_params mp = {.no_tokenizer = true};
    enum b2_status rc = blas_open(&k->blas, err);

    if (!rc)
        rc = model_open(&k->m, k->p->source, &mp, err);
    if (rc)
        return rc;
    k->ids = calib_some(k->p->calib, TABLE_TOKENS, &k->n_seqs);
    if (!k->ids)
        return err_set(err, B2_ENOMEM, "out of memory");
    const struct stream_params sp = {.m = k->m,
                                     .blas = k->blas,
                                     .pool = k->p->env->pool,
                                     .ids = k->ids,
                                     .n_seqs = k->n_seqs,
                                     .ctx = k->p->calib->ctx,
                                     .probe = true,
                                     .alone = true};
    return stream_new(&k->stream, &sp, err);
}

enum b2_status cost_measure(const struct cost_params *p, struct b2_err *err)
{
    struct cost k = {.p = p};
    enum b2_status rc = start(&k, err);

    for (k.layer = 0; k.layer < choose_layers(p->c) && !rc; k.layer++)
        rc = measure_layer(&k, err);
    if (!rc)
        rc = cost_tables(&k, err);
    if (!rc)
        fill_priors(&k);
    table_metric_free(&k.metric);
    stream_free(k.stream);
    model_close(k.m);
    blas_close(k.blas);
    mem_free(k.ids);
    return rc;
}
