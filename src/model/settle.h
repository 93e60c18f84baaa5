/*
 * settle.h - what a session gets when its parameters leave it open, from a real fit.
 */
#ifndef MODEL_SETTLE_H
#define MODEL_SETTLE_H

#include "model/plan.h"
#include "model/session.h"

enum { SETTLE_CTX = 8192, SETTLE_MIN_CTX = 512, SETTLE_BATCH = 512 };

/* Fills in context, batch and type of cache. The memory that counts is p->mem_limit, or
 * else what the machine has free. A context that was asked for is kept: F16 if it fits,
 * else Q8_0 with a note. Without one it is at most SETTLE_CTX and what the model was
 * trained for, and halved, with a note, until it fits. In exact mode the cache stays F16.
 * Errors as session_new: over mem_limit is B2_ENOMEM with the numbers; more than what is
 * free is a warning, since pages are taken only as they are written. */
enum b2_status settle_params(struct cache_params *out, const struct model *m,
                             const struct backend *be, const struct session_params *p,
                             struct b2_err *err) NODISCARD;

/* The same without the last check: what would be used if there were room for it. */
enum b2_status settle_choose(struct cache_params *out, const struct model *m,
                             const struct backend *be, const struct session_params *p,
                             struct b2_err *err) NODISCARD;

/* The longest context that may be asked for. */
int64_t settle_max_ctx(const struct model *m, int64_t window);

/* What to do about a text of `need` positions that is longer than the context. */
struct settle_hint {
    char text[96];
};
void settle_way_out(struct settle_hint *out, const struct model *m, int64_t window,
                    int64_t need);

/* The bytes that a plan may take: limit, or what is free plus what the model's copies
 * already occupy; UINT64_MAX when neither is known. */
uint64_t settle_available(const struct model *m, uint64_t limit);

/* The longest context, at most most, whose plan takes no more than available; 0: not even
 * one of SETTLE_MIN_CTX (or most) does. p->ctx is not looked at. */
int64_t settle_longest(const struct model *m, const struct backend *be,
                       const struct cache_params *p, uint64_t available, int64_t most);

#endif
