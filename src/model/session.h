/*
 * session.h - one conversation with a model: its cache, its position, its logits.
 *
 * Same bits for any batch size, thread count and reuse of a warm prefix. Not
 * thread-safe; session_cancel alone may be called from a signal handler or thread.
 */
#ifndef MODEL_SESSION_H
#define MODEL_SESSION_H

#include "model/cache.h"

struct session;

struct session_params {
    int64_t ctx;        /* positions; 0: what fits (settle.h) */
    int64_t batch;      /* most tokens per forward pass; 0: 512; cut to ctx */
    uint64_t mem_limit; /* 0: none; else B2_ENOMEM with the plan when over it */
    enum dtype cache;   /* 0: F16, or Q8_0 when only that fits, with a note */
    int64_t window; /* layers that see all see the last `window` positions; 0: all. The
                     * context may then be longer than what the model was trained for */
    int64_t sinks;  /* and so many first ones; 0: CACHE_SINKS, -1: none */
    const struct log *log; /* borrowed; may be NULL */
    int checkpoints; /* of recurrent states; 0: a small part of the weights' bytes, fewer
                      * where memory is short; below 0: none */
};

/* m and be are borrowed; be is used only while a call on the session runs. p may be
 * NULL. B2_EARG: a context above the one trained for; B2_EUNSUP: a cache type that the
 * model's heads do not fit; B2_ENOMEM: over mem_limit, before anything is allocated, or
 * out of memory. */
enum b2_status session_new(struct session **out, const struct model *m,
                           struct backend *be, const struct session_params *p,
                           struct b2_err *err) NODISCARD;
void session_free(struct session *s); /* NULL is fine */

int64_t session_ctx(const struct session *s);
int64_t session_batch(const struct session *s); /* most tokens per session_eval */
const struct cache_params *session_cache(const struct session *s); /* as settled */
const struct model *session_model(const struct session *s); /* as given, borrowed */
int64_t session_pos(const struct session *s);               /* tokens in the cache */

/* Makes the cache hold exactly ids[0..n) by keeping the longest common prefix (at most n-1,
 * so that logits of the last position exist) and forwarding the rest. When the caches of
 * sliding layers no longer hold what that prefix needs, all is computed again and a note
 * says so; a model with recurrent layers keeps the part that a checkpoint covers. *n_reused may be NULL. B2_EARG: longer than the context, an id out of range, n == 0. B2_ECANCEL. */
enum b2_status session_sync(struct session *s, const int32_t *ids, int64_t n,
                            int64_t *n_reused, struct b2_err *err) NODISCARD;

/* Appends one token. B2_EARG when the context is full. */
enum b2_status session_step(struct session *s, int32_t id,
                            struct b2_err *err) NODISCARD;

/* [V] logits of the last position; valid until the next call that changes the session.
 * NULL when there is none: before the first token, after session_eval, session_rewind
 * or an error. */
const float *session_logits(const struct session *s);

/* Makes the cache hold exactly ids[0..n) without computing it: keys and values are random
 * (uniform in [-1, 1), from the seed), recurrent states stay zero. For measurements behind
 * long texts: every later token does the work, and every page is there, that the real
 * prompt would cause. There are no logits. Errors as session_sync without B2_ECANCEL. */
enum b2_status session_fill(struct session *s, const int32_t *ids, int64_t n,
                            uint64_t seed, struct b2_err *err) NODISCARD;

/* Appends 1 <= n <= batch tokens and gives logits of all of them: logits [n, V], caller's
 * buffer. For evaluation. Errors as session_sync. */
enum b2_status session_eval(struct session *s, const int32_t *ids, int64_t n,
                            float *logits, struct b2_err *err) NODISCARD;

enum { SESSIONS_MAX = 256 };

/* Appends ids[i] to s[i], n sessions of one model and backend, no two the same, and gives
 * the logits of each: logits [n, V], caller's buffer. Weights are read once for all of
 * them; the bits are those of n times session_step(). n is at most SESSIONS_MAX and the
 * batch of s[0]. session_cancel() of s[0] cancels; then none of them has moved. B2_EARG: an
 * id out of range, a full context, sessions that differ in more than their context. */
enum b2_status sessions_step(struct session *const *s, const int32_t *ids, int n,
                             float *logits, struct b2_err *err) NODISCARD;

/* Forgets positions >= pos. Returns how many tokens are left: pos, or fewer when a sliding
 * layer no longer holds what the token at pos would see, or a recurrent layer has no
 * checkpoint there (then the rest must run again). */
int64_t session_rewind(struct session *s, int64_t pos);
/* Makes the running call, or else the next one, return B2_ECANCEL soon; that call takes
 * the wish away. Positions it had finished stay in the cache. Async-signal-safe. */
void session_cancel(struct session *s);

#endif
