/*
 * forward.c - one pass over a batch of tokens.
 */
#include "model/forward.h"

#include "base/mem.h"

#include <string.h>

/* The widest input of a matmul. */
static int64_t act_width(const struct hparams *hp)
{
    return max_i64(max_i64(hp->d, hp->f), hp->n_heads * hp->head_dim);
}

/* Floats per token of the buffers below, in the order in which they are cut. */
struct widths {
    int64_t x, q, kv, gate, up;
};

static struct widths widths_of(const struct hparams *hp)
{
    return (struct widths){
        .x = hp->d,
        .q = hp->n_heads * hp->head_dim,
        .kv = hp->n_kv_heads * hp->head_dim,
        .gate = max_i64(hp->f, hp->d),
        .up = hp->f,
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
    cache_free(&f->cache);
    mem_free(f->floats);
    *f = (struct forward){0};
}

int64_t forward_rewind(struct forward *f, int64_t pos)
{
    return cache_rewind(&f->cache, pos);
}

/* In place. */
static void norm(struct forward *f, float *x, const float *gain, int64_t n_rows,
                 int64_t d)
{
    backend_rmsnorm(f->be, x, x, gain, n_rows, d, f->m->hp.norm_eps);
}

static void bias_and_norm_qkv(struct forward *f, const struct layer_weights *l,
                              int64_t n)
{
    const struct hparams *hp = &f->m->hp;

    if (hp->arch->qkv_bias) {
        backend_add_bias(f->be, f->q, l->q_bias, n, l->q.rows);
        backend_add_bias(f->be, f->k, l->k_bias, n, l->k.rows);
        backend_add_bias(f->be, f->v, l->v_bias, n, l->v.rows);
    }
    if (hp->arch->qk_norm) {
        norm(f, f->q, l->q_norm, n * hp->n_heads, hp->head_dim);
        norm(f, f->k, l->k_norm, n * hp->n_kv_heads, hp->head_dim);
    }
}

/* Turns queries and keys, stores keys and values, attends into act. A token far from the
 * sinks sees them through a query that stands right behind its window's length, as if
 * nothing lay between (StreamingLLM counts positions inside the cache): no distance ever
 * passes what the model was trained for. */
static void rope_store_attend(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    const struct hparams *hp = &f->m->hp;
    struct cache_layer *c = &f->cache.layer[layer];
    const struct rope_table *table =
        hparams_slides(hp, layer) ? &f->m->rope_local : &f->m->rope;
    struct rope_args rope = {
        .kind = hp->arch->rope,
        .head_dim = hp->head_dim,
        .n_rot = hp->n_rot,
        .freq = table->freq,
        .mscale = table->mscale,
    };
    struct attn_args attn = {
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .pos0 = pos0,
        .window = c->window,
        .sinks = c->sinks,
        .scale = hp->attn_scale,
    };

    if (c->sinks > 0 && pos0 + n > c->window + c->sinks) {
        memcpy(f->q_sinks, f->q,
               (size_t)(n * hp->n_heads * hp->head_dim) * sizeof *f->q);
        rope.max_pos = c->window + c->sinks - 1;
        backend_rope(f->be, f->q_sinks, n, hp->n_heads, pos0, &rope);
        rope.max_pos = 0;
        attn.q_sinks = f->q_sinks;
    }
    backend_rope(f->be, f->q, n, hp->n_heads, pos0, &rope);
    backend_rope(f->be, f->k, n, hp->n_kv_heads, pos0, &rope);
    backend_kv_store(f->be, &c->kv, f->k, f->v, n, hp->n_kv_heads, hp->head_dim, pos0);
    backend_attention(f->be, f->act->x, f->q, &c->kv, n, &attn);
}

static void attention_block(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];
    const struct weight *qkv[] = {&l->q, &l->k, &l->v};
    float *const out[] = {f->q, f->k, f->v};

    backend_rmsnorm(f->be, f->act->x, f->x, l->attn_norm, n, hp->d, hp->norm_eps);
    act_changed(f->act, n, hp->d);
    backend_matmul_n(f->be, out, qkv, 3, f->act);
    bias_and_norm_qkv(f, l, n);
    rope_store_attend(f, layer, n, pos0);
    if (l->attn_sub_norm)
        norm(f, f->act->x, l->attn_sub_norm, n, l->o.cols);
    act_changed(f->act, n, l->o.cols);
    backend_matmul(f->be, f->gate, &l->o, f->act);
    if (l->attn_post_norm)
        norm(f, f->gate, l->attn_post_norm, n, hp->d);
    backend_add(f->be, f->x, f->gate, n * hp->d);
}

static void ffn_block(struct forward *f, int64_t layer, int64_t n)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];
    const struct weight *gate_up[] = {&l->gate, &l->up};
    float *const out[] = {f->gate, f->up};

    backend_rmsnorm(f->be, f->act->x, f->x, l->ffn_norm, n, hp->d, hp->norm_eps);
    act_changed(f->act, n, hp->d);
    backend_matmul_n(f->be, out, gate_up, 2, f->act);
    backend_glu(f->be, hp->arch->glu, f->act->x, f->gate, f->up, n * hp->f);
    if (l->ffn_sub_norm)
        norm(f, f->act->x, l->ffn_sub_norm, n, hp->f);
    act_changed(f->act, n, hp->f);
    backend_matmul(f->be, f->gate, &l->down, f->act);
    if (l->ffn_post_norm)
        norm(f, f->gate, l->ffn_post_norm, n, hp->d);
    backend_add(f->be, f->x, f->gate, n * hp->d);
}

bool forward_layers(struct forward *f, const int32_t *ids, int64_t n, int64_t pos0,
                    const atomic_int *cancel)
{
    cache_wrote(&f->cache, pos0 + n); /* now: a cancelled pass has written some of it */
    backend_embed(f->be, f->x, &f->m->embd, ids, n);
    if (f->m->hp.embd_scale != 1.0f)
        backend_scale(f->be, f->x, n * f->m->hp.d, f->m->hp.embd_scale);
    for (int64_t i = 0; i < f->m->hp.n_layers; i++) {
        if (atomic_load_explicit(cancel, memory_order_relaxed))
            return false;
        attention_block(f, i, n, pos0);
        ffn_block(f, i, n);
    }
    return true;
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
