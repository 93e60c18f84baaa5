/*
 * task_score.c - the log-likelihood of a continuation.
 *
 * With context ids c and the ids w of context and continuation tokenised together, the
 * continuation is w[|c|..]; the model reads c and then the continuation but for its last
 * token (lm_eval/api/model.py, _encode_pair). The last row of logits behind c is kept, so
 * that further continuations of the same context cost their own tokens only.
 */
#include "eval/task_score.h"

#include "base/mem.h"
#include "eval/divergence.h"
#include "eval/logprob.h"
#include "text/utf8.h"

#include <assert.h>
#include <string.h>

enum b2_status scorer_init(struct scorer *sc, struct session *s, struct b2_err *err)
{
    int64_t vocab = session_model(s)->hp.vocab;

    *sc = (struct scorer){.s = s, .n_rows = divergence_rows(vocab, session_batch(s))};
    sc->first_row = mem_calloc((size_t)vocab, sizeof *sc->first_row);
    sc->rows = mem_calloc((size_t)(vocab * sc->n_rows), sizeof *sc->rows);
    if (sc->first_row && sc->rows)
        return B2_OK;
    scorer_free(sc);
    return err_set(err, B2_ENOMEM, "out of memory for logits");
}

void scorer_free(struct scorer *sc)
{
    tok_ids_free(&sc->context);
    mem_free(sc->first_row);
    mem_free(sc->rows);
    *sc = (struct scorer){0};
}

/* Bytes of text without the white space at its end. */
static size_t trimmed(const char *text, size_t n)
{
    size_t keep = 0;

    for (size_t at = 0, used; at < n; at += used) {
        uint32_t cp = utf8_next(text + at, n - at, &used);
        if (!utf8_is_space(cp))
            keep = at + used;
    }
    return keep;
}

/* A prompt of nothing: the begin token, else the end token, stands for it. */
static enum b2_status encode_bare(struct tok_ids *context, struct tok_ids *cont,
                                  const struct tokenizer *tok, const char *text,
                                  unsigned flags, struct b2_err *err)
{
    int32_t first = tok_bos(tok) >= 0 ? tok_bos(tok) : tok_eos(tok);

    if (first < 0)
        return err_set(err, B2_EARG,
                       "the prompt is empty, and the model has neither "
                       "begin nor end token to start from");
    context->id = mem_calloc(1, sizeof *context->id);
    if (!context->id)
        return err_set(err, B2_ENOMEM, "out of memory");
    context->id[0] = first;
    context->n = context->cap = 1;
    return tok_encode(tok, text, strlen(text), flags & ~(unsigned)TOK_ADD_BOS, cont,
                      err);
}

enum b2_status scorer_encode(struct tok_ids *context, struct tok_ids *cont,
                             const struct tokenizer *tok, const char *prompt,
                             const char *text, bool special, struct b2_err *err)
{
    unsigned flags = TOK_ADD_BOS | (special ? (unsigned)TOK_SPECIAL : 0u);
    size_t n = trimmed(prompt, strlen(prompt));
    struct str whole = {0};
    enum b2_status rc;

    if (prompt[0] == '\0')
        return encode_bare(context, cont, tok, text, flags, err);
    str_printf(&whole, "%s%s", prompt, text);
    rc = str_ok(&whole) ? tok_encode(tok, whole.data, whole.len, flags, cont, err)
                        : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&whole);
    if (!rc)
        rc = tok_encode(tok, prompt, n, flags, context, err);
    if (rc)
        return rc;
    if (context->n == 0) /* white space only, and no begin token */
        return err_set(err, B2_EARG, "the prompt is white space only");
    cont->n = max_i64(cont->n - context->n, 0);
    if (cont->id && cont->n > 0)
        memmove(cont->id, cont->id + context->n, (size_t)cont->n * sizeof *cont->id);
    return B2_OK;
}

static enum b2_status add_row(struct task_loglik *out, const float *row, int32_t target,
                              int64_t vocab, struct b2_err *err)
{
    struct logprob lp;
    enum b2_status rc = logprob_row(&lp, NULL, row, vocab, err);

    if (rc)
        return rc;
    out->sum += (double)row[target] - lp.lse;
    out->greedy = out->greedy && lp.argmax == target;
    return B2_OK;
}

/* Reads the context, unless its last logits are at hand. */
static enum b2_status read_context(struct scorer *sc, const int32_t *ids, int64_t n,
                                   struct b2_err *err)
{
    int64_t vocab = session_model(sc->s)->hp.vocab;
    const float *last;
    enum b2_status rc;

    assert(sc->first_row && n > 0); /* scorer_init was called */
    if (sc->context.id && sc->context.n == n && session_pos(sc->s) >= n &&
        memcmp(sc->context.id, ids, (size_t)n * sizeof *ids) == 0) {
        if (session_rewind(sc->s, n) == n)
            return B2_OK;
        return session_sync(sc->s, ids, n, NULL, err); /* a recurrent layer's part */
    }
    sc->context.n = 0;
    rc = session_sync(sc->s, ids, n, NULL, err);
    if (rc)
        return rc;
    last = session_logits(sc->s); /* there is one after session_sync */
    if (last)
        memcpy(sc->first_row, last, (size_t)vocab * sizeof *last);
    if (n > sc->context.cap) {
        int32_t *more = mem_realloc(sc->context.id, (size_t)n, sizeof *more);
        if (!more)
            return err_set(err, B2_ENOMEM, "out of memory");
        sc->context.id = more;
        sc->context.cap = n;
    }
    assert(sc->context.id);
    memcpy(sc->context.id, ids, (size_t)n * sizeof *ids);
    sc->context.n = n;
    return B2_OK;
}

enum b2_status scorer_tokens(struct task_loglik *out, struct scorer *sc,
                             const int32_t *context, int64_t n_context,
                             const int32_t *cont, int64_t n, struct b2_err *err)
{
    int64_t vocab = session_model(sc->s)->hp.vocab;
    enum b2_status rc = read_context(sc, context, n_context, err);

    if (!rc && n > 0)
        rc = add_row(out, sc->first_row, cont[0], vocab, err);
    for (int64_t at = 0; at < n - 1 && !rc;) {
        int64_t part = min_i64(n - 1 - at, sc->n_rows);
        rc = session_eval(sc->s, cont + at, part, sc->rows, err);
        for (int64_t i = 0; i < part && !rc; i++)
            rc = add_row(out, sc->rows + i * vocab, cont[at + i + 1], vocab, err);
        at += part;
    }
    return rc;
}

enum b2_status scorer_loglik(struct task_loglik *out, struct scorer *sc,
                             const char *prompt, const char *cont, bool special,
                             struct b2_err *err)
{
    struct tok_ids context = {0}, text = {0};
    int64_t room = session_ctx(sc->s), cut;
    enum b2_status rc = scorer_encode(&context, &text, session_model(sc->s)->tok,
                                      prompt, cont, special, err);

    *out = (struct task_loglik){.greedy = true, .n_tokens = text.n};
    /* The last token is only predicted, so one more than the context fits. */
    cut = max_i64(context.n + text.n - (room + 1), 0);
    out->truncated = cut > 0;
    if (!rc && cut >= context.n)
        rc =
            err_set(err, B2_EARG,
                    "a continuation of %lld tokens leaves no place for the prompt in a "
                    "context of %lld",
                    (long long)text.n, (long long)room);
    if (!rc)
        rc = scorer_tokens(out, sc, context.id + cut, context.n - cut, text.id, text.n,
                           err);
    tok_ids_free(&context);
    tok_ids_free(&text);
    return rc;
}

enum b2_status task_loglik(struct task_loglik *out, struct session *s,
                           const char *prompt, const char *cont, bool special,
                           struct b2_err *err)
{
    struct scorer sc;
    enum b2_status rc = scorer_init(&sc, s, err);

    if (rc)
        return rc;
    rc = scorer_loglik(out, &sc, prompt, cont, special, err);
    scorer_free(&sc);
    return rc;
}
