/*
 * plan.c - adds up the bytes of a session.
 */
#include "model/plan.h"

#include "model/forward.h"

/* Measured: a process without a model has 5 MB; keys and tensor tables are mapped and
 * copied once; a token takes 60 to 190 bytes of tables. */
enum { PROGRAM_BYTES = 6000000, TOKEN_BYTES = 120 };

static uint64_t program_bytes(const struct model *m)
{
    uint64_t header = modelfile_bytes(m->mf);

    for (int64_t i = 0; i < modelfile_n_tensors(m->mf); i++) {
        uint64_t n = modelfile_tensor(m->mf, i)->n_bytes;
        header -= n < header ? n : header;
    }
    return PROGRAM_BYTES + 2 * header + TOKEN_BYTES * (uint64_t)m->hp.vocab;
}

static void add_caches(struct plan *out, const struct hparams *hp,
                       const struct cache_params *p)
{
    for (int64_t i = 0; i < hp->n_layers; i++) {
        enum cache_kind kind = cache_layer_of(hp, p, i).kind;
        uint64_t n = cache_layer_bytes(hp, p, i);
        out->n_kind_layers[kind]++;
        out->kv_kind_bytes[kind] += n;
        out->kv_bytes += n;
    }
}

enum b2_status plan_make(struct plan *out, const struct model *m,
                         const struct backend *be, const struct cache_params *p,
                         struct b2_err *err)
{
    if (p->ctx < 1 || p->batch < 1 || p->batch > p->ctx)
        return err_set(err, B2_EARG,
                       "context %lld and batch %lld: both must be positive, the batch "
                       "not above the context",
                       (long long)p->ctx, (long long)p->batch);
    const struct attn_limits limits = {m->hp.n_heads, m->hp.head_dim,
                                       cache_max_visible(&m->hp, p)};
    struct plan r = {
        .weights_bytes = m->weights_bytes - m->table_bytes,
        .table_bytes = m->table_bytes,
        .state_bytes = recurrent_bytes(&m->hp, p->saved),
        .program_bytes = program_bytes(m),
    };

    add_caches(&r, &m->hp, p);
    r.slot_bytes = r.kv_bytes + r.state_bytes + forward_scratch_bytes(m, be, p) +
                   (uint64_t)m->hp.vocab * sizeof(float) + /* logits */
                   (uint64_t)p->ctx * sizeof(int32_t);     /* tokens held */
    r.scratch_bytes =
        r.slot_bytes - r.kv_bytes - r.state_bytes + backend_reserve_bytes(be, &limits);
    r.total_bytes = r.weights_bytes + r.kv_bytes + r.state_bytes + r.scratch_bytes;
    *out = r;
    return B2_OK;
}
