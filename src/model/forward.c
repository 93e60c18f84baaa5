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

static uint64_t float_bytes(const struct model *m, int64_t batch)
{
    struct widths w = widths_of(&m->hp);

    return (uint64_t)(w.x + w.q + 2 * w.kv + w.gate + w.up) * (uint64_t)batch *
           sizeof(float);
}

uint64_t forward_scratch_bytes(const struct model *m, const struct backend *be,
                               int64_t batch)
{
    return float_bytes(m, batch) + backend_act_bytes(be, batch, act_width(&m->hp)) +
           (uint64_t)m->hp.n_layers * sizeof(struct kv_layer);
}

uint64_t forward_kv_bytes(const struct model *m, int64_t cap)
{
    const struct hparams *hp = &m->hp;

    return (uint64_t)(2 * hp->n_layers * hp->n_kv_heads * hp->head_dim) *
           (uint64_t)cap * sizeof(uint16_t);
}

/* Cuts the cache and the buffers out of one allocation each. Fresh pages cost nothing
 * until a position is written, so a long context is cheap while it is empty. */
static void cut_buffers(struct forward *f)
{
    const struct hparams *hp = &f->m->hp;
    struct widths w = widths_of(hp);
    size_t layer = (size_t)(hp->n_kv_heads * hp->head_dim) * (size_t)f->cap;
    uint16_t *cache = f->cache;
    float *p = f->floats;

    for (int64_t i = 0; i < hp->n_layers; i++, cache += 2 * layer)
        f->kv[i] = (struct kv_layer){.k = cache, .v = cache + layer, .cap = f->cap};
    f->x = p;
    f->q = f->x + w.x * f->batch;
    f->k = f->q + w.q * f->batch;
    f->v = f->k + w.kv * f->batch;
    f->gate = f->v + w.kv * f->batch;
    f->up = f->gate + w.gate * f->batch;
}

enum b2_status forward_init(struct forward *f, const struct model *m,
                            struct backend *be, int64_t batch, int64_t cap,
                            struct b2_err *err)
{
    enum b2_status rc;

    *f = (struct forward){.m = m, .be = be, .batch = batch, .cap = cap};
    f->kv = mem_calloc((size_t)m->hp.n_layers, sizeof *f->kv);
    f->floats = mem_aligned(64, (size_t)float_bytes(m, batch), 1);
    f->cache = mem_aligned(64, (size_t)forward_kv_bytes(m, cap), 1);
    if (!f->kv || !f->floats || !f->cache) {
        rc = err_set(err, B2_ENOMEM,
                     "out of memory for a context of %lld and a batch of %lld: a "
                     "smaller --ctx or --batch needs less",
                     (long long)cap, (long long)batch);
        goto fail;
    }
    cut_buffers(f);
    rc = act_new(&f->act, be, batch, act_width(&m->hp), err);
    if (rc == B2_OK)
        rc = backend_reserve(be, batch, m->hp.n_heads, cap, err);
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
    mem_free(f->kv);
    mem_free(f->floats);
    mem_free(f->cache);
    *f = (struct forward){0};
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

static void attention_block(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];
    const struct weight *qkv[] = {&l->q, &l->k, &l->v};
    float *const out[] = {f->q, f->k, f->v};
    const bool slides = hparams_slides(hp, layer);
    const struct rope_table *table = slides ? &f->m->rope_local : &f->m->rope;
    const struct rope_args rope = {
        .kind = hp->arch->rope,
        .head_dim = hp->head_dim,
        .n_rot = hp->n_rot,
        .freq = table->freq,
        .mscale = table->mscale,
    };
    const struct attn_args attn = {
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .pos0 = pos0,
        .window = slides ? hp->window : 0,
        .scale = hp->attn_scale,
    };

    backend_rmsnorm(f->be, f->act->x, f->x, l->attn_norm, n, hp->d, hp->norm_eps);
    act_changed(f->act, n, hp->d);
    backend_matmul_n(f->be, out, qkv, 3, f->act);
    bias_and_norm_qkv(f, l, n);
    backend_rope(f->be, f->q, n, hp->n_heads, pos0, &rope);
    backend_rope(f->be, f->k, n, hp->n_kv_heads, pos0, &rope);
    backend_kv_store(f->be, &f->kv[layer], f->k, f->v, n, hp->n_kv_heads, hp->head_dim,
                     pos0);
    backend_attention(f->be, f->act->x, f->q, &f->kv[layer], n, &attn);
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
