/*
 * settle.c - context and type of cache, by what memory has room for.
 */
#include "model/settle.h"

#include "base/log.h"
#include "base/memory.h"
#include "model/recurrent.h"

#include <stdio.h>

enum { MAX_CTX = INT32_MAX / 4 };

int64_t settle_max_ctx(const struct model *m, int64_t window)
{
    return window > 0 ? MAX_CTX : m->hp.ctx_train;
}

void settle_way_out(struct settle_hint *out, const struct model *m, int64_t window,
                    int64_t need)
{
    const int64_t most = settle_max_ctx(m, window);

    (void)snprintf(out->text, sizeof out->text,
                   need <= most ? "a larger --ctx is possible up to %lld"
                                : "the model was trained for %lld; --window N goes on "
                                  "past it",
                   (long long)most);
}

uint64_t settle_available(const struct model *m, uint64_t limit)
{
    uint64_t n = limit ? limit : memory_available(NULL, 0);

    if (n == 0)
        return UINT64_MAX;
    return limit ? n : n + m->copy_bytes;
}

/* The plan's bytes; UINT64_MAX: these params are not possible. */
static uint64_t bytes_of(const struct model *m, const struct backend *be,
                         const struct cache_params *p, int64_t ctx, enum dtype type)
{
    struct cache_params q = *p;
    struct plan plan = {0};

    q.ctx = ctx;
    q.type = type;
    q.batch = min_i64(p->batch, ctx);
    if (cache_check(&m->hp, &q, NULL) || plan_make(&plan, m, be, &q, NULL))
        return UINT64_MAX;
    return plan.total_bytes;
}

int64_t settle_longest(const struct model *m, const struct backend *be,
                       const struct cache_params *p, uint64_t available, int64_t most)
{
    int64_t lo = min_i64(SETTLE_MIN_CTX, most), hi = most;

    if (bytes_of(m, be, p, lo, p->type) > available)
        return 0;
    while (lo < hi) { /* the bytes never fall as the context grows */
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (bytes_of(m, be, p, mid, p->type) <= available)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static double mb(uint64_t n)
{
    return (double)n * 1e-6;
}

/* The cache for p->ctx when the caller leaves it open. */
static void choose_type(struct cache_params *p, const struct model *m,
                        const struct backend *be, uint64_t available,
                        const struct log *log)
{
    uint64_t f16 = bytes_of(m, be, p, p->ctx, DT_F16);
    uint64_t q8 = bytes_of(m, be, p, p->ctx, DT_Q8_0);

    p->type = DT_F16;
    if (f16 <= available || q8 >= f16 || backend_is_exact(be))
        return;
    p->type = DT_Q8_0;
    log_line(
        log, LOG_INFO,
        "the cache is kept in 8 bits (Q8_0): with F16 a context of %lld needs %.0f "
        "MB in all, %.0f MB are there; --cache f16 insists",
        (long long)p->ctx, mb(f16), mb(available));
}

/* A context that fits, when none was asked for. */
static void choose_ctx(struct cache_params *p, const struct model *m,
                       const struct backend *be, const struct session_params *asked,
                       uint64_t available)
{
    int64_t want = min_i64(m->hp.ctx_train, SETTLE_CTX), least = SETTLE_MIN_CTX;
    bool may_q8 = asked->cache == 0 && !backend_is_exact(be);
    enum dtype type = asked->cache ? asked->cache : may_q8 ? DT_Q8_0 : DT_F16;

    if (may_q8 && bytes_of(m, be, p, want, DT_Q8_0) == UINT64_MAX)
        type = DT_F16; /* heads that the blocks do not fit */
    p->ctx = want;
    while (p->ctx > least && bytes_of(m, be, p, p->ctx, type) > available)
        p->ctx = max_i64(p->ctx / 2, least);
    if (p->ctx < want)
        log_line(asked->log, LOG_INFO,
                 "the context is %lld, not %lld: %.0f MB are there; --ctx insists",
                 (long long)p->ctx, (long long)want, mb(available));
}

/* How many checkpoints of a recurrent state: what was asked for, or as many as are worth
 * it and leave room for the rest. */
static int choose_saved(const struct cache_params *p, const struct model *m,
                        const struct backend *be, const struct session_params *asked,
                        uint64_t available)
{
    int64_t ctx = p->ctx ? p->ctx : min_i64(m->hp.ctx_train, SETTLE_MIN_CTX);
    struct cache_params q = *p;

    if (asked->checkpoints < 0)
        return 0;
    if (asked->checkpoints > 0)
        return asked->checkpoints < RECURRENT_MAX_SAVED ? asked->checkpoints
                                                        : RECURRENT_MAX_SAVED;
    q.saved = recurrent_default_saved(&m->hp, m->weights_bytes);
    while (q.saved > 0 && bytes_of(m, be, &q, ctx, p->type) > available)
        q.saved--;
    return q.saved;
}

/* Compares the planned bytes with the caller's limit, or with what is free. */
static enum b2_status check_limit(const struct cache_params *p, const struct model *m,
                                  const struct backend *be,
                                  const struct session_params *asked,
                                  uint64_t available, struct b2_err *err)
{
    struct plan plan = {0};
    enum b2_status rc = plan_make(&plan, m, be, p, err);

    if (rc || plan.total_bytes <= available)
        return rc;
    if (asked->mem_limit)
        return err_set(err, B2_ENOMEM,
                       "a context of %lld needs %llu bytes (weights %llu, %s cache "
                       "%llu, state %llu, "
                       "scratch %llu), over the limit of %llu: a smaller --ctx or "
                       "--batch, or --cache "
                       "q8_0 or q4_0, needs less",
                       (long long)p->ctx, (unsigned long long)plan.total_bytes,
                       (unsigned long long)plan.weights_bytes,
                       dtype_info(p->type)->name, (unsigned long long)plan.kv_bytes,
                       (unsigned long long)plan.state_bytes,
                       (unsigned long long)plan.scratch_bytes,
                       (unsigned long long)asked->mem_limit);
    log_line(
        asked->log, LOG_WARN,
        "a context of %lld will need %.0f MB once it is full, but only %.0f MB are "
        "free",
        (long long)p->ctx, mb(plan.total_bytes), mb(available));
    return B2_OK;
}

enum b2_status settle_choose(struct cache_params *out, const struct model *m,
                             const struct backend *be, const struct session_params *p,
                             struct b2_err *err)
{
    struct cache_params c = {
        .type = p->cache ? p->cache : DT_F16,
        .ctx = p->ctx,
        .batch = p->batch ? p->batch : SETTLE_BATCH,
        .window = p->window,
        .sinks = p->sinks < 0    ? 0
                 : p->sinks == 0 ? CACHE_SINKS
                                 : p->sinks,
    };
    int64_t max_ctx = settle_max_ctx(m, p->window);
    uint64_t available = settle_available(m, p->mem_limit);

    if (p->ctx < 0 || p->ctx > max_ctx)
        return err_set(
            err, B2_EARG,
            "context %lld is not in 1..%lld, what the model was trained for; "
            "--window N goes on past it",
            (long long)p->ctx, (long long)max_ctx);
    if (p->batch < 0)
        return err_set(err, B2_EARG, "batch %lld is negative", (long long)p->batch);
    enum b2_status rc = cache_check(&m->hp, &c, err);
    if (rc)
        return rc;
    c.saved = choose_saved(&c, m, be, p, available);
    if (c.ctx == 0)
        choose_ctx(&c, m, be, p, available);
    c.batch = min_i64(c.batch, c.ctx);
    if (p->cache == 0)
        choose_type(&c, m, be, available, p->log);
    *out = c;
    return B2_OK;
}

enum b2_status settle_params(struct cache_params *out, const struct model *m,
                             const struct backend *be, const struct session_params *p,
                             struct b2_err *err)
{
    struct cache_params c = {0};
    enum b2_status rc = settle_choose(&c, m, be, p, err);

    if (rc == B2_OK)
        rc = check_limit(&c, m, be, p, settle_available(m, p->mem_limit), err);
    if (rc == B2_OK)
        *out = c;
    return rc;
}
