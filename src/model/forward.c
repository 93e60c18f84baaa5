/*
 * forward.c - one pass over a batch of tokens.
 */
#include "model/forward.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

/* The widest input of a matmul. */
static int64_t act_width(const struct hparams *hp)
{
    int64_t heads = max_i64(hp->n_heads * hp->head_dim, hp->v_heads * hp->v_dim);

    return max_i64(max_i64(hp->d, hp->f), heads);
}

/* Floats per token of the buffers below, in the order in which they are cut. */
struct widths {
    int64_t x, q, kv, gate, up;
};

static struct widths widths_of(const struct hparams *hp)
{
    const int64_t q = hp->n_heads * hp->head_dim, u = hparams_conv_channels(hp);
    const int64_t gated = hp->arch->attn_gate ? q : 0;

    return (struct widths){
        .x = hp->d,
        .q = max_i64(q, hp->v_heads * hp->v_dim),
        .kv = max_i64(hp->n_kv_heads * hp->head_dim, hp->v_heads),
        .gate = max_i64(max_i64(hp->f, hp->d), max_i64(2 * gated, u)),
        .up = max_i64(hp->f, max_i64(gated, u)),
    };
}

/* Sinks before a window are seen through queries of their own. */
static bool wants_q_sinks(const struct cache_params *p)
{
    return p->window > 0 && p->sinks > 0;
}

static uint64_t float_bytes(const struct model *m, const struct cache_params *p)
{
    struct widths w = widths_of(&m->hp);
    int64_t q = wants_q_sinks(p) ? 2 * w.q : w.q;

    return (uint64_t)(w.x + q + 2 * w.kv + w.gate + w.up) * (uint64_t)p->batch *
           sizeof(float);
}

uint64_t forward_scratch_bytes(const struct model *m, const struct backend *be,
                               const struct cache_params *p)
{
    return float_bytes(m, p) + backend_act_bytes(be, p->batch, act_width(&m->hp)) +
           (uint64_t)m->hp.n_layers * sizeof(struct cache_layer);
}

static void cut_buffers(struct forward *f)
{
    struct widths w = widths_of(&f->m->hp);
    int64_t batch = f->params.batch;
    float *p = f->floats;

    f->x = p;
    f->q = f->x + w.x * batch;
    f->k = f->q + w.q * batch;
    f->v = f->k + w.kv * batch;
    f->gate = f->v + w.kv * batch;
    f->up = f->gate + w.gate * batch;
    if (wants_q_sinks(&f->params))
        f->q_sinks = f->up + w.up * batch;
}

enum b2_status forward_init(struct forward *f, const struct model *m,
                            struct backend *be, const struct cache_params *p,
                            struct b2_err *err)
{
    const struct attn_limits limits = {m->hp.n_heads, m->hp.head_dim,
                                       cache_max_visible(&m->hp, p)};
    enum b2_status rc;

    *f = (struct forward){.m = m, .be = be, .params = *p};
    f->floats = mem_aligned(64, (size_t)float_bytes(m, p), 1);
    if (!f->floats) {
        rc = err_set(err, B2_ENOMEM,
                     "out of memory for a batch of %lld: a smaller --batch needs less",
                     (long long)p->batch);
        goto fail;
    }
    cut_buffers(f);
    rc = cache_init(&f->cache, &m->hp, p, err);
    if (rc == B2_OK)
        rc = act_new(&f->act, be, p->batch, act_width(&m->hp), err);
    if (rc == B2_OK)
        rc = recurrent_init(&f->rec, &m->hp, p->saved, err);
    if (rc == B2_OK)
        rc = backend_reserve(be, &limits, err);
    if (rc == B2_OK)
        return B2_OK;

fail:
    forward_free(f);
    return rc;
}

void forward_free(struct forward *f)
{
    if (f->act)
        act_free(f->be, f->act);
    recurrent_free(&f->rec);
    cache_free(&f->cache);
    mem_free(f->floats);
    *f = (struct forward){0};
}

int64_t forward_rewind(struct forward *f, int64_t pos)
{
    int64_t at = cache_rewind(&f->cache, pos), to;

    /* Both must know the place: each may ask for an earlier one than the other. */
    while (recurrent_used(&f->rec) && (to = recurrent_rewind(&f->rec, at)) < at)
        at = cache_rewind(&f->cache, to);
    return at;
}

void forward_mark(struct forward *f, int64_t pos, int64_t last)
{
    if (!recurrent_used(&f->rec))
        return;
    recurrent_save_mark(&f->rec, pos < last);
    if (pos < last && last < pos + f->params.batch) {
        f->mark_copy = recurrent_begin_mark(&f->rec);
        f->mark_n = last - pos;
    }
}

/* In place. */
static void norm(struct forward *f, float *x, const float *gain, int64_t n_rows,
                 int64_t d)
{
    backend_rmsnorm(f->be, x, x, gain, n_rows, d, f->m->hp.norm_eps);
}

static void bias_and_norm_qkv(struct forward *f, int64_t layer, int64_t n)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];

    if (hp->arch->qkv_bias) {
        backend_add_bias(f->be, f->q, l->q_bias, n, l->q.rows);
        backend_add_bias(f->be, f->k, l->k_bias, n, l->k.rows);
        backend_add_bias(f->be, f->v, l->v_bias, n, l->v.rows);
    }
    if (hp->arch->qk_norm) {
        norm(f, f->q, l->q_norm, n * hparams_heads(hp, layer), hp->head_dim);
        norm(f, f->k, l->k_norm, n * hparams_kv_heads(hp, layer), hp->head_dim);
    }
}

void forward_attn_input(struct forward *f, int64_t layer, int64_t n)
{
    const struct hparams *hp = &f->m->hp;

    backend_rmsnorm(f->be, f->act->x, f->x, f->m->layers[layer].attn_norm, n, hp->d,
                    hp->norm_eps);
    act_changed(f->act, n, hp->d);
}

/* Turns queries and keys of tokens [first, first + n) of the batch, which stand at pos0..
 * of the sequence `of`, stores keys and values, attends into act. A token far from the
 * sinks sees them through a query that stands right behind its window's length, as if
 * nothing lay between (StreamingLLM counts positions inside the cache): no distance ever
 * passes what the model was trained for. */
static void rope_store_attend(struct forward *f, struct forward *of, int64_t layer,
                              int64_t first, int64_t n, int64_t pos0)
{
    const struct hparams *hp = &f->m->hp;
    const int64_t heads = hparams_heads(hp, layer), kv = hparams_kv_heads(hp, layer);
    struct cache_layer *c = &of->cache.layer[layer];
    const bool slides = hparams_slides(hp, layer);
    const struct rope_table *table = model_rope(f->m, slides, of->params.ctx);
    const int64_t q_at = first * heads * hp->head_dim;
    const int64_t kv_at = first * kv * hp->head_dim;
    float *q = f->q + q_at, *k = f->k + kv_at;
    struct rope_args rope = {
        .kind = hp->arch->rope,
        .head_dim = hp->head_dim,
        .n_rot = hp->n_rot,
        .freq = table->freq,
        .mscale = table->mscale,
    };
    struct attn_args attn = {
        .n_heads = heads,
        .n_kv_heads = kv,
        .head_dim = hp->head_dim,
        .pos0 = pos0,
        .window = c->window,
        .sinks = c->sinks,
        .scale = hp->attn_scale,
    };

    if (c->sinks > 0 && pos0 + n > c->window + c->sinks) {
        float *own = f->q_sinks + q_at;
        memcpy(own, q, (size_t)(n * heads * hp->head_dim) * sizeof *q);
        rope.max_pos = c->window + c->sinks - 1;
        backend_rope(f->be, own, n, heads, pos0, &rope);
        rope.max_pos = 0;
        attn.q_sinks = own;
    }
    backend_rope(f->be, q, n, heads, pos0, &rope);
    backend_rope(f->be, k, n, kv, pos0, &rope);
    backend_kv_store(f->be, &c->kv, k, f->v + kv_at, n, kv, hp->head_dim, pos0);
    backend_attention(f->be, f->act->x + q_at, q, &c->kv, n, &attn);
}

void forward_attn_heads(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    const struct layer_weights *l = &f->m->layers[layer];

    bias_and_norm_qkv(f, layer, n);
    if (!f->lane)
        rope_store_attend(f, f, layer, 0, n, pos0);
    for (int64_t t = 0; f->lane && t < n; t++)
        rope_store_attend(f, f->lane[t].f, layer, t, 1, f->lane[t].pos);
    if (f->m->hp.arch->attn_gate)
        backend_sigmoid_mul(f->be, f->act->x, f->up, f->act->x, n * l->o.cols);
    if (l->attn_sub_norm)
        norm(f, f->act->x, l->attn_sub_norm, n, l->o.cols);
    act_changed(f->act, n, l->o.cols);
}

void forward_attn_output(struct forward *f, int64_t layer, int64_t n)
{
    const struct layer_weights *l = &f->m->layers[layer];

    if (l->attn_post_norm)
        norm(f, f->gate, l->attn_post_norm, n, f->m->hp.d);
    backend_add(f->be, f->x, f->gate, n * f->m->hp.d);
}

void forward_split_queries(struct forward *f, int64_t n)
{
    const struct hparams *hp = &f->m->hp;

    backend_split(f->be, f->q, f->up, f->gate, n * hp->n_heads, hp->head_dim);
}

/* A gated query's gates go to f->up. */
static void attention_block(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];
    const struct weight *qkv[] = {&l->q, &l->k, &l->v};
    float *const out[] = {hp->arch->attn_gate ? f->gate : f->q, f->k, f->v};

    forward_attn_input(f, layer, n);
    backend_matmul_n(f->be, out, qkv, 3, f->act);
    if (hp->arch->attn_gate)
        forward_split_queries(f, n);
    forward_attn_heads(f, layer, n, pos0);
    backend_matmul(f->be, f->gate, &l->o, f->act);
    forward_attn_output(f, layer, n);
}

/* Tokens [begin, begin + n) of the batch through convolution and recurrence of the
 * sequence `of`. */
static void recur(struct forward *f, struct forward *of, int64_t layer, int64_t begin,
                  int64_t n)
{
    const struct hparams *hp = &f->m->hp;
    const struct delta_weights *w = f->m->layers[layer].delta;
    struct recurrent_view s = recurrent_view(&of->rec, 0, layer);
    const struct delta_args args = {hp->k_heads, hp->v_heads, hp->k_dim, hp->v_dim,
                                    hp->norm_eps};
    const int64_t h = hp->v_heads, u = w->qkv.rows;

    backend_conv(f->be, f->up + begin * u, f->gate + begin * u, s.conv, w->conv, n, u,
                 hp->conv_taps);
    backend_delta(f->be, f->act->x + begin * w->out.cols, f->up + begin * u,
                  f->k + begin * h, f->v + begin * h, s.state, n, &args);
}

static void keep_state(struct forward *f, int64_t layer)
{
    struct recurrent_view from = recurrent_view(&f->rec, 0, layer);
    struct recurrent_view to = recurrent_view(&f->rec, f->mark_copy, layer);

    memcpy(to.conv, from.conv, (size_t)from.n_floats * sizeof(float));
}

void forward_delta_reset(struct forward *f, int64_t layer)
{
    struct recurrent_view v = recurrent_view(&f->rec, 0, layer);

    memset(v.conv, 0, (size_t)v.n_floats * sizeof(float));
}

void forward_delta_heads(struct forward *f, int64_t layer, int64_t n)
{
    const struct hparams *hp = &f->m->hp;
    const struct delta_weights *w = f->m->layers[layer].delta;
    const int64_t first = f->mark_copy ? f->mark_n : 0;

    backend_delta_gates(f->be, f->k, f->v, w->rate, w->bias, n, hp->v_heads);
    if (first > 0) {
        recur(f, f, layer, 0, first);
        keep_state(f, layer);
    }
    if (first < n && !f->lane)
        recur(f, f, layer, first, n - first);
    for (int64_t t = 0; f->lane && t < n; t++)
        recur(f, f->lane[t].f, layer, t, 1);
    norm(f, f->act->x, w->norm, n * hp->v_heads, hp->v_dim);
    backend_glu(f->be, GLU_SILU, f->act->x, f->q, f->act->x, n * w->out.cols);
    act_changed(f->act, n, w->out.cols);
}

static void delta_block(struct forward *f, int64_t layer, int64_t n)
{
    const struct delta_weights *w = f->m->layers[layer].delta;
    const struct weight *in[] = {&w->qkv, &w->z, &w->alpha, &w->beta};
    float *const out[] = {f->gate, f->q, f->k, f->v};

    forward_attn_input(f, layer, n);
    backend_matmul_n(f->be, out, in, 4, f->act);
    forward_delta_heads(f, layer, n);
    backend_matmul(f->be, f->gate, &w->out, f->act);
    forward_attn_output(f, layer, n);
}

void forward_ffn_input(struct forward *f, int64_t layer, int64_t n)
{
    const struct hparams *hp = &f->m->hp;

    backend_rmsnorm(f->be, f->act->x, f->x, f->m->layers[layer].ffn_norm, n, hp->d,
                    hp->norm_eps);
    act_changed(f->act, n, hp->d);
}

void forward_ffn_hidden(struct forward *f, int64_t layer, int64_t n)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];
    const int64_t hidden = hparams_f(hp, layer);

    backend_glu(f->be, hp->arch->glu, f->act->x, f->gate, f->up, n * hidden);
    if (l->ffn_sub_norm)
        norm(f, f->act->x, l->ffn_sub_norm, n, hidden);
    act_changed(f->act, n, hidden);
}

void forward_ffn_output(struct forward *f, int64_t layer, int64_t n)
{
    const struct layer_weights *l = &f->m->layers[layer];

    if (l->ffn_post_norm)
        norm(f, f->gate, l->ffn_post_norm, n, f->m->hp.d);
    backend_add(f->be, f->x, f->gate, n * f->m->hp.d);
}

static void ffn_block(struct forward *f, int64_t layer, int64_t n)
{
    const struct layer_weights *l = &f->m->layers[layer];
    const struct weight *gate_up[] = {&l->gate, &l->up};
    float *const out[] = {f->gate, f->up};

    forward_ffn_input(f, layer, n);
    backend_matmul_n(f->be, out, gate_up, 2, f->act);
    forward_ffn_hidden(f, layer, n);
    backend_matmul(f->be, f->gate, &l->down, f->act);
    forward_ffn_output(f, layer, n);
}

/* Whether to stop before a layer. A lone token of a recurrent model runs to its end: to
 * lose its state costs more than to wait. */
static bool stops(const struct forward *f, int64_t layer, int64_t n,
                  const atomic_int *cancel)
{
    if (recurrent_used(&f->rec) && n == 1 && layer > 0)
        return false;
    return atomic_load_explicit(cancel, memory_order_relaxed) != 0;
}

void forward_layer(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    if (f->m->layers[layer].delta) {
        if (!f->lane)
            f->rec.pos = -1; /* until all layers are through */
        delta_block(f, layer, n);
    } else {
        attention_block(f, layer, n, pos0);
    }
    ffn_block(f, layer, n);
}

void forward_embed(struct forward *f, const int32_t *ids, int64_t n)
{
    backend_embed(f->be, f->x, &f->m->embd, ids, n);
    if (f->m->hp.embd_scale != 1.0f)
        backend_scale(f->be, f->x, n * f->m->hp.d, f->m->hp.embd_scale);
}

bool forward_together(struct forward *f, const struct forward_lane *lane,
                      const int32_t *ids, int64_t n, const atomic_int *cancel)
{
    bool done = true;

    for (int64_t t = 0; t < n; t++) {
        struct forward *of = lane[t].f;
        assert(of->m == f->m && of->be == f->be);
        assert(!recurrent_used(&of->rec) || of->rec.pos == lane[t].pos);
        cache_wrote(&of->cache, lane[t].pos + 1);
    }
    f->lane = lane;
    f->mark_copy = 0;
    forward_embed(f, ids, n);
    for (int64_t i = 0; i < f->m->hp.n_layers && done; i++) {
        done = !stops(f, i, 1, cancel); /* a lost state would cost each of them */
        if (done)
            forward_layer(f, i, n, 0);
    }
    f->lane = NULL;
    for (int64_t t = 0; t < n && done; t++) {
        struct recurrent *rec = &lane[t].f->rec;
        if (recurrent_used(rec)) {
            rec->pos = lane[t].pos + 1;
            recurrent_save_spaced(rec);
        }
    }
    return done;
}

bool forward_layers(struct forward *f, const int32_t *ids, int64_t n, int64_t pos0,
                    const atomic_int *cancel)
{
    const int copy = f->mark_copy;
    bool done = true;

    assert(!recurrent_used(&f->rec) || f->rec.pos == pos0);
    cache_wrote(&f->cache, pos0 + n); /* now: a cancelled pass has written some of it */
    forward_embed(f, ids, n);
    for (int64_t i = 0; i < f->m->hp.n_layers && done; i++) {
        done = !stops(f, i, n, cancel);
        if (done)
            forward_layer(f, i, n, pos0);
    }
    f->mark_copy = 0;
    if (!done || !recurrent_used(&f->rec))
        return done;
    f->rec.pos = pos0 + n;
    if (copy)
        recurrent_commit_mark(&f->rec, copy, pos0 + f->mark_n);
    recurrent_save_spaced(&f->rec);
    return true;
}

void forward_fill(struct forward *f, int64_t n, int64_t pos0, uint64_t seed)
{
    const struct hparams *hp = &f->m->hp;
    struct rng rng = rng_make(seed + (uint64_t)pos0);

    for (int64_t i = 0; i < n * hp->n_kv_heads * hp->head_dim; i++) {
        f->k[i] = (float)(2.0 * rng_f64(&rng) - 1.0);
        f->v[i] = (float)(2.0 * rng_f64(&rng) - 1.0);
    }
    cache_wrote(&f->cache, pos0 + n);
    for (int64_t i = 0; i < hp->n_layers; i++) {
        struct cache_layer *c = &f->cache.layer[i];
        if (c->kind != CACHE_NONE)
            backend_kv_store(f->be, &c->kv, f->k, f->v, n, hp->n_kv_heads, hp->head_dim,
                             pos0);
    }
    if (!recurrent_used(&f->rec))
        return;
    recurrent_save_mark(&f->rec, true);
    f->rec.pos = pos0 + n;
    recurrent_save_spaced(&f->rec);
}

void forward_head(struct forward *f, int64_t n, int64_t n_last, float *logits)
{
    const struct hparams *hp = &f->m->hp;

    backend_rmsnorm(f->be, f->act->x, f->x + (n - n_last) * hp->d, f->m->out_norm,
                    n_last, hp->d, hp->norm_eps);
    act_changed(f->act, n_last, hp->d);
    backend_matmul(f->be, logits, &f->m->head, f->act);
    if (hp->final_softcap > 0.0f)
        backend_softcap(f->be, logits, n_last * hp->vocab, hp->final_softcap);
}
