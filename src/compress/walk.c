/*
 * walk.c - the steps of a layer with products by OpenBLAS, a sequence at a time.
 */
#include "compress/walk.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "compress/decode.h"
#include "tensor/quant.h"

#include <string.h>

struct worker {
    struct backend *be;
    struct forward f;
};

struct walk {
    struct walk_params p;
    struct worker *worker;
    int n_workers;
    const struct walk_pass *pass; /* of the call that is under way */
};

const struct weight *walk_weight(const struct model *m, int64_t layer,
                                 enum stream_part part)
{
    const struct layer_weights *l = &m->layers[layer];
    const struct weight *const all[N_PARTS] = {&l->q,    &l->k,  &l->v,   &l->o,
                                               &l->gate, &l->up, &l->down};

    return all[part];
}

static int64_t largest(const struct model *m, enum stream_part part)
{
    int64_t n = 0;

    for (int64_t i = 0; i < m->hp.n_layers; i++) {
        const struct weight *w = walk_weight(m, i, part);
        n = max_i64(n, w->rows * w->cols);
    }
    return n;
}

uint64_t walk_weights_bytes(const struct model *m)
{
    uint64_t n = 0;

    for (int part = 0; part < N_PARTS; part++)
        n += (uint64_t)largest(m, (enum stream_part)part);
    return n * sizeof(float);
}

bool walk_weights_new(struct walk_weights *w, const struct model *m)
{
    bool have = true;

    for (int part = 0; part < N_PARTS; part++) {
        w->w[part] =
            mem_aligned(64, (size_t)largest(m, (enum stream_part)part), sizeof(float));
        have = have && w->w[part];
    }
    return have;
}

void walk_weights_free(struct walk_weights *w)
{
    for (int part = 0; part < N_PARTS; part++)
        mem_free(w->w[part]);
    *w = (struct walk_weights){0};
}

/* One sequence at a time, all of it in one pass. */
static struct cache_params cache_of(int64_t tokens)
{
    return (struct cache_params){.type = DT_F16, .ctx = tokens, .batch = tokens};
}

uint64_t walk_bytes(const struct model *m, int64_t ctx, int threads)
{
    const struct hparams *hp = &m->hp;
    const struct cache_params cache = cache_of(ctx);
    const int64_t widest = max_i64(max_i64(hp->d, hp->f), hp->n_heads * hp->head_dim);
    uint64_t kv = 0;

    for (int64_t i = 0; i < hp->n_layers; i++)
        kv += cache_layer_bytes(hp, &cache, i);
    /* Some eight rows of the widest input a token. */
    return (uint64_t)threads * ((uint64_t)(ctx * widest) * 32 + kv);
}

enum b2_status walk_check(const struct model *m, struct b2_err *err)
{
    const struct arch *a = m->hp.arch;

    if (a->delta || a->attn_gate || a->fused)
        return err_set(err, B2_EUNSUP,
                       "%s: models of architecture `%s` cannot be analysed or pruned "
                       "yet (llama, deci, qwen2, qwen3, gemma3, bitnet-b1.58 can)",
                       modelfile_path(m->mf), a->name);
    if (m->head.rot)
        return err_set(err, B2_EUNSUP,
                       "tensor %s: is rotated; start from the model before it was "
                       "compressed",
                       m->head.name);
    for (int64_t i = 0; i < m->hp.n_layers; i++)
        for (int part = 0; part < N_PARTS; part++) {
            const struct weight *w = walk_weight(m, i, (enum stream_part)part);
            if (w->rot || w->pad)
                return err_set(err, B2_EUNSUP,
                               "tensor %s: is %s; start from the model before it was "
                               "compressed",
                               w->name, w->rot ? "rotated" : "padded");
        }
    return B2_OK;
}

enum b2_status walk_new(struct walk **out, const struct walk_params *p,
                        struct b2_err *err)
{
    struct backend_config cfg = {.cpu = cpu_features(), .exact = true};
    const struct cache_params cache = cache_of(p->ctx);
    enum b2_status rc = walk_check(p->m, err);
    struct walk *w = rc ? NULL : mem_calloc(1, sizeof *w);

    if (rc)
        return rc;
    if (!w)
        return err_set(err, B2_ENOMEM, "out of memory");
    w->p = *p;
    w->n_workers = p->pool ? pool_threads(p->pool) : 1;
    w->worker = mem_calloc((size_t)w->n_workers, sizeof *w->worker);
    if (!w->worker) {
        mem_free(w);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int i = 0; i < w->n_workers && !rc; i++) {
        rc = backend_cpu_new(&w->worker[i].be, &cfg, err);
        if (!rc)
            rc = forward_init(&w->worker[i].f, p->m, w->worker[i].be, &cache, err);
    }
    if (rc)
        walk_free(w);
    else
        *out = w;
    return rc;
}

void walk_free(struct walk *w)
{
    if (!w)
        return;
    for (int i = 0; w->worker && i < w->n_workers; i++) {
        forward_free(&w->worker[i].f);
        backend_free(w->worker[i].be);
    }
    mem_free(w->worker);
    mem_free(w);
}

/* ---- weights ---- */

enum b2_status walk_decode(const struct walk *w, struct walk_weights *to, int64_t layer,
                           struct b2_err *err)
{
    for (int part = 0; part < N_PARTS; part++) {
        const struct weight *from = walk_weight(w->p.m, layer, (enum stream_part)part);
        decode_weight(w->p.pool, w->p.m, to->w[part], from, 0, from->rows);
        if (quant_check_row(to->w[part], from->rows * from->cols, NULL, NULL))
            return err_set(err, B2_EFORMAT, "tensor %s: NaN or infinity", from->name);
    }
    return B2_OK;
}

void walk_embed(struct walk *w, float *x, const int32_t *ids, int64_t n_seqs, int64_t n)
{
    struct forward *f = &w->worker[0].f;
    float *own = f->x;

    for (int64_t i = 0; i < n_seqs; i++) {
        f->x = x + i * n * w->p.m->hp.d;
        forward_embed(f, ids + i * n, n);
    }
    f->x = own;
}

/* ---- one layer ---- */

/* What the steps below share. */
struct step {
    const struct walk *w;
    const struct walk_pass *p;
    struct forward *f;
    int64_t seq;
};

static void product(const struct step *s, enum stream_part part, float *y,
                    const float *x)
{
    const struct weight *shape = walk_weight(s->w->p.m, s->p->layer, part);
    const float *own = s->p->edit ? s->p->edit[s->seq].w[part] : NULL;

    blas_gemm(s->w->p.blas, y, shape->rows,
              (struct blas_size){s->p->n, shape->rows, shape->cols},
              (struct blas_mat){x, shape->cols, false},
              (struct blas_mat){own ? own : s->p->weights->w[part], shape->cols, true},
              1.0f, 0.0f);
}

static void keep(const struct step *s, float *to, const float *from, int64_t width)
{
    const int64_t n = s->p->n * width;

    if (to)
        memcpy(to + s->seq * n, from, (size_t)n * sizeof *to);
}

static void keep_input(const struct step *s, enum stream_input in, int64_t width)
{
    if (s->p->tap)
        keep(s, s->p->tap->input[in], s->f->act->x, width);
}

static void drop_heads(const struct step *s, const struct walk_edit *e)
{
    const int64_t dim = s->w->p.m->hp.head_dim;
    const int64_t width = hparams_heads(&s->w->p.m->hp, s->p->layer) * dim;

    for (int64_t t = 0; t < s->p->n; t++)
        for (int64_t i = e->head_begin * dim; i < e->head_end * dim; i++)
            s->f->act->x[t * width + i] = 0.0f;
}

static void attention(const struct step *s, const struct walk_edit *e)
{
    struct forward *f = s->f;
    const int64_t layer = s->p->layer, n = s->p->n;
    const struct layer_weights *l = &s->w->p.m->layers[layer];

    forward_attn_input(f, layer, n);
    keep_input(s, INPUT_ATTN, l->q.cols);
    product(s, PART_Q, f->q, f->act->x);
    product(s, PART_K, f->k, f->act->x);
    product(s, PART_V, f->v, f->act->x);
    forward_attn_heads(f, layer, n, 0);
    if (e && e->head_end > e->head_begin)
        drop_heads(s, e);
    keep_input(s, INPUT_O, l->o.cols);
    product(s, PART_O, f->gate, f->act->x);
    forward_attn_output(f, layer, n);
}

static void feed_forward(const struct step *s)
{
    struct forward *f = s->f;
    const int64_t layer = s->p->layer, n = s->p->n;
    const struct layer_weights *l = &s->w->p.m->layers[layer];

    forward_ffn_input(f, layer, n);
    keep_input(s, INPUT_FFN, l->gate.cols);
    product(s, PART_GATE, f->gate, f->act->x);
    product(s, PART_UP, f->up, f->act->x);
    if (s->p->tap)
        keep(s, s->p->tap->gate, f->gate, l->gate.rows);
    forward_ffn_hidden(f, layer, n);
    keep_input(s, INPUT_DOWN, l->down.cols);
    product(s, PART_DOWN, f->gate, f->act->x);
    forward_ffn_output(f, layer, n);
}

static void run_seqs(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct walk *w = ctx;
    struct forward *f = &w->worker[thread].f;
    float *own = f->x;

    for (int64_t i = begin; i < end; i++) {
        const struct step s = {w, w->pass, f, i};
        const struct walk_edit *e = w->pass->edit ? &w->pass->edit[i] : NULL;
        f->x = w->pass->x + i * w->pass->n * w->p.m->hp.d;
        if (!e || !e->no_attn)
            attention(&s, e);
        if (!e || !e->no_ffn)
            feed_forward(&s);
    }
    f->x = own;
}

void walk_layer(struct walk *w, const struct walk_pass *p)
{
    w->pass = p;
    pool_run(w->p.pool, run_seqs, w, p->n_seqs, 1);
    w->pass = NULL;
}
