/*
 * normal.c - which weights, in which stage, by which way.
 */
#include "compress/normal.h"

#include "base/mem.h"
#include "compress/fit.h"
#include "compress/slab.h"
#include "tensor/hadamard.h"
#include "tensor/quant.h"

#include <string.h>

enum { CHUNK_ROWS = 8 };

/* OpenBLAS and everything small; what attention may keep without a limit. */
static const uint64_t OTHER_BYTES = (uint64_t)160 << 20, KEEP_MAX = (uint64_t)2 << 30;

struct part {
    int64_t item; /* in the choice */
    bool compensated;
    struct codes codes;
    uint8_t *bytes; /* of the layer just done */
    struct compensate_out out;
};

struct normal {
    struct normal_params p;
    struct blas *blas;
    struct model *m;
    struct stream *stream;
    struct part (*part)[N_ALL_PARTS]; /* [layers] */
    int64_t layer;
};

const char *normal_core(const struct normal *n)
{
    return blas_core(n->blas);
}

static const struct choose_item *item_of(const struct normal *n, const struct part *p)
{
    return &n->p.c->item[p->item];
}

/* ---- plan ---- */

/* What a part may be called behind "blk.N."; gated delta nets have names of their own. */
static const char *const part_names[N_ALL_PARTS][2] = {
    [PART_Q] = {"attn_q.weight", "attn_qkv.weight"},
    [PART_K] = {"attn_k.weight", "attn_gate.weight"},
    [PART_V] = {"attn_v.weight", NULL},
    [PART_O] = {"attn_output.weight", "ssm_out.weight"},
    [PART_GATE] = {"ffn_gate.weight", NULL},
    [PART_UP] = {"ffn_up.weight", NULL},
    [PART_DOWN] = {"ffn_down.weight", NULL},
    [PART_ALPHA] = {"ssm_alpha.weight", NULL},
    [PART_BETA] = {"ssm_beta.weight", NULL},
};

int64_t normal_find(const struct choose *c, int64_t layer, enum stream_part part)
{
    for (int64_t i = 0; i < c->n; i++) {
        const struct choose_item *it = &c->item[i];
        const char *name = strchr(it->t->name, '.'); /* of "blk.N." */
        name = name ? strchr(name + 1, '.') : NULL;
        if (!name || it->layer != layer)
            continue;
        for (int k = 0; k < 2; k++)
            if (part_names[part][k] && strcmp(name + 1, part_names[part][k]) == 0)
                return i;
    }
    return -1;
}

/* A layer with ssm_out is a gated delta net: it has all parts but V; others have all but
 * alpha and beta. */
static bool is_wanted(const struct choose *c, int64_t layer, int part)
{
    int64_t o = normal_find(c, layer, PART_O);
    bool delta = o >= 0 && c->item[o].role == ROLE_SSM_OUT;

    return part == PART_V ? !delta : part < N_PARTS || delta;
}

enum b2_status normal_check(const struct choose *c, struct b2_err *err)
{
    if (c->source_rotated)
        return err_set(err, B2_EUNSUP,
                       "the source's weights are rotated already; compensation starts "
                       "from the model before it was compressed");
    for (int64_t layer = 0; layer < choose_layers(c); layer++)
        for (int part = 0; part < N_ALL_PARTS; part++)
            if (is_wanted(c, layer, part) &&
                normal_find(c, layer, (enum stream_part)part) < 0)
                return err_set(err, B2_EUNSUP,
                               "layer %lld has no %s: this architecture cannot be "
                               "compensated; use --effort fast",
                               (long long)layer, part_names[part][0]);
    return B2_OK;
}

static void find_part(const struct normal *n, struct part *p, int64_t layer, int part)
{
    p->item = normal_find(n->p.c, layer, (enum stream_part)part);
    if (p->item < 0)
        return;
    const struct choose_candidate *cand = choose_picked(item_of(n, p));
    p->compensated = !cand->copy && cand->pad == 0 && codes_of(&p->codes, cand->type) &&
                     tensor_width(item_of(n, p)->t) % p->codes.group == 0;
}

static void find_parts(struct normal *n)
{
    for (int64_t layer = 0; layer < choose_layers(n->p.c); layer++)
        for (int part = 0; part < N_ALL_PARTS; part++)
            find_part(n, &n->part[layer][part], layer, part);
}

/* Columns of the widest slab of inputs of d values. */
static int64_t widest_slab(const struct normal *n, int64_t d)
{
    const struct rotate *r = n->p.c->rotate;
    int64_t limit = n->p.recipe->metric_width;

    if (limit <= 0 || d <= limit)
        return d;
    return r && rotate_mode(r) == ROTATE_WHOLE ? max_i64(limit, hadamard_largest(d))
                                               : limit;
}

/* The largest slab's sums, target and metric in F64 and F32, and copies of a matrix's
 * columns. */
static uint64_t solve_bytes(const struct normal *n)
{
    const struct hparams *hp = &n->m->hp;
    int64_t heads = max_i64(hp->n_heads * hp->head_dim, hp->v_heads * hp->v_dim);
    int64_t widest = max_i64(max_i64(hp->d, hp->f), heads);
    uint64_t d = (uint64_t)max_i64(
        max_i64(widest_slab(n, hp->d), widest_slab(n, hp->f)), widest_slab(n, heads));
    uint64_t copies = (uint64_t)widest > d ? (uint64_t)hp->d * d * 10 : 0;

    return d * d * (8 + 8 + 4 + 4 + 4 + 8 + 8 + 4 + 4) + copies;
}

static enum b2_status check_memory(const struct normal *n, bool *keep,
                                   struct b2_err *err)
{
    int threads = n->p.pool ? pool_threads(n->p.pool) : 1;
    const struct calib *c = n->p.calib;
    uint64_t need =
        stream_bytes(n->m, c->n_seqs, c->ctx, threads) + solve_bytes(n) + OTHER_BYTES;
    uint64_t more = stream_keep_bytes(n->m, c->n_seqs, c->ctx);

    *keep = n->p.mem_limit == 0 ? more <= KEEP_MAX : need + more <= n->p.mem_limit;
    log_line(n->p.log, LOG_DEBUG, "memory planned: %llu MB",
             (unsigned long long)((need + (*keep ? more : 0)) >> 20) + 1);
    if (n->p.mem_limit == 0 || need <= n->p.mem_limit)
        return B2_OK;
    return err_set(
        err, B2_ENOMEM,
        "compensation with %lld tokens needs about %llu MB, the limit is %llu "
        "MB: a smaller --calib-tokens needs less",
        (long long)c->n_seqs * (long long)c->ctx, (unsigned long long)(need >> 20),
        (unsigned long long)(n->p.mem_limit >> 20));
}

static enum b2_status start(struct normal *n, struct b2_err *err)
{
    const struct calib *c = n->p.calib;
    const struct model_params mp = {.no_tokenizer = true};
    bool keep = false;
    enum b2_status rc = blas_open(&n->blas, err);

    if (!rc)
        rc = model_open(&n->m, n->p.source, &mp, err);
    if (rc)
        return rc;
    n->part = mem_calloc((size_t)n->m->hp.n_layers, sizeof *n->part);
    if (!n->part)
        return err_set(err, B2_ENOMEM, "out of memory");
    if (n->m->hp.n_layers != n->p.c->n_layers)
        return err_set(err, B2_EUNSUP, "%lld layers, but the tensors are of %d",
                       (long long)n->m->hp.n_layers, n->p.c->n_layers);
    find_parts(n);
    rc = check_memory(n, &keep, err);
    if (rc)
        return rc;
    const struct stream_params sp = {.m = n->m,
                                     .embd = n->p.embd,
                                     .blas = n->blas,
                                     .pool = n->p.pool,
                                     .ids = c->ids,
                                     .n_seqs = c->n_seqs,
                                     .ctx = c->ctx,
                                     .keep = keep,
                                     .probe = true};
    return stream_new(&n->stream, &sp, err);
}

enum b2_status normal_new(struct normal **out, const struct normal_params *p,
                          struct b2_err *err)
{
    struct normal *n = mem_calloc(1, sizeof *n);

    if (!n)
        return err_set(err, B2_ENOMEM, "out of memory");
    n->p = *p;
    n->layer = -1;
    enum b2_status rc = start(n, err);
    if (rc) {
        normal_free(n);
        return rc;
    }
    *out = n;
    return B2_OK;
}

static void drop_bytes(struct normal *n)
{
    for (int part = 0; n->part && n->layer >= 0 && part < N_ALL_PARTS; part++) {
        mem_free(n->part[n->layer][part].bytes);
        n->part[n->layer][part].bytes = NULL;
    }
}

void normal_free(struct normal *n)
{
    if (!n)
        return;
    drop_bytes(n);
    stream_free(n->stream);
    model_close(n->m);
    blas_close(n->blas);
    mem_free(n->part);
    mem_free(n);
}

/* ---- one weight ---- */

/* What plain rounding makes of some rows, or what given bytes decode to. */
struct rounding {
    const struct choose *c;
    const struct choose_item *it;
    const float *w;
    float *values;
    const uint8_t *bytes; /* NULL: round */
    bool *failed;         /* [rows] */
    uint8_t *enc;         /* [threads, enc_bytes] */
    float *row;           /* [threads, stored] */
    int64_t d, stored, row_bytes, enc_bytes;
};

static void round_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct rounding *k = ctx;
    const struct choose_candidate *cand = choose_picked(k->it);
    const struct fit_how how = choose_how(k->c, k->it);
    uint8_t *enc = k->enc + thread * k->enc_bytes;
    float *row = k->row + thread * k->stored;
    struct fit_stat stat;

    for (int64_t r = begin; r < end; r++) {
        const uint8_t *bytes = k->bytes ? k->bytes + r * k->row_bytes : enc;
        memcpy(row, k->w + r * k->d, (size_t)k->d * sizeof *row);
        memset(row + k->d, 0, (size_t)(k->stored - k->d) * sizeof *row);
        if (!k->bytes && cand->fold)
            rotate_fold_row(k->c->rotate, row, k->d);
        if (!k->bytes)
            k->failed[r] =
                fit_row(cand->type, enc, row, k->stored, &how, &stat, NULL) != B2_OK;
        quant_decode_row(cand->type, row, bytes, k->stored);
        if (cand->fold)
            rotate_unfold_row(k->c->rotate, row, k->d);
        memcpy(k->values + r * k->d, row, (size_t)k->d * sizeof *row);
    }
}

/* Fills the student's weight from bytes, or by plain rounding when bytes is NULL. */
static enum b2_status fill_student(struct normal *n, enum stream_part part,
                                   const uint8_t *bytes, struct b2_err *err)
{
    const struct choose_item *it = item_of(n, &n->part[n->layer][part]);
    const struct choose_candidate *cand = choose_picked(it);
    int64_t rows = stream_rows(n->stream, part), d = tensor_width(it->t);
    size_t threads = n->p.pool ? (size_t)pool_threads(n->p.pool) : 1;
    struct rounding k = {.c = n->p.c, .it = it, .bytes = bytes, .d = d};
    bool failed = false;

    k.w = stream_teacher(n->stream, part);
    k.values = stream_student(n->stream, part);
    if (cand->copy) {
        memcpy(k.values, k.w, (size_t)(rows * d) * sizeof *k.w);
        return B2_OK;
    }
    k.stored = d + cand->pad;
    k.row_bytes = (int64_t)(cand->n_bytes / (uint64_t)rows);
    k.enc_bytes = k.row_bytes + 64;
    k.failed = mem_calloc((size_t)rows, sizeof *k.failed);
    k.enc = mem_calloc(threads, (size_t)k.enc_bytes);
    k.row = mem_calloc(threads * (size_t)k.stored, sizeof *k.row);
    bool have = k.failed && k.enc && k.row;
    if (have)
        pool_run(n->p.pool, round_rows, &k, rows, CHUNK_ROWS);
    for (int64_t r = 0; have && r < rows; r++)
        failed |= k.failed[r];
    mem_free(k.failed);
    mem_free(k.enc);
    mem_free(k.row);
    if (!have)
        return err_set(err, B2_ENOMEM, "out of memory");
    return failed ? err_set(err, B2_EUNSUP, "tensor %s: a scale is beyond %s",
                            it->t->name, dtype_info(cand->type)->name)
                  : B2_OK;
}

/* ---- one stage ---- */

/* What one slab of an input says. */
struct stage {
    enum stream_input in;
    struct slabs slabs;
    int i; /* the slab */
    struct metric_sums sums;
    float *target; /* NULL: no correction */
    struct metric metric;
    struct rotate *rotate; /* of the slab; NULL: nothing is rotated */
    bool metric_fold;      /* what the metric was made for */
};

/* Slabs hold whole groups of all parts' types and whole blocks of the rotation. */
static struct slabs cut_input(const struct normal *n, enum stream_input in)
{
    int64_t d = stream_width(n->stream, in), unit = 1;

    for (int part = 0; part < N_ALL_PARTS; part++) {
        const struct part *p = &n->part[n->layer][part];
        if (stream_input_of((enum stream_part)part) != in || !p->compensated)
            continue;
        unit = slabs_unit(unit, p->codes.group);
        if (choose_picked(item_of(n, p))->fold)
            unit = slabs_unit(unit, rotate_block_of(n->p.c->rotate, d));
    }
    return slabs_cut(d, unit, n->p.recipe->metric_width);
}

static bool folds_any(const struct normal *n, enum stream_input in)
{
    for (int part = 0; part < N_ALL_PARTS; part++) {
        const struct part *p = &n->part[n->layer][part];
        if (stream_input_of((enum stream_part)part) == in && p->compensated &&
            choose_picked(item_of(n, p))->fold)
            return true;
    }
    return false;
}

static enum b2_status make_stage(struct normal *n, struct stage *s, struct b2_err *err)
{
    int64_t d = slab_width(&s->slabs, s->i);
    enum b2_status rc = metric_sums_new(&s->sums, d, err);

    if (rc)
        return rc;
    s->sums.from = s->slabs.from[s->i];
    s->sums.stride = s->slabs.d;
    if (folds_any(n, s->in)) {
        s->rotate = slab_rotate(n->p.c->rotate, &s->slabs, s->i);
        if (!s->rotate)
            return err_set(err, B2_ENOMEM, "out of memory");
    }
    stream_collect(n->stream, s->in, &s->sums);
    if (n->p.recipe->mismatch <= 0.0)
        return B2_OK;
    s->target = mem_calloc((size_t)(d * d), sizeof *s->target);
    if (!s->target)
        return err_set(err, B2_ENOMEM, "out of memory");
    return metric_target(s->target, &s->sums, n->blas, n->p.pool, err);
}

static void free_stage(struct stage *s)
{
    metric_sums_free(&s->sums);
    metric_free(&s->metric);
    rotate_free(s->rotate);
    mem_free(s->target);
}

static enum b2_status compensate_part(struct normal *n, struct stage *s,
                                      enum stream_part part, struct b2_err *err)
{
    struct part *p = &n->part[n->layer][part];
    const struct choose_item *it = item_of(n, p);
    const struct choose_candidate *cand = choose_picked(it);
    const struct rotate *rotate = cand->fold ? s->rotate : NULL;
    const struct compensate_how how = {n->p.recipe->mismatch, n->p.recipe->refine,
                                       n->p.recipe->ternary_rule, cand->left_out};
    enum b2_status rc = B2_OK;

    if (s->metric.group != p->codes.group || s->metric.unit != p->codes.unit ||
        s->metric_fold != cand->fold) {
        metric_free(&s->metric);
        s->metric_fold = cand->fold;
        rc = metric_new(&s->metric, &s->sums, rotate, p->codes.group, p->codes.unit,
                        n->blas, err);
    }
    if (s->i == 0) {
        p->bytes = mem_calloc((size_t)cand->n_bytes, 1);
        p->out = (struct compensate_out){.bytes = p->bytes,
                                         .values = stream_student(n->stream, part)};
    }
    if (!rc && !p->bytes)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    const struct slab_job j = {.slabs = &s->slabs,
                               .i = s->i,
                               .codes = &p->codes,
                               .w = stream_teacher(n->stream, part),
                               .rows = stream_rows(n->stream, part),
                               .m = &s->metric,
                               .target = s->target,
                               .rotate = rotate,
                               .how = &how,
                               .b = n->blas,
                               .pool = n->p.pool};
    if (!rc)
        rc = slab_compensate(&p->out, &j, err);
    if (rc)
        err_wrap(err, "tensor %s", it->t->name);
    else if (s->i == s->slabs.n - 1)
        log_line(
            n->p.log, LOG_DEBUG,
            "%s: %.4f of the output's energy lost, damping %g, %lld rows that do not "
            "make up for earlier layers because they would not fit the type",
            it->t->name, p->out.energy > 0.0 ? p->out.loss / p->out.energy : 0.0,
            s->metric.damp, (long long)p->out.uncorrected);
    return rc;
}

static enum b2_status run_slab(struct normal *n, struct stage *s, struct b2_err *err)
{
    struct part *parts = n->part[n->layer];
    enum b2_status rc = make_stage(n, s, err);

    for (int part = 0; part < N_ALL_PARTS && !rc; part++)
        if (stream_input_of((enum stream_part)part) == s->in && parts[part].compensated)
            rc = compensate_part(n, s, (enum stream_part)part, err);
    free_stage(s);
    return rc;
}

static enum b2_status run_stage(struct normal *n, enum stream_input in,
                                struct b2_err *err)
{
    struct part *parts = n->part[n->layer];
    const struct slabs slabs = cut_input(n, in);
    bool any = false;
    enum b2_status rc = B2_OK;

    for (int part = 0; part < N_ALL_PARTS && !rc; part++) {
        if (stream_input_of((enum stream_part)part) != in || parts[part].item < 0)
            continue;
        any |= parts[part].compensated;
        if (!parts[part].compensated)
            rc = fill_student(n, (enum stream_part)part, NULL, err);
    }
    for (int i = 0; i < slabs.n && any && !rc; i++) {
        struct stage s = {.in = in, .slabs = slabs, .i = i};
        rc = run_slab(n, &s, err);
    }
    if (rc)
        err_wrap(err, "layer %lld", (long long)n->layer);
    return rc;
}

static enum b2_status begin_layer(struct normal *n, int64_t layer, struct b2_err *err)
{
    drop_bytes(n);
    n->layer = layer;
    return stream_begin(n->stream, layer, err);
}

enum b2_status normal_layer(struct normal *n, int64_t layer,
                            bool (*cancelled)(void *ctx), void *ctx, struct b2_err *err)
{
    enum b2_status rc = begin_layer(n, layer, err);

    for (int in = 0; in < N_INPUTS && !rc; in++) {
        if (cancelled && cancelled(ctx))
            return err_set(err, B2_ECANCEL, "interrupted");
        rc = run_stage(n, (enum stream_input)in, err);
        if (!rc && in == INPUT_O)
            stream_attention(n->stream);
        if (!rc && in == INPUT_DOWN)
            stream_ffn(n->stream);
    }
    return rc;
}

enum b2_status normal_replay(struct normal *n, int64_t layer,
                             const uint8_t *(*bytes)(void *ctx, int64_t item),
                             void *ctx, struct b2_err *err)
{
    enum b2_status rc = begin_layer(n, layer, err);

    for (int part = 0; part < N_ALL_PARTS && !rc; part++)
        if (n->part[layer][part].item >= 0)
            rc = fill_student(n, (enum stream_part)part,
                              bytes(ctx, n->part[layer][part].item), err);
    if (!rc) {
        stream_attention(n->stream);
        stream_ffn(n->stream);
    }
    return rc;
}

const uint8_t *normal_bytes(const struct normal *n, int64_t item, struct fit_stat *stat)
{
    for (int part = 0; n->layer >= 0 && part < N_ALL_PARTS; part++) {
        const struct part *p = &n->part[n->layer][part];
        if (p->item == item && p->bytes) {
            *stat = p->out.stat;
            return p->bytes;
        }
    }
    return NULL;
}

double normal_divergence(struct normal *n)
{
    return stream_divergence(n->stream, n->layer);
}
