/*
 * forward.h - the layers, written straight down.
 *
 *   x = embed(ids) [* sqrt(D)]
 *   per layer:  h = rmsnorm(x);  q, k, v = Wq h [+ b], Wk h [+ b], Wv h [+ b]
 *               [q, k = rmsnorm per head];  rope(q), rope(k);  cache k, v
 *               a = attention(q, cache) [sub-norm];  x += [post-norm] Wo a
 *               h = rmsnorm(x);  a = f(Wgate h) * Wup h [sub-norm]
 *               x += [post-norm] Wdown a
 *   logits = [softcap] Whead rmsnorm(x)
 *
 * What stands in brackets depends on the architecture (arch.h).
 */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/cache.h"

#include <stdatomic.h>

/* Everything a pass writes to. Made before decoding; a pass allocates nothing. */
struct forward {
    const struct model *m;
    struct backend *be;
    struct cache_params params;
    struct cache cache;
    struct act *act;  /* input of the next matmul */
    float *x;         /* [batch, D] residual stream */
    float *q, *k, *v; /* [batch, H or K, head_dim] */
    float *q_sinks;   /* [batch, H, head_dim]; NULL: no layer needs it */
    float *gate, *up; /* [batch, F]; gate also holds [batch, D] */
    void *floats;
};

/* Bytes of forward_init's own buffers without the caches. */
uint64_t forward_scratch_bytes(const struct model *m, const struct backend *be,
                               const struct cache_params *p);

/* Allocates for checked params, batch <= ctx. On failure everything is freed again.
 * B2_ENOMEM. */
enum b2_status forward_init(struct forward *f, const struct model *m,
                            struct backend *be, const struct cache_params *p,
                            struct b2_err *err) NODISCARD;
void forward_free(struct forward *f); /* zeroed is fine */

/* Forgets positions from pos on. Returns the position to go on from: pos, or an earlier one
 * when what the layers remember does not allow that (model/cache.h). */
int64_t forward_rewind(struct forward *f, int64_t pos);

/* Runs n <= batch tokens at positions pos0.. through the layers; pos0 + n <= ctx, ids in
 * range. Stops with false before a layer when *cancel is set; the cache then holds
 * nothing certain from pos0 on. */
bool forward_layers(struct forward *f, const int32_t *ids, int64_t n, int64_t pos0,
                    const atomic_int *cancel);

/* Logits [n_last, V] of the last n_last of the n tokens just run. */
void forward_head(struct forward *f, int64_t n, int64_t n_last, float *logits);

#endif
