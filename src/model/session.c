/*
 * session.c - what the cache holds, and how it gets there.
 */
#include "model/session.h"

#include "base/mem.h"
#include "model/forward.h"
#include "model/plan.h"

#include <string.h>

enum { DEFAULT_CTX = 4096, DEFAULT_BATCH = 512 };

struct session {
    struct forward fwd;
    int32_t *ids; /* [ctx] tokens behind the cached positions */
    int64_t pos;  /* how many of them */
    float *logits;
    bool have_logits; /* logits belong to position pos - 1 */
    atomic_int cancel;
};

/* How many checkpoints to keep: the plan's number, less where the limit asks for it. */
static int pick_saved(const struct model *m, const struct session_params *p,
                      struct plan *plan)
{
    const struct hparams *hp = &m->hp;
    int n = p->checkpoints > 0 ? p->checkpoints
                               : recurrent_default_saved(hp, m->weights_bytes);
    uint64_t rest = plan->total_bytes - plan->state_bytes;

    if (p->checkpoints < 0)
        n = 0;
    n = n < RECURRENT_MAX_SAVED ? n : RECURRENT_MAX_SAVED;
    while (n > 0 && p->checkpoints == 0 && p->mem_limit &&
           rest + recurrent_bytes(hp, n) > p->mem_limit)
        n--;
    plan->state_bytes = recurrent_bytes(hp, n);
    plan->total_bytes = rest + plan->state_bytes;
    return n;
}

/* Compares the planned bytes with the caller's limit. */
static enum b2_status check_limit(const struct model *m, const struct backend *be,
                                  const struct session_params *p, int *n_saved,
                                  struct b2_err *err)
{
    struct plan plan;
    enum b2_status rc = plan_make(&plan, m, be, p->ctx, p->batch, err);

    if (rc)
        return rc;
    *n_saved = pick_saved(m, p, &plan);
    if (p->mem_limit && plan.total_bytes > p->mem_limit)
        return err_set(
            err, B2_ENOMEM,
            "a context of %lld needs %llu bytes (weights %llu, cache %llu, "
            "state %llu, scratch %llu), over the limit of %llu: a smaller --ctx or "
            "--batch needs less",
            (long long)p->ctx, (unsigned long long)plan.total_bytes,
            (unsigned long long)plan.weights_bytes, (unsigned long long)plan.kv_bytes,
            (unsigned long long)plan.state_bytes,
            (unsigned long long)plan.scratch_bytes, (unsigned long long)p->mem_limit);
    return rc;
}

enum b2_status session_new(struct session **out, const struct model *m,
                           struct backend *be, const struct session_params *params,
                           struct b2_err *err)
{
    struct session_params p = params ? *params : (struct session_params){0};
    struct session *s;
    enum b2_status rc;

    if (p.ctx == 0)
        p.ctx = min_i64(m->hp.ctx_train, DEFAULT_CTX);
    if (p.ctx < 1 || p.ctx > m->hp.ctx_train)
        return err_set(err, B2_EARG,
                       "context %lld is not in 1..%lld, what the model was trained for",
                       (long long)p.ctx, (long long)m->hp.ctx_train);
    if (p.batch < 0)
        return err_set(err, B2_EARG, "batch %lld is negative", (long long)p.batch);
    p.batch = min_i64(p.batch ? p.batch : DEFAULT_BATCH, p.ctx);
    int n_saved = 0;
    rc = check_limit(m, be, &p, &n_saved, err);
    if (rc)
        return rc;
    s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = forward_init(&s->fwd, m, be, p.batch, p.ctx, n_saved, err);
    if (rc)
        goto fail;
    s->ids = mem_calloc((size_t)p.ctx, sizeof *s->ids);
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
    return s->fwd.cap;
}

int64_t session_batch(const struct session *s)
{
    return s->fwd.batch;
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
    const int64_t vocab = s->fwd.m->hp.vocab;

    if (n < 1)
        return err_set(err, B2_EARG, "no tokens: the prompt is empty");
    if (n > s->fwd.cap - pos0)
        return err_set(err, B2_EARG,
                       "%lld tokens do not fit into the context of %lld (%lld are "
                       "there): a larger --ctx is possible up to %lld",
                       (long long)n, (long long)s->fwd.cap, (long long)pos0,
                       (long long)s->fwd.m->hp.ctx_train);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return err_set(err, B2_EARG, "token %d at index %lld is not in 0..%lld",
                           ids[i], (long long)i, (long long)vocab - 1);
    return B2_OK;
}

static enum b2_status run(struct session *s, const int32_t *ids, int64_t n, int64_t pos,
                          struct b2_err *err)
{
    if (forward_layers(&s->fwd, ids, n, pos, &s->cancel))
        return B2_OK;
    atomic_store(&s->cancel, 0);
    return err_set(err, B2_ECANCEL, "interrupted at token %lld", (long long)pos);
}

/* Brings a recurrent state that stands before s->pos up to it: the tokens since run once
 * more and write the same cache. */
static enum b2_status catch_up(struct session *s, struct b2_err *err)
{
    struct recurrent *r = &s->fwd.rec;
    enum b2_status rc = B2_OK;

    if (!recurrent_used(r))
        return B2_OK;
    recurrent_rewind(r, s->pos);
    while (r->pos < s->pos && rc == B2_OK) {
        rc = run(s, s->ids + r->pos, min_i64(s->pos - r->pos, s->fwd.batch), r->pos,
                 err);
        if (rc == B2_OK)
            recurrent_save_spaced(r);
    }
    return rc;
}

/* Forwards n <= batch checked tokens; logits [n_last, V] of the last ones. The state at
 * position mark inside of them (0: none) is kept. */
static enum b2_status append_mark(struct session *s, const int32_t *ids, int64_t n,
                                  int64_t mark, float *logits, int64_t n_last,
                                  struct b2_err *err)
{
    enum b2_status rc = catch_up(s, err);

    s->have_logits = false;
    if (rc == B2_OK && mark > s->pos) {
        s->fwd.mark_copy = recurrent_begin_mark(&s->fwd.rec);
        s->fwd.mark_n = mark - s->pos;
    }
    if (rc == B2_OK)
        rc = run(s, ids, n, s->pos, err);
    if (rc)
        return rc;
    if (n_last > 0)
        forward_head(&s->fwd, n, n_last, logits);
    memcpy(s->ids + s->pos, ids, (size_t)n * sizeof *ids);
    s->pos += n;
    s->have_logits = n_last > 0 && logits == s->logits;
    if (recurrent_used(&s->fwd.rec))
        recurrent_save_spaced(&s->fwd.rec);
    return B2_OK;
}

static enum b2_status append(struct session *s, const int32_t *ids, int64_t n,
                             int64_t n_last, float *logits, struct b2_err *err)
{
    return append_mark(s, ids, n, 0, logits, n_last, err);
}

/* One piece of a prompt of n tokens. Before a piece the state is kept, so that an
 * interruption loses nothing of the pieces before, and at the prompt's last token, which
 * runs again when the same prompt comes back. */
static enum b2_status append_piece(struct session *s, const int32_t *ids, int64_t n,
                                   struct b2_err *err)
{
    struct recurrent *r = &s->fwd.rec;
    int64_t part = min_i64(n - s->pos, s->fwd.batch), mark = 0;
    bool last = s->pos + part == n;

    if (recurrent_used(r)) {
        enum b2_status rc = catch_up(s, err);
        if (rc)
            return rc;
        recurrent_save_mark(r, s->pos < n - 1);
        mark = last && s->pos < n - 1 ? n - 1 : 0;
    }
    return append_mark(s, ids + s->pos, part, mark, s->logits, last ? 1 : 0, err);
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
    session_rewind(s, same);
    if (recurrent_used(&s->fwd.rec))
        s->pos = same = recurrent_rewind(&s->fwd.rec, same);
    if (n_reused)
        *n_reused = same;
    while (s->pos < n && rc == B2_OK)
        rc = append_piece(s, ids, n, err);
    return rc;
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
    if (n > s->fwd.batch)
        return err_set(err, B2_EARG, "%lld tokens at once, but the batch is %lld",
                       (long long)n, (long long)s->fwd.batch);
    return append(s, ids, n, n, logits, err);
}

void session_rewind(struct session *s, int64_t pos)
{
    if (pos >= s->pos)
        return;
    s->pos = max_i64(pos, 0);
    s->have_logits = false;
    if (recurrent_used(&s->fwd.rec))
        recurrent_forget(&s->fwd.rec, s->pos);
}

void session_cancel(struct session *s)
{
    atomic_store(&s->cancel, 1);
}
