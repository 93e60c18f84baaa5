/*
 * session_api.c - sessions and generation of the public API.
 */
#include "api/api_int.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "model/generate.h"

struct b2_session {
    struct pool *pool;
    struct backend *be;
    struct session *session;
};

enum { MAX_THREADS = 1024 };

/* Pool and backend of a session; they live as long as it does. */
static enum b2_status make_backend(struct b2_session *s, const struct b2_model *m,
                                   const struct b2_session_params *p,
                                   struct b2_err *err)
{
    struct backend_config cfg = {.exact = p->exact, .log = &m->log};
    enum b2_status rc = cpu_limit(&cfg.cpu, cpu_features(), p->cpu, err);

    if (rc)
        return rc;
    if (p->threads < 0 || p->threads > MAX_THREADS)
        return err_set(err, B2_EARG, "%d threads are not in 0..%d", p->threads,
                       MAX_THREADS);
    s->pool = pool_new(p->threads);
    if (!s->pool)
        return err_set(err, B2_ENOMEM, "cannot start %d threads", p->threads);
    cfg.pool = s->pool;
    return backend_cpu_new(&s->be, &cfg, err);
}

static enum dtype cache_type(enum b2_cache c)
{
    switch (c) {
    case B2_CACHE_F16:
        return DT_F16;
    case B2_CACHE_Q8_0:
        return DT_Q8_0;
    case B2_CACHE_Q4_0:
        return DT_Q4_0;
    case B2_CACHE_AUTO:
        break;
    }
    return (enum dtype)0;
}

enum b2_status b2_session_new(struct b2_session **out, const struct b2_model *m,
                              const struct b2_session_params *params,
                              struct b2_err *err)
{
    struct b2_session_params p = params ? *params : (struct b2_session_params){0};
    const struct session_params sp = {
        .ctx = p.ctx,
        .batch = p.batch,
        .mem_limit = p.mem_limit,
        .cache = cache_type(p.cache),
        .window = p.window,
        .sinks = p.sinks,
        .log = &m->log,
    };
    struct b2_session *s = mem_calloc(1, sizeof *s);
    enum b2_status rc;

    if (!s)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = make_backend(s, m, &p, err);
    if (rc == B2_OK)
        rc = session_new(&s->session, m->model, s->be, &sp, err);
    if (rc) {
        b2_session_free(s);
        return rc;
    }
    *out = s;
    return B2_OK;
}

void b2_session_free(struct b2_session *s)
{
    if (!s)
        return;
    session_free(s->session);
    backend_free(s->be);
    pool_free(s->pool);
    mem_free(s);
}

enum b2_status b2_session_sync(struct b2_session *s, const int32_t *ids, int64_t n,
                               struct b2_err *err)
{
    return session_sync(s->session, ids, n, NULL, err);
}

enum b2_status b2_session_step(struct b2_session *s, int32_t id, struct b2_err *err)
{
    return session_step(s->session, id, err);
}

const float *b2_session_logits(const struct b2_session *s)
{
    return session_logits(s->session);
}

int64_t b2_session_pos(const struct b2_session *s)
{
    return session_pos(s->session);
}

int64_t b2_session_ctx(const struct b2_session *s)
{
    return session_ctx(s->session);
}

void b2_session_cancel(struct b2_session *s)
{
    session_cancel(s->session);
}

/* Zero means "off" in the public struct, also where the neutral value is 1. */
static struct sampler_params sampler_params_of(const struct b2_generate_params *p)
{
    return (struct sampler_params){
        .temperature = p->temperature,
        .top_k = p->top_k,
        .top_p = p->top_p == 0.0f ? 1.0f : p->top_p,
        .min_p = p->min_p,
        .repeat_penalty = p->repeat_penalty == 0.0f ? 1.0f : p->repeat_penalty,
        .presence_penalty = p->presence_penalty,
        .frequency_penalty = p->frequency_penalty,
        .penalty_last_n = p->penalty_last_n ? p->penalty_last_n : 64,
        .seed = p->seed,
    };
}

static enum b2_finish finish_of(enum finish_reason r)
{
    switch (r) {
    case FINISH_STOP:
        return B2_FINISH_STOP;
    case FINISH_LENGTH:
        return B2_FINISH_LENGTH;
    case FINISH_CANCEL:
        return B2_FINISH_CANCEL;
    }
    return B2_FINISH_CANCEL;
}

/* Moves text and ids from the inner result to the public one. */
static enum b2_status move_result(struct b2_generate_result *out,
                                  struct generate_result *g, struct b2_err *err)
{
    *out = (struct b2_generate_result){
        .text = g->text.data,
        .text_bytes = g->text.len,
        .ids = g->tokens.id,
        .n_ids = g->tokens.n,
        .prompt_tokens = g->prompt_tokens,
        .prompt_reused = g->prompt_reused,
        .finish = finish_of(g->finish),
        .prefill_s = g->prefill_s,
        .decode_s = g->decode_s,
        .first_token_s = g->first_token_s,
    };
    g->text = (struct str){0};
    g->tokens = (struct tok_ids){0};
    if (!out->text)
        out->text = mem_strdup("");
    if (!out->text)
        return err_set(err, B2_ENOMEM, "out of memory for the text");
    return B2_OK;
}

enum b2_status b2_generate(struct b2_session *s, const int32_t *ids, int64_t n,
                           const struct b2_generate_params *params,
                           struct b2_generate_result *out, struct b2_err *err)
{
    struct b2_generate_params p = params ? *params : (struct b2_generate_params){0};
    const struct sampler_params sp = sampler_params_of(&p);
    const struct generate_params gp = {
        .max_tokens = p.max_tokens,
        .stop = p.stop,
        .n_stop = p.n_stop,
        .ignore_eos = p.ignore_eos,
        .on_text = p.on_text,
        .ctx = p.ctx,
    };
    struct generate_result g = {0};
    struct sampler *smp = NULL;
    enum b2_status rc, moved;

    *out = (struct b2_generate_result){0};
    rc = sampler_new(&smp, &sp, session_model(s->session)->hp.vocab, err);
    if (rc == B2_OK)
        rc = generate_run(s->session, smp, ids, n, &gp, &g, err);
    moved = move_result(out, &g, rc ? NULL : err);
    sampler_free(smp);
    generate_result_free(&g);
    return rc ? rc : moved;
}

void b2_generate_result_free(struct b2_generate_result *r)
{
    mem_free(r->text);
    mem_free(r->ids);
    *r = (struct b2_generate_result){0};
}
