/*
 * plan.c - adds up the bytes of a session.
 */
#include "model/plan.h"

#include "model/forward.h"

enum b2_status plan_make(struct plan *out, const struct model *m,
                         const struct backend *be, int64_t ctx, int64_t batch,
                         struct b2_err *err)
{
    if (ctx < 1 || batch < 1 || batch > ctx)
        return err_set(err, B2_EARG,
                       "context %lld and batch %lld: both must be positive, the batch "
                       "not above the context",
                       (long long)ctx, (long long)batch);
    struct plan p = {
        .weights_bytes = m->weights_bytes,
        .kv_bytes = forward_kv_bytes(m, ctx),
        .state_bytes =
            recurrent_bytes(&m->hp, recurrent_default_saved(&m->hp, m->weights_bytes)),
        .scratch_bytes = forward_scratch_bytes(m, be, batch) +
                         backend_reserve_bytes(be, batch, m->hp.n_heads, ctx) +
                         (uint64_t)m->hp.vocab * sizeof(float) + /* logits */
                         (uint64_t)ctx * sizeof(int32_t),        /* tokens held */
    };
    p.total_bytes = p.weights_bytes + p.kv_bytes + p.state_bytes + p.scratch_bytes;
    *out = p;
    return B2_OK;
}
