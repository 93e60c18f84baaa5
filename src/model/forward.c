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

static void attention_block(struct forward *f, int64_t layer, int64_t n, int64_t pos0)
{
    const struct hparams *hp = &f->m->hp;
    const struct layer_weights *l = &f->m->layers[layer];
    const struct weight *qkv[] = {&l->q, &l->k, &l->v};
    float *const out[] = {f->q, f->k, f->v};
    const struct rope_args rope = {
        .kind = ROPE_NORM,
        .head_dim = hp->head_dim,
        .n_rot = hp->n_rot,
        .freq = f->m->rope_freq,
        .mscale = f->m->rope_mscale,
    };
    const struct attn_args attn = {
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .pos0 = pos0,
        .window = hp->window,
        .scale = hp->attn_scale,
    };

    backend_rmsnorm(f->be, f->act->x, f->x, l->attn_norm, n, hp->d, hp->norm_eps);
    act_changed(f->act, n, hp->d);
    backend_matmul_n(f->be, out, qkv, 3, f->act);
    backend_rope(f->be, f->q, n, hp->n_heads, pos0, &rope);
    backend_rope(f->be, f->k, n, hp->n_kv_heads, pos0, &rope);
    backend_kv_store(f->be, &f->kv[layer], f->k, f->v, n, hp->n_kv_heads, hp->head_dim,
                     pos0);
    backend_attention(f->be, f->act->x, f->q, &f->kv[layer], n, &attn);
    act_changed(f->act, n, hp->n_heads * hp->head_dim);
    backend_matmul(f->be, f->gate, &l->o, f->act);
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
    backend_silu_mul(f->be, f->act->x, f->gate, f->up, n * hp->f);
    act_changed(f->act, n, hp->f);
    backend_matmul(f->be, f->gate, &l->down, f->act);
    backend_add(f->be, f->x, f->gate, n * hp->d);
}

bool forward_layers(struct forward *f, const int32_t *ids, int64_t n, int64_t pos0,
                    const atomic_int *cancel)
{
    backend_embed(f->be, f->x, &f->m->embd, ids, n);
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
}
