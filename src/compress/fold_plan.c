/*
 * fold_plan.c - what flows into each column, and what follows from that.
 */
#include "compress/fold_int.h"

#include "base/mem.h"
#include "compress/analyze_stats.h"
#include "compress/rank.h"
#include "compress/walk.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 2048, MOST_POWERS = 24 };

/* ---- measuring ---- */

/* The calibration, the walk, and what a layer's inputs are while it is passed. */
struct measuring {
    const struct model *m;
    const struct pipeline_params *p;
    struct fold_stats *s;
    struct calib calib;
    struct blas *blas;
    struct walk *walk;
    struct walk_weights weights;
    int32_t *ids;
    int64_t n_seqs, batch_seqs;
    float *x; /* [n_seqs, ctx, D] */
    struct walk_tap tap;
};

static enum b2_status read_calibration(struct measuring *k, int64_t max_tokens,
                                       struct b2_err *err)
{
    /* The compression tells what it dropped. */
    enum b2_status rc =
        calib_of_model(&k->calib, modelfile_meta(k->m->mf), k->p->calib, NULL, err);

    if (rc)
        return rc;
    memcpy(k->s->calibration, k->calib.sha256, sizeof k->s->calibration);
    k->ids = calib_some(&k->calib, max_tokens, &k->n_seqs);
    if (!k->ids)
        return err_set(err, B2_ENOMEM, "out of memory for the tokens");
    k->n_seqs -= 1; /* the probe */
    k->batch_seqs = min_i64(k->n_seqs, max_i64(1, BATCH_TOKENS / k->calib.ctx));
    return B2_OK;
}

static enum b2_status check_memory(const struct measuring *k, struct b2_err *err)
{
    const struct hparams *hp = &k->m->hp;
    const int threads = k->p->env.pool ? pool_threads(k->p->env.pool) : 1;
    const int64_t ctx = k->calib.ctx;
    const uint64_t need =
        WALK_OTHER_BYTES + walk_weights_bytes(k->m) + walk_bytes(k->m, ctx, threads) +
        (uint64_t)(k->n_seqs * ctx * hp->d) * sizeof(float) +
        (uint64_t)(k->batch_seqs * ctx * (2 * hp->d + hp->f)) * sizeof(float);

    if (k->p->mem_limit == 0 || need <= k->p->mem_limit)
        return B2_OK;
    return err_set(err, B2_ENOMEM,
                   "measuring columns needs about %llu MB, the limit is %llu MB: a "
                   "smaller --calib-ctx needs less",
                   (unsigned long long)(need >> 20),
                   (unsigned long long)(k->p->mem_limit >> 20));
}

static enum b2_status make_streams(struct measuring *k, struct b2_err *err)
{
    const struct hparams *hp = &k->m->hp;
    const int64_t ctx = k->calib.ctx, batch = k->batch_seqs * ctx;
    const struct walk_params wp = {k->m, k->blas, k->p->env.pool, ctx};
    enum b2_status rc = walk_new(&k->walk, &wp, err);

    if (rc)
        return rc;
    k->x = mem_calloc((size_t)(k->n_seqs * ctx * hp->d), sizeof *k->x);
    k->tap.input[INPUT_ATTN] = mem_calloc((size_t)(batch * hp->d), sizeof(float));
    k->tap.input[INPUT_FFN] = mem_calloc((size_t)(batch * hp->d), sizeof(float));
    k->tap.input[INPUT_DOWN] = mem_calloc((size_t)(batch * hp->f), sizeof(float));
    if (!walk_weights_new(&k->weights, k->m) || !k->x || !k->tap.input[INPUT_ATTN] ||
        !k->tap.input[INPUT_FFN] || !k->tap.input[INPUT_DOWN])
        return err_set(err, B2_ENOMEM, "out of memory for a layer");
    return B2_OK;
}

static enum b2_status make_layers(struct fold_stats *s, const struct hparams *hp,
                                  struct b2_err *err)
{
    s->n_layers = hp->n_layers;
    s->d = hp->d;
    s->arena = arena_new(SIZE_MAX / 2);
    s->layer = s->arena ? arena_calloc(s->arena, (size_t)hp->n_layers, sizeof *s->layer)
                        : NULL;
    for (int64_t i = 0; s->layer && i < hp->n_layers; i++) {
        struct fold_stats_layer *l = &s->layer[i];
        l->f = hparams_f(hp, i);
        l->attn = arena_calloc(s->arena, (size_t)hp->d, sizeof *l->attn);
        l->ffn = arena_calloc(s->arena, (size_t)hp->d, sizeof *l->ffn);
        l->hidden = arena_calloc(s->arena, (size_t)l->f, sizeof *l->hidden);
        if (!l->attn || !l->ffn || !l->hidden)
            return err_set(err, B2_ENOMEM, "out of memory");
    }
    return s->layer ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

/* All tokens past a layer. */
static enum b2_status pass_layer(struct measuring *k, int64_t layer, struct b2_err *err)
{
    static const enum stream_input inputs[] = {INPUT_ATTN, INPUT_FFN, INPUT_DOWN};
    struct fold_stats_layer *l = &k->s->layer[layer];
    double *const square[] = {l->attn, l->ffn, l->hidden};
    const int64_t ctx = k->calib.ctx, d = k->s->d, width[] = {d, d, l->f};
    struct stats_columns c[countof(inputs)] = {{0}};
    enum b2_status rc = walk_decode(k->walk, &k->weights, layer, err);

    for (size_t i = 0; i < countof(inputs) && !rc; i++)
        rc = stats_columns_new(&c[i], width[i], err);
    for (int64_t s = 0; s < k->n_seqs && !rc; s += k->batch_seqs) {
        const struct walk_pass pass = {.layer = layer,
                                       .weights = &k->weights,
                                       .x = k->x + s * ctx * d,
                                       .n_seqs = min_i64(k->batch_seqs, k->n_seqs - s),
                                       .n = ctx,
                                       .tap = &k->tap};
        walk_layer(k->walk, &pass);
        for (size_t i = 0; i < countof(inputs); i++)
            stats_columns_add(&c[i], k->p->env.pool, k->tap.input[inputs[i]],
                              pass.n_seqs * ctx);
    }
    for (size_t i = 0; i < countof(inputs); i++) {
        for (int64_t j = 0; j < width[i] && !rc; j++) {
            square[i][j] = c[i].square[j] / (double)max_i64(1, c[i].n_tokens);
            if (!isfinite(square[i][j]))
                rc = err_set(err, B2_EFORMAT,
                             "layer %lld: what flows through it is not finite",
                             (long long)layer);
        }
        stats_columns_free(&c[i]);
    }
    return rc;
}

enum b2_status fold_measure(struct fold_stats *s, const struct model *m,
                            const struct pipeline_params *p, int64_t max_tokens,
                            struct b2_err *err)
{
    struct measuring k = {.m = m, .p = p, .s = s};
    enum b2_status rc = walk_check(m, err);

    if (!rc)
        rc = blas_open(&k.blas, err);
    if (!rc)
        rc = read_calibration(&k, max_tokens, err);
    if (!rc)
        rc = check_memory(&k, err);
    if (!rc)
        rc = make_streams(&k, err);
    if (!rc)
        rc = make_layers(s, &m->hp, err);
    if (!rc && p->on_stage)
        p->on_stage(p->env.ctx, "columns", (uint64_t)m->hp.n_layers);
    if (!rc)
        walk_embed(k.walk, k.x, k.ids, k.n_seqs, k.calib.ctx);
    for (int64_t i = 0; i < m->hp.n_layers && !rc; i++) {
        if (p->env.cancelled && p->env.cancelled(p->env.ctx))
            rc = err_set(err, B2_ECANCEL, "interrupted; the same command begins again");
        if (!rc)
            rc = pass_layer(&k, i, err);
        progress_update(p->env.progress, (uint64_t)i + 1, 0.0);
    }
    for (int in = 0; in < N_INPUTS; in++)
        mem_free(k.tap.input[in]);
    mem_free(k.x);
    mem_free(k.ids);
    walk_weights_free(&k.weights);
    walk_free(k.walk);
    calib_free(&k.calib);
    blas_close(k.blas);
    return rc;
}

void fold_stats_free(struct fold_stats *s)
{
    arena_free(s->arena);
    *s = (struct fold_stats){0};
}

/* ---- planning ---- */

/* Columns that are never fed stay as they are. */
static void set_powers(int8_t *power, const double *square, int64_t n, double exponent)
{
    double sum = 0.0;
    int64_t fed = 0;

    for (int64_t i = 0; i < n; i++)
        if (square[i] > 0.0) {
            sum += 0.5 * log2(square[i]);
            fed++;
        }
    for (int64_t i = 0; i < n; i++) {
        if (!(square[i] > 0.0))
            continue;
        const double p = exponent * (0.5 * log2(square[i]) - sum / (double)fed);
        power[i] = (int8_t)lrint(fmin(MOST_POWERS, fmax(-MOST_POWERS, p)));
    }
}

static enum b2_status set_order(int32_t *order, const double *key, int64_t n,
                                struct b2_err *err)
{
    struct ranked *r = mem_calloc((size_t)n, sizeof *r);

    if (!r)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++)
        r[i] = (struct ranked){key[i], (int32_t)i};
    rank_falling(r, n);
    for (int64_t i = 0; i < n; i++)
        order[i] = r[i].at;
    mem_free(r);
    return B2_OK;
}

/* By the geometric mean of what all layers are fed. */
static enum b2_status order_stream(struct fold_plan *plan, const struct fold_stats *s,
                                   struct b2_err *err)
{
    static const double LEAST = 1e-60;
    double *key = mem_calloc((size_t)s->d, sizeof *key);

    plan->stream = arena_calloc(plan->arena, (size_t)s->d, sizeof *plan->stream);
    if (!key || !plan->stream) {
        mem_free(key);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int64_t i = 0; i < s->n_layers; i++)
        for (int64_t j = 0; j < s->d; j++)
            key[j] += log2(fmax(LEAST, s->layer[i].attn[j])) +
                      log2(fmax(LEAST, s->layer[i].ffn[j]));
    enum b2_status rc = set_order(plan->stream, key, s->d, err);
    mem_free(key);
    return rc;
}

enum b2_status fold_make_plan(struct fold_plan *plan, const struct fold_stats *s,
                              double exponent, bool sort, bool stream,
                              struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    *plan =
        (struct fold_plan){.n_layers = s->n_layers, .d = s->d, .exponent = exponent};
    plan->arena = arena_new(SIZE_MAX / 2);
    plan->layer = plan->arena ? arena_calloc(plan->arena, (size_t)s->n_layers,
                                             sizeof *plan->layer)
                              : NULL;
    if (!plan->layer)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < s->n_layers && !rc; i++) {
        const struct fold_stats_layer *from = &s->layer[i];
        struct fold_plan_layer *to = &plan->layer[i];
        to->f = from->f;
        to->attn = arena_calloc(plan->arena, (size_t)s->d, 1);
        to->ffn = arena_calloc(plan->arena, (size_t)s->d, 1);
        to->hidden = arena_calloc(plan->arena, (size_t)to->f, 1);
        to->order =
            sort ? arena_calloc(plan->arena, (size_t)to->f, sizeof *to->order) : NULL;
        if (!to->attn || !to->ffn || !to->hidden || (sort && !to->order))
            return err_set(err, B2_ENOMEM, "out of memory");
        set_powers(to->attn, from->attn, s->d, exponent);
        set_powers(to->ffn, from->ffn, s->d, exponent);
        set_powers(to->hidden, from->hidden, to->f, exponent);
        if (sort)
            rc = set_order(to->order, from->hidden, to->f, err);
    }
    return !rc && stream ? order_stream(plan, s, err) : rc;
}

void fold_plan_free(struct fold_plan *plan)
{
    arena_free(plan->arena);
    *plan = (struct fold_plan){0};
}
