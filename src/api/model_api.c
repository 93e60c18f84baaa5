/*
 * model_api.c - models, text and tokens of the public API.
 */
#include "api/api_int.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

const char *b2_version(void)
{
    return B2_VERSION;
}

const char *b2_status_name(enum b2_status status)
{
    return err_status_name(status);
}

/* The two lists of levels are one list under two names. */
_Static_assert((int)B2_LOG_ERROR == (int)LOG_ERROR &&
                   (int)B2_LOG_DEBUG == (int)LOG_DEBUG,
               "log levels differ");

static void sink(void *ctx, enum log_level level, const char *line)
{
    const struct b2_model *m = ctx;

    m->log_fn(m->log_ctx, (enum b2_log_level)level, line);
}

enum b2_status b2_model_open(struct b2_model **out, const char *path,
                             const struct b2_model_params *params, struct b2_err *err)
{
    struct b2_model *m;
    enum b2_status rc;

    if (!out || !path)
        return err_set(err, B2_EARG, "b2_model_open: out and path must not be NULL");
    m = mem_calloc(1, sizeof *m);
    if (!m)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    if (params) {
        m->log_fn = params->log;
        m->log_ctx = params->log_ctx;
        m->log = (struct log){
            .level = (enum log_level)params->log_level,
            .sink = params->log ? sink : NULL,
            .ctx = m,
            .strict = params->strict,
        };
    }
    rc = model_open(&m->model, path, &(struct model_params){.log = &m->log}, err);
    if (rc) {
        mem_free(m);
        return rc;
    }
    *out = m;
    return B2_OK;
}

void b2_model_close(struct b2_model *m)
{
    if (!m)
        return;
    model_close(m->model);
    mem_free(m);
}

int64_t b2_model_vocab(const struct b2_model *m)
{
    return m->model->hp.vocab;
}

int64_t b2_model_context(const struct b2_model *m)
{
    return m->model->hp.ctx_train;
}

const char *b2_model_fingerprint(const struct b2_model *m)
{
    return m->model->fingerprint;
}

enum b2_status b2_tokenize(const struct b2_model *m, const char *text, size_t n,
                           int32_t *ids, int64_t cap, int64_t *n_ids,
                           struct b2_err *err)
{
    struct tok_ids out = {0};
    enum b2_status rc =
        tok_encode(m->model->tok, text, n, TOK_SPECIAL | TOK_ADD_BOS, &out, err);

    if (rc == B2_OK) {
        *n_ids = out.n;
        if (out.n > cap)
            rc = err_set(err, B2_EARG, "%lld ids do not fit into %lld",
                         (long long)out.n, (long long)cap);
        else if (out.n > 0)
            memcpy(ids, out.id, (size_t)out.n * sizeof *ids);
    }
    tok_ids_free(&out);
    return rc;
}

enum b2_status b2_detokenize(const struct b2_model *m, const int32_t *ids,
                             int64_t n_ids, char *buf, size_t cap, size_t *n,
                             struct b2_err *err)
{
    struct str text = {0};
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= m->model->hp.vocab)
            return err_set(err, B2_EARG, "token %d at index %lld is not in 0..%lld",
                           ids[i], (long long)i, (long long)m->model->hp.vocab - 1);
    rc = tok_decode(m->model->tok, ids, n_ids, false, &text, err);
    if (rc == B2_OK) {
        *n = text.len;
        if (text.len >= cap)
            rc = err_set(err, B2_EARG, "%zu bytes and a zero do not fit into %zu",
                         text.len, cap);
        else
            memcpy(buf, text.len ? text.data : "", text.len + 1);
    }
    str_free(&text);
    return rc;
}
