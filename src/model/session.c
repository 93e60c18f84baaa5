/*
 * session.c - what the cache holds, and how it gets there.
 */
#include "model/session.h"

#include "base/mem.h"
#include "model/forward.h"
#include "model/settle.h"

#include <string.h>

struct session {
    struct forward fwd;
    int32_t *ids; /* [ctx] tokens behind the cached positions */
    int64_t pos;  /* how many of them */
    float *logits;
    bool have_logits; /* logits belong to position pos - 1 */
    atomic_int cancel;
    const struct log *log;
};

enum b2_status session_new(struct session **out, const struct model *m,
                           struct backend *be, const struct session_params *params,
                           struct b2_err *err)
{
    struct session_params p = params ? *params : (struct session_params){0};
    struct cache_params cp = {0};
    struct session *s;
    enum b2_status rc = settle_params(&cp, m, be, &p, err);

    if (rc)
        return rc;
    s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_set(err, B2_ENOMEM, "out of memory");
    s->log = p.log;
    rc = forward_init(&s->fwd, m, be, &cp, err);
    if (rc)
        goto fail;
    s->ids = mem_calloc((size_t)cp.ctx, sizeof *s->ids);
    s->logits = mem_aligned(64, (size_t)m->hp.vocab, sizeof *s->logits);
    if (!s->ids || !s->logits) {
        rc = err_set(err, B2_ENOMEM, "out of memory");
        goto fail;
    }
    *out = s;
    return B2_OK;

fail:
    session_free(s);
    return rc;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    forward_free(&s->fwd);
    mem_free(s->ids);
    mem_free(s->logits);
    mem_free(s);
}

int64_t session_ctx(const struct session *s)
{
    return s->fwd.params.ctx;
}

int64_t session_batch(const struct session *s)
{
    return s->fwd.params.batch;
}

const struct cache_params *session_cache(const struct session *s)
{
    return &s->fwd.params;
}

const struct model *session_model(const struct session *s)
{
    return s->fwd.m;
}

int64_t session_pos(const struct session *s)
{
    return s->pos;
}

/* Checks what is about to be appended from position pos0 on. */
static enum b2_status check_ids(const struct session *s, const int32_t *ids, int64_t n,
                                int64_t pos0, struct b2_err *err)
{
    const int64_t vocab = s->fwd.m->hp.vocab, ctx = s->fwd.params.ctx;

    if (n < 1)
        return err_set(err, B2_EARG, "no tokens: the prompt is empty");
    if (n > ctx - pos0) {
        struct settle_hint hint;
        settle_way_out(&hint, s->fwd.m, s->fwd.params.window, pos0 + n);
        return err_set(err, B2_EARG,
                       "%lld tokens do not fit into the context of %lld (%lld are "
                       "there): %s",
                       (long long)n, (long long)ctx, (long long)pos0, hint.text);
    }
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return err_set(err, B2_EARG, "token %d at index %lld is not in 0..%lld",
                           ids[i], (long long)i, (long long)vocab - 1);
    return B2_OK;
}

/* Forwards n <= batch checked tokens; logits [n_last, V] of the last ones. */
static enum b2_status append(struct session *s, const int32_t *ids, int64_t n,
                             int64_t n_last, float *logits, struct b2_err *err)
{
    s->have_logits = false;
    if (!forward_layers(&s->fwd, ids, n, s->pos, &s->cancel)) {
        int64_t at = s->pos;
        atomic_store(&s->cancel, 0);
        s->pos = forward_rewind(&s->fwd, at);
        return err_set(err, B2_ECANCEL, "interrupted at token %lld", (long long)at);
    }
    if (n_last > 0)
        forward_head(&s->fwd, n, n_last, logits);
    memcpy(s->ids + s->pos, ids, (size_t)n * sizeof *ids);
    s->pos += n;
    s->have_logits = n_last > 0 && logits == s->logits;
    return B2_OK;
}

enum b2_status session_sync(struct session *s, const int32_t *ids, int64_t n,
                            int64_t *n_reused, struct b2_err *err)
{
    int64_t same = 0;
    enum b2_status rc = check_ids(s, ids, n, 0, err);

    if (rc)
        return rc;
    while (same < s->pos && same < n - 1 && s->ids[same] == ids[same])
        same++;
    if (session_rewind(s, same) < same && !recurrent_used(&s->fwd.rec))
        log_line(s->log, LOG_INFO,
                 "%lld tokens are the same as before, but the sliding layers hold only "
                 "the last ones: they are read again from token %lld on",
                 (long long)same, (long long)s->pos);
    if (n_reused)
        *n_reused = s->pos;
    while (s->pos < n && rc == B2_OK) {
        int64_t part = min_i64(n - s->pos, s->fwd.params.batch);
        bool last = s->pos + part == n;
        forward_mark(&s->fwd, s->pos, n - 1);
        rc = append(s, ids + s->pos, part, last ? 1 : 0, s->logits, err);
    }
    return rc;
}

enum b2_status session_fill(struct session *s, const int32_t *ids, int64_t n,
                            uint64_t seed, struct b2_err *err)
{
    enum b2_status rc = check_ids(s, ids, n, 0, err);

    if (rc)
        return rc;
    session_rewind(s, 0);
    while (s->pos < n) {
        int64_t part = min_i64(n - s->pos, s->fwd.params.batch);
        forward_fill(&s->fwd, part, s->pos, seed);
        s->pos += part;
    }
    memcpy(s->ids, ids, (size_t)n * sizeof *ids);
    s->have_logits = false;
    return B2_OK;
}

enum b2_status session_step(struct session *s, int32_t id, struct b2_err *err)
{
    enum b2_status rc = check_ids(s, &id, 1, s->pos, err);

    return rc ? rc : append(s, &id, 1, 1, s->logits, err);
}

const float *session_logits(const struct session *s)
{
    return s->have_logits ? s->logits : NULL;
}

enum b2_status session_eval(struct session *s, const int32_t *ids, int64_t n,
                            float *logits, struct b2_err *err)
{
    enum b2_status rc = check_ids(s, ids, n, s->pos, err);

    if (rc)
        return rc;
    if (n > s->fwd.params.batch)
        return err_set(err, B2_EARG, "%lld tokens at once, but the batch is %lld",
                       (long long)n, (long long)s->fwd.params.batch);
    return append(s, ids, n, n, logits, err);
}

/* Whether the sessions can share a pass, and the tokens can be appended. */
static enum b2_status check_together(struct session *const *s, const int32_t *ids,
                                     int n, struct b2_err *err)
{
    const struct cache_params *p = &s[0]->fwd.params;
    enum b2_status rc = B2_OK;

    if (n > SESSIONS_MAX || n > p->batch)
        return err_set(err, B2_EARG,
                       "%d sessions at once: at most %d, and the batch %lld", n,
                       SESSIONS_MAX, (long long)p->batch);
    for (int i = 0; i < n && rc == B2_OK; i++) {
        const struct cache_params *own = &s[i]->fwd.params;
        for (int j = 0; j < i; j++)
            if (s[j] == s[i])
                return err_set(err, B2_EARG, "sessions %d and %d are the same", j, i);
        if (s[i]->fwd.m != s[0]->fwd.m || s[i]->fwd.be != s[0]->fwd.be ||
            own->window != p->window || own->sinks != p->sinks)
            return err_set(err, B2_EARG,
                           "session %d has another model, backend or window than the "
                           "first",
                           i);
        rc = check_ids(s[i], &ids[i], 1, s[i]->pos, err);
    }
    return rc;
}

enum b2_status sessions_step(struct session *const *s, const int32_t *ids, int n,
                             float *logits, struct b2_err *err)
{
    struct forward_lane lane[SESSIONS_MAX];
    enum b2_status rc = n < 1 ? B2_OK : check_together(s, ids, n, err);

    if (rc || n < 1)
        return rc;
    for (int i = 0; i < n; i++) {
        lane[i] = (struct forward_lane){&s[i]->fwd, s[i]->pos};
        s[i]->have_logits = false;
    }
    if (!forward_together(&s[0]->fwd, lane, ids, n, &s[0]->cancel)) {
        atomic_store(&s[0]->cancel, 0);
        for (int i = 0; i < n; i++)
            s[i]->pos = forward_rewind(&s[i]->fwd, s[i]->pos);
        return err_set(err, B2_ECANCEL, "interrupted");
    }
    forward_head(&s[0]->fwd, n, n, logits);
    for (int i = 0; i < n; i++)
        s[i]->ids[s[i]->pos++] = ids[i];
    return B2_OK;
}

int64_t session_rewind(struct session *s, int64_t pos)
{
    if (pos < s->pos) {
        s->pos = forward_rewind(&s->fwd, max_i64(pos, 0));
        s->have_logits = false;
    }
    return s->pos;
}

void session_cancel(struct session *s)
{
    atomic_store(&s->cancel, 1);
}
