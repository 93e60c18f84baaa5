/*
 * stream.c - two residual streams, a worker per thread, one layer's weights.
 */
#include "compress/stream_int.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "compress/decode.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 4096 };

/* ---- shapes ---- */

const struct weight *stream_weight(const struct model *m, int64_t layer,
                                   enum stream_part part)
{
    const struct layer_weights *l = &m->layers[layer];
    const struct delta_weights *d = l->delta;

    switch (part) {
    case PART_Q:
        return d ? &d->qkv : &l->q;
    case PART_K:
        return d ? &d->z : &l->k;
    case PART_V:
        return d ? NULL : &l->v;
    case PART_O:
        return d ? &d->out : &l->o;
    case PART_GATE:
        return &l->gate;
    case PART_UP:
        return &l->up;
    case PART_DOWN:
        return &l->down;
    case PART_ALPHA:
        return d ? &d->alpha : NULL;
    case PART_BETA:
        return d ? &d->beta : NULL;
    case N_ALL_PARTS:
        break;
    }
    return NULL;
}

enum stream_input stream_input_of(enum stream_part part)
{
    static const enum stream_input in[N_ALL_PARTS] = {
        [PART_O] = INPUT_O,
        [PART_GATE] = INPUT_FFN,
        [PART_UP] = INPUT_FFN,
        [PART_DOWN] = INPUT_DOWN,
    };
    return in[part]; /* all others: INPUT_ATTN */
}

int64_t stream_width(const struct stream *s, enum stream_input in)
{
    const enum stream_part first[N_INPUTS] = {PART_Q, PART_O, PART_GATE, PART_DOWN};

    return stream_weight(s->p.m, s->layer, first[in])->cols;
}

int64_t stream_rows(const struct stream *s, enum stream_part part)
{
    const struct weight *w = stream_weight(s->p.m, s->layer, part);

    return w ? w->rows : 0;
}

const float *stream_teacher(const struct stream *s, enum stream_part part)
{
    return s->w[TEACHER][part];
}

float *stream_student(const struct stream *s, enum stream_part part)
{
    return s->w[STUDENT][part];
}

/* Of all layers: the widest input of a matrix, and that of o. */
static int64_t widest_o(const struct model *m)
{
    return max_i64(m->hp.n_heads * m->hp.head_dim, m->hp.v_heads * m->hp.v_dim);
}

static int64_t widest(const struct model *m)
{
    return max_i64(max_i64(m->hp.d, m->hp.f), widest_o(m));
}

/* Values of the largest weight of a part; layers may differ. */
static int64_t largest(const struct model *m, enum stream_part part)
{
    int64_t n = 0;

    for (int64_t i = 0; i < m->hp.n_layers; i++) {
        const struct weight *w = stream_weight(m, i, part);
        n = max_i64(n, w ? w->rows * w->cols : 0);
    }
    return n;
}

static int64_t seqs_of_batch(int64_t ctx)
{
    return max_i64(1, BATCH_TOKENS / ctx);
}

uint64_t stream_bytes(const struct model *m, int64_t n_seqs, int64_t ctx, int threads)
{
    const struct hparams *hp = &m->hp;
    const struct cache_params cache = stream_cache(ctx);
    int64_t weights = 0, floats;
    uint64_t kv = 0;

    for (int64_t i = 0; i < hp->n_layers; i++)
        kv += cache_layer_bytes(hp, &cache, i);

    for (int part = 0; part < N_ALL_PARTS; part++)
        weights += largest(m, (enum stream_part)part);
    floats = 2 * (n_seqs * ctx * hp->d + weights +
                  seqs_of_batch(ctx) * ctx * widest(m) + PROBE_ROWS * hp->vocab);
    /* A worker's buffers: some eight rows of the widest input a token, and the cache. */
    return 4 * (uint64_t)floats +
           (uint64_t)(threads + 1) *
               ((uint64_t)(ctx * widest(m)) * 32 + kv + recurrent_bytes(hp, 0));
}

uint64_t stream_keep_bytes(const struct model *m, int64_t n_seqs, int64_t ctx)
{
    return 8 * (uint64_t)(n_seqs * ctx * widest_o(m));
}

/* ---- products ---- */

void stream_product(const struct stream *s, int side, enum stream_part part, float *y,
                    const float *x)
{
    int64_t d = stream_width(s, stream_input_of(part)), rows = stream_rows(s, part);

    blas_gemm(s->p.blas, y, rows, (struct blas_size){s->p.ctx, rows, d},
              (struct blas_mat){x, d, false},
              (struct blas_mat){s->w[side][part], d, true}, 1.0f, 0.0f);
}

void stream_input(const struct stream *s, struct forward *f, int side, int64_t seq,
                  enum stream_input in)
{
    int64_t n = s->p.ctx, d = s->p.m->hp.d;

    f->x = s->x[side] + seq * n * d;
    if (in == INPUT_ATTN || in == INPUT_O)
        forward_attn_input(f, s->layer, n);
    else
        forward_ffn_input(f, s->layer, n);
    if (in == INPUT_O && s->p.m->layers[s->layer].delta) {
        stream_product(s, side, PART_Q, f->gate, f->act->x);
        stream_product(s, side, PART_K, f->q, f->act->x);
        stream_product(s, side, PART_ALPHA, f->k, f->act->x);
        stream_product(s, side, PART_BETA, f->v, f->act->x);
        forward_delta_reset(f, s->layer);
        forward_delta_heads(f, s->layer, n);
    } else if (in == INPUT_O) {
        bool gated = s->p.m->hp.arch->attn_gate;
        stream_product(s, side, PART_Q, gated ? f->gate : f->q, f->act->x);
        stream_product(s, side, PART_K, f->k, f->act->x);
        stream_product(s, side, PART_V, f->v, f->act->x);
        if (gated)
            forward_split_queries(f, n);
        forward_attn_heads(f, s->layer, n, 0);
    } else if (in == INPUT_DOWN) {
        stream_product(s, side, PART_GATE, f->gate, f->act->x);
        stream_product(s, side, PART_UP, f->up, f->act->x);
        forward_ffn_hidden(f, s->layer, n);
    }
}

static int sides(const struct stream *s)
{
    return s->p.alone ? 1 : 2;
}

/* Item i: side i % sides of sequence first_seq + i / sides. */
static void collect_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct stream *s = ctx;
    struct forward *f = &s->worker[thread].f;
    int64_t d = stream_width(s, s->input), n = s->p.ctx * d;

    for (int64_t i = begin; i < end; i++) {
        int side = (int)(i % sides(s));
        int64_t seq = i / sides(s);
        stream_input(s, f, side, s->first_seq + seq, s->input);
        memcpy(s->batch[side] + seq * n, f->act->x, (size_t)n * sizeof(float));
        if (s->input == INPUT_O && s->kept[side])
            memcpy(s->kept[side] + (s->first_seq + seq) * n, f->act->x,
                   (size_t)n * sizeof(float));
    }
}

void stream_collect(struct stream *s, enum stream_input in, struct metric_sums *sums)
{
    s->input = in;
    for (s->first_seq = 0; s->first_seq < s->n_calib; s->first_seq += s->batch_seqs) {
        int64_t n = min_i64(s->batch_seqs, s->n_calib - s->first_seq);
        pool_run(s->p.pool, collect_items, s, sides(s) * n, 1);
        metric_sums_add(sums, s->p.blas, s->p.pool,
                        s->batch[s->p.alone ? TEACHER : STUDENT],
                        s->p.alone ? NULL : s->batch[TEACHER], n * s->p.ctx);
    }
    s->have_kept |= in == INPUT_O && s->kept[TEACHER] && s->kept[STUDENT];
}

void stream_collect_head(struct stream *s, struct metric_sums *sums)
{
    const struct model *m = s->p.m;
    const int64_t size = s->p.ctx * m->hp.d;

    for (int64_t first = 0; first < s->n_calib; first += s->batch_seqs) {
        const int64_t n = min_i64(s->batch_seqs, s->n_calib - first);
        backend_rmsnorm(s->worker[0].be, s->batch[TEACHER],
                        s->x[TEACHER] + first * size, m->out_norm, n * s->p.ctx,
                        m->hp.d, m->hp.norm_eps);
        metric_sums_add(sums, s->p.blas, s->p.pool, s->batch[TEACHER], NULL,
                        n * s->p.ctx);
    }
}

static void attention_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct stream *s = ctx;
    struct forward *f = &s->worker[thread].f;

    int64_t size = s->p.ctx * stream_width(s, INPUT_O);

    for (int64_t i = begin; i < end; i++) {
        int side = (int)(i % sides(s));
        int64_t seq = i / sides(s);
        const float *x = f->act->x;
        if (s->have_kept && seq < s->n_calib) {
            x = s->kept[side] + seq * size;
            f->x = s->x[side] + seq * s->p.ctx * s->p.m->hp.d;
        } else {
            stream_input(s, f, side, seq, INPUT_O);
        }
        stream_product(s, side, PART_O, f->gate, x);
        forward_attn_output(f, s->layer, s->p.ctx);
    }
}

static void ffn_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct stream *s = ctx;
    struct forward *f = &s->worker[thread].f;

    for (int64_t i = begin; i < end; i++) {
        int side = (int)(i % sides(s));
        stream_input(s, f, side, i / sides(s), INPUT_DOWN);
        stream_product(s, side, PART_DOWN, f->gate, f->act->x);
        forward_ffn_output(f, s->layer, s->p.ctx);
    }
}

void stream_attention(struct stream *s)
{
    pool_run(s->p.pool, attention_items, s, sides(s) * s->p.n_seqs, 1);
    s->have_kept = false;
}

void stream_ffn(struct stream *s)
{
    pool_run(s->p.pool, ffn_items, s, sides(s) * s->p.n_seqs, 1);
}

/* ---- weights ---- */

enum b2_status stream_begin(struct stream *s, int64_t layer, struct b2_err *err)
{
    s->layer = layer;
    for (int part = 0; part < N_ALL_PARTS; part++) {
        const struct weight *w = stream_weight(s->p.m, layer, (enum stream_part)part);
        if (!w)
            continue;
        decode_weight(s->p.pool, s->p.m, s->w[TEACHER][part], w, 0, w->rows);
        if (quant_check_row(s->w[TEACHER][part], w->rows * w->cols, NULL, NULL))
            return err_set(err, B2_EFORMAT, "tensor %s: NaN or infinity", w->name);
    }
    return B2_OK;
}

/* ---- make and free ---- */

static enum b2_status check_model(const struct model *m, struct b2_err *err)
{
    for (int64_t i = 0; i < m->hp.n_layers; i++) {
        for (int part = 0; part < N_ALL_PARTS; part++) {
            const struct weight *w = stream_weight(m, i, (enum stream_part)part);
            if (!w)
                continue;
            if (w->rot)
                return err_set(
                    err, B2_EUNSUP,
                    "tensor %s: is rotated already; compensation starts from "
                    "the model before it was compressed",
                    w->name);
            if (w->pad)
                return err_set(err, B2_EUNSUP,
                               "tensor %s: has padded rows; compensation starts from "
                               "the model before it was compressed",
                               w->name);
        }
    }
    return B2_OK;
}

static enum b2_status make_workers(struct stream *s, struct b2_err *err)
{
    struct backend_config cfg = {.cpu = cpu_features(), .exact = true};
    const struct cache_params cache = stream_cache(s->p.ctx);
    enum b2_status rc = B2_OK;

    s->n_workers = s->p.pool ? pool_threads(s->p.pool) : 1;
    s->worker = mem_calloc((size_t)s->n_workers, sizeof *s->worker);
    if (!s->worker)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < s->n_workers && !rc; i++) {
        rc = backend_cpu_new(&s->worker[i].be, &cfg, err);
        if (!rc)
            rc = forward_init(&s->worker[i].f, s->p.m, s->worker[i].be, &cache, err);
    }
    return rc;
}

static bool make_buffers(struct stream *s)
{
    const struct model *m = s->p.m;
    bool have = true;

    for (int side = 0; side < 2; side++) {
        s->x[side] =
            mem_calloc((size_t)(s->p.n_seqs * s->p.ctx * m->hp.d), sizeof(float));
        s->batch[side] =
            mem_calloc((size_t)(s->batch_seqs * s->p.ctx * widest(m)), sizeof(float));
        have = have && s->x[side] && s->batch[side];
        if (s->p.keep)
            s->kept[side] = mem_calloc(
                (size_t)(s->n_calib * s->p.ctx) * (size_t)widest_o(m), sizeof(float));
        for (int part = 0; part < N_ALL_PARTS; part++) {
            size_t n = (size_t)largest(m, (enum stream_part)part);
            s->w[side][part] = mem_calloc(n, sizeof(float));
            have = have && (s->w[side][part] || n == 0);
        }
    }
    return have;
}

static void embed(struct stream *s)
{
    struct forward *f = &s->worker[0].f;
    int64_t n = s->p.ctx, d = s->p.m->hp.d;
    struct model with = *s->p.m; /* the student's table in the teacher's place */

    if (s->p.embd)
        with.embd = *s->p.embd;
    for (int64_t i = 0; i < 2 * s->p.n_seqs; i++) {
        f->x = s->x[i % 2] + i / 2 * n * d;
        f->m = i % 2 == STUDENT ? &with : s->p.m;
        forward_embed(f, s->p.ids + i / 2 * n, n);
    }
    f->m = s->p.m;
}

enum b2_status stream_new(struct stream **out, const struct stream_params *p,
                          struct b2_err *err)
{
    struct stream *s = mem_calloc(1, sizeof *s);
    enum b2_status rc = check_model(p->m, err);

    if (!s)
        return err_set(err, B2_ENOMEM, "out of memory");
    s->p = *p;
    s->n_calib = p->n_seqs - p->probe;
    s->base = -1;
    s->batch_seqs = seqs_of_batch(p->ctx);
    if (!rc && !make_buffers(s))
        rc = err_set(err, B2_ENOMEM,
                     "out of memory for %lld calibration tokens; fewer need less",
                     (long long)p->n_seqs * (long long)p->ctx);
    if (!rc)
        rc = make_workers(s, err);
    if (!rc) {
        embed(s);
        rc = p->probe ? stream_make_probe(s, err) : B2_OK;
    }
    if (rc) {
        stream_free(s);
        return rc;
    }
    *out = s;
    return B2_OK;
}

void stream_free(struct stream *s)
{
    if (!s)
        return;
    for (int side = 0; side < 2; side++) {
        for (int part = 0; part < N_ALL_PARTS; part++)
            mem_free(s->w[side][part]);
        mem_free(s->x[side]);
        mem_free(s->batch[side]);
        mem_free(s->kept[side]);
        mem_free(s->logits[side]);
    }
    for (int i = 0; i < s->n_workers; i++) {
        forward_free(&s->worker[i].f);
        backend_free(s->worker[i].be);
    }
    forward_free(&s->probe);
    backend_free(s->probe_be);
    mem_free(s->worker);
    mem_free(s);
}
