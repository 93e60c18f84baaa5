/*
 * speed.c - the measurements behind `bonsai2 bench`.
 */
#include "eval/speed.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/logprob.h"
#include "eval/stats.h"

#include <stdatomic.h>
#include <string.h>

enum { MEMORY_PASSES = 5, MEMORY_CHUNK = 1 << 20, LOAD_CTX = 16 };

uint64_t speed_pass_bytes(const struct model *m)
{
    uint64_t table = weight_bytes(&m->embd);

    return m->weights_bytes - (m->tied ? 0 : table);
}

/* Bytes of keys and values that the token at pos reads. */
static uint64_t cache_read_bytes(const struct session *s, int64_t pos)
{
    const struct hparams *hp = &session_model(s)->hp;
    const struct cache_params *p = session_cache(s);
    uint64_t n = 0;

    for (int64_t i = 0; i < hp->n_layers; i++) {
        struct cache_layer c = cache_layer_of(hp, p, i);
        int64_t seen = c.window ? min_i64(pos + 1, c.window + c.sinks) : pos + 1;
        if (c.kind != CACHE_NONE)
            n += backend_kv_bytes(p->type, hparams_kv_heads(hp, i), hp->head_dim, seen);
    }
    return n;
}

/* Brings the cache to depth tokens; a decode test goes on from there. */
static enum b2_status go_to(struct session *s, const struct speed_test *t,
                            const int32_t *ids, struct b2_err *err)
{
    if (session_rewind(s, t->depth) >= t->depth)
        return B2_OK;
    return t->fill ? session_fill(s, ids, t->depth, t->seed, err)
                   : session_sync(s, ids, t->depth, NULL, err);
}

/* One run of n tokens; *seconds without the way to depth. */
static enum b2_status run_once(double *seconds, struct session *s,
                               const struct speed_test *t, int64_t n,
                               const int32_t *ids, struct b2_err *err)
{
    enum b2_status rc;

    if (t->kind == SPEED_PREFILL) {
        session_rewind(s, 0);
        double begin = clock_s();
        rc = session_sync(s, ids, n, NULL, err);
        *seconds = clock_s() - begin;
        return rc;
    }
    rc = go_to(s, t, ids, err);
    double begin = clock_s();
    for (int64_t i = 0; i < n && rc == B2_OK; i++)
        rc = session_step(s, ids[t->depth + i], err);
    *seconds = clock_s() - begin;
    return rc;
}

/* A model whose numbers overflow, or are none, may run at any speed: it says nothing.
 * Where none was asked for there are no logits. */
static enum b2_status check_logits(const struct session *s, struct b2_err *err)
{
    const float *x = session_logits(s);
    struct logprob ignored;

    return x ? logprob_row(&ignored, NULL, x, session_model(s)->hp.vocab, err) : B2_OK;
}

static void summarise(struct speed_result *out, double *tps, int runs)
{
    stats_sort(tps, runs);
    out->runs = runs;
    out->min_tps = tps[0];
    out->max_tps = tps[runs - 1];
    out->median_tps = stats_quantile(tps, runs, 0.5);
}

enum b2_status speed_session(struct speed_result *out, struct session *s,
                             const struct speed_test *t, struct b2_err *err)
{
    const struct model *m = session_model(s);
    int64_t batch = session_batch(s), n_ids = t->depth + t->n;
    int32_t *ids = mem_calloc((size_t)n_ids, sizeof *ids);
    struct rng rng = rng_make(t->seed);
    double *tps = out->tps, seconds = 0;

    if (!ids)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n_ids; i++)
        ids[i] = (int32_t)rng_below(&rng, (uint64_t)m->hp.vocab);
    enum b2_status rc = run_once(&seconds, s, t, 1, ids, err);
    for (int i = 0; i < t->runs && rc == B2_OK; i++) {
        rc = run_once(&seconds, s, t, t->n, ids, err);
        tps[i] = seconds > 0 ? (double)t->n / seconds : 0.0;
    }
    mem_free(ids);
    if (!rc)
        rc = check_logits(s, err);
    if (rc)
        return rc;
    summarise(out, tps, t->runs);
    int64_t passes = t->kind == SPEED_PREFILL ? (t->n + batch - 1) / batch : t->n;
    uint64_t bytes = speed_pass_bytes(m);
    if (t->kind == SPEED_DECODE)
        bytes += cache_read_bytes(s, t->depth + t->n / 2);
    out->gbps = 1e-9 * (double)bytes * (double)passes * out->median_tps / (double)t->n;
    return B2_OK;
}

/* One run of n_tokens for each of n sessions; ids are a session's, moved on by one for
 * each, logits [n, V]. */
static enum b2_status run_together(double *seconds, struct session *const *s, int n,
                                   const struct speed_test *t, int64_t n_tokens,
                                   const int32_t *ids, float *logits,
                                   struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    int32_t next[SESSIONS_MAX];

    for (int i = 0; i < n && rc == B2_OK; i++)
        rc = go_to(s[i], t, ids, err);
    double begin = clock_s();
    for (int64_t k = 0; k < n_tokens && rc == B2_OK; k++) {
        for (int i = 0; i < n; i++)
            next[i] = ids[(t->depth + k + i) % (t->depth + t->n)];
        rc = sessions_step(s, next, n, logits, err);
    }
    *seconds = clock_s() - begin;
    return rc;
}

enum b2_status speed_together(struct speed_result *out, struct session *const *s, int n,
                              const struct speed_test *t, struct b2_err *err)
{
    const struct model *m = session_model(s[0]);
    int64_t n_ids = t->depth + t->n;
    int32_t *ids = mem_calloc((size_t)n_ids, sizeof *ids);
    float *logits = mem_aligned(64, (size_t)(n * m->hp.vocab), sizeof *logits);
    struct rng rng = rng_make(t->seed);
    double tps[SPEED_MAX_RUNS], seconds = 0;
    enum b2_status rc;

    if (!ids || !logits) {
        mem_free(logits);
        mem_free(ids);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int64_t i = 0; i < n_ids; i++)
        ids[i] = (int32_t)rng_below(&rng, (uint64_t)m->hp.vocab);
    rc = run_together(&seconds, s, n, t, 1, ids, logits, err);
    for (int i = 0; i < t->runs && rc == B2_OK; i++) {
        rc = run_together(&seconds, s, n, t, t->n, ids, logits, err);
        tps[i] = seconds > 0 ? (double)(n * t->n) / seconds : 0.0;
    }
    mem_free(logits);
    mem_free(ids);
    if (rc)
        return rc;
    summarise(out, tps, t->runs);
    uint64_t bytes =
        speed_pass_bytes(m) + (uint64_t)n * cache_read_bytes(s[0], t->depth + t->n / 2);
    out->gbps = 1e-9 * (double)bytes * out->median_tps / (double)n;
    return B2_OK;
}

enum b2_status speed_forget(bool *cold, const char *path, struct b2_err *err)
{
    struct modelfile *mf = NULL;
    char **part;
    enum b2_status rc = modelfile_open(&mf, path, NULL, err);

    if (rc)
        return rc;
    int n = modelfile_n_parts(mf);
    part = mem_calloc((size_t)n, sizeof *part);
    for (int i = 0; part && i < n; i++)
        part[i] = mem_strdup(modelfile_part_path(mf, i));
    modelfile_close(mf); /* mapped pages cannot be dropped */
    *cold = part != NULL;
    for (int i = 0; part && i < n; i++) {
        *cold = part[i] && file_cache_drop(part[i]) && *cold;
        mem_free(part[i]);
    }
    mem_free(part);
    return B2_OK;
}

enum b2_status speed_load(double *seconds, const char *path,
                          const struct model_params *mp,
                          const struct backend_config *cfg, struct b2_err *err)
{
    struct model *m = NULL;
    struct backend *be = NULL;
    struct session *s = NULL;
    double begin = clock_s();
    enum b2_status rc = model_open(&m, path, mp, err);

    if (rc == B2_OK)
        rc = backend_cpu_new(&be, cfg, err);
    if (rc == B2_OK) {
        int64_t ctx = min_i64(LOAD_CTX, m->hp.ctx_train);
        struct session_params sp = {.ctx = ctx, .batch = 1};
        rc = session_new(&s, m, be, &sp, err);
    }
    if (rc == B2_OK)
        rc = session_step(s, 0, err);
    *seconds = clock_s() - begin;
    if (rc == B2_OK && (rc = check_logits(s, err)) != B2_OK)
        err_wrap(err, "%s", path);
    session_free(s);
    backend_free(be);
    model_close(m);
    return rc;
}

struct memory_job {
    const uint8_t *data;
    size_t n_bytes;
    atomic_ullong sum; /* keeps the reads alive */
};

static inline uint64_t word_at(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Four sums by name: they stay in registers at any level of optimisation, and additions
 * do not wait for each other, so that memory is the limit. */
static void memory_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct memory_job *j = ctx;
    const uint8_t *p = j->data + (size_t)begin * MEMORY_CHUNK;
    const uint8_t *stop = j->data + (size_t)end * MEMORY_CHUNK;
    uint64_t a = 0, b = 0, c = 0, d = 0;

    (void)thread;
    for (; p < stop; p += 64) {
        a += word_at(p) + word_at(p + 32);
        b += word_at(p + 8) + word_at(p + 40);
        c += word_at(p + 16) + word_at(p + 48);
        d += word_at(p + 24) + word_at(p + 56);
    }
    atomic_fetch_add(&j->sum, a + b + c + d);
}

enum b2_status speed_memory(double *gbps, struct pool *pool, size_t n_bytes,
                            struct b2_err *err)
{
    int64_t chunks = (int64_t)max_i64(1, (int64_t)(n_bytes / MEMORY_CHUNK));
    size_t size = (size_t)chunks * MEMORY_CHUNK;
    uint8_t *data = mem_huge(size); /* translations are not what is measured */
    double rate[MEMORY_PASSES];

    if (!data)
        return err_set(err, B2_ENOMEM, "memory speed: no %zu bytes to read", size);
    memset(data, 1, size); /* pages that were never written are all the same page */
    struct memory_job j = {data, size, 0};
    for (int i = 0; i < MEMORY_PASSES; i++) {
        double begin = clock_s();
        pool_run(pool, memory_part, &j, chunks, 1);
        double seconds = clock_s() - begin;
        rate[i] = seconds > 0 ? 1e-9 * (double)size / seconds : 0.0;
    }
    mem_free(data);
    stats_sort(rate, MEMORY_PASSES);
    *gbps = stats_quantile(rate, MEMORY_PASSES, 0.5);
    return B2_OK;
}
