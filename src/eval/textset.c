/*
 * textset.c - cutting token ids into windows.
 *
 * Sources: llama.cpp, tools/perplexity/perplexity.cpp (chunks, second half scored);
 * lm-evaluation-harness, lm_eval/utils.py get_rolling_token_windows with a context
 * of one token.
 */
#include "eval/textset.h"

#include "base/mem.h"
#include "format/hash.h"

#include <string.h>

const char *textset_convention_name(enum text_convention conv)
{
    return conv == CONV_ROLLING ? "rolling" : "llama.cpp";
}

void textset_free(struct textset *t)
{
    if (!t)
        return;
    mem_free(t->win);
    mem_free(t->owned);
    tok_ids_free(&t->all);
    *t = (struct textset){0};
}

/* Room for n windows of ctx positions: ids and targets, one after the other. */
static enum b2_status reserve(struct textset *t, int64_t n, struct b2_err *err)
{
    uint64_t cells = 0;

    if (mul_u64(&cells, (uint64_t)n, 2 * (uint64_t)t->ctx)) {
        t->win = mem_calloc((size_t)n, sizeof *t->win);
        t->owned = mem_calloc((size_t)cells, sizeof(int32_t));
    }
    if (!t->win || !t->owned) {
        err_set(err, B2_ENOMEM, "out of memory for %lld windows of %lld tokens",
                (long long)n, (long long)t->ctx);
        return B2_ENOMEM;
    }
    t->n_windows = n;
    return B2_OK;
}

/* Fills window w with the n tokens that start at index `from` of the text; index -1
 * and the first position of every llama.cpp chunk take the token `first`. */
static void fill(struct textset *t, int64_t w, int64_t from, int64_t n, int32_t first)
{
    int32_t *ids = (int32_t *)t->owned + 2 * w * t->ctx;
    int32_t *target = ids + t->ctx;

    for (int64_t i = 0; i < n; i++) {
        int64_t at = from + i;
        ids[i] = at >= 0 ? t->all.id[at] : first;
        target[i] = at + 1 < t->all.n ? t->all.id[at + 1] : -1;
    }
    t->win[w].ids = ids;
    t->win[w].target = target;
    t->win[w].n = n;
}

static enum b2_status cut_llama_cpp(struct textset *t, int32_t first, int64_t max,
                                    struct b2_err *err)
{
    int64_t n = t->all.n / t->ctx;
    enum b2_status rc;

    if (n == 0)
        return err_set(err, B2_EARG,
                       "the text has %lld tokens, one window needs %lld: give a longer "
                       "text or a smaller --ctx",
                       (long long)t->all.n, (long long)t->ctx);
    n = max > 0 ? min_i64(n, max) : n;
    rc = reserve(t, n, err);
    if (rc)
        return rc;
    for (int64_t w = 0; w < n; w++) {
        fill(t, w, w * t->ctx, t->ctx, first);
        if (first >= 0)
            ((int32_t *)t->owned)[2 * w * t->ctx] = first;
        t->win[w].score_from = t->ctx / 2;
        t->win[w].score_to = t->ctx - 1;
        t->n_scored += t->win[w].score_to - t->win[w].score_from;
    }
    return B2_OK;
}

/* Window w predicts tokens [w ctx, (w + 1) ctx) from those one place earlier, whose
 * very first is the token `first`. The last window moves left until it is full. */
static enum b2_status cut_rolling(struct textset *t, int32_t first, int64_t max,
                                  struct b2_err *err)
{
    int64_t n = (t->all.n + t->ctx - 1) / t->ctx;
    enum b2_status rc;

    if (first < 0)
        return err_set(err, B2_EARG,
                       "the vocabulary has neither a begin nor an end token to start "
                       "the rolling windows with: use --convention llama.cpp");
    if (t->all.n < 1)
        return err_set(err, B2_EARG, "the text has 0 tokens, one window needs 1");
    n = max > 0 ? min_i64(n, max) : n;
    rc = reserve(t, n, err);
    if (rc)
        return rc;
    for (int64_t w = 0; w < n; w++) {
        int64_t scored = min_i64(t->ctx, t->all.n - w * t->ctx);
        int64_t end = w * t->ctx + scored;            /* predicts up to here */
        int64_t from = max_i64(end - t->ctx - 1, -1); /* index of its first input */
        int64_t len = end - 1 - from;
        fill(t, w, from, len, first);
        t->win[w].score_from = len - scored;
        t->win[w].score_to = len;
        t->n_scored += scored;
    }
    return B2_OK;
}

enum b2_status textset_from_ids(struct textset *out, struct tok_ids *ids,
                                enum text_convention conv, int32_t first, int64_t ctx,
                                int64_t max_windows, struct b2_err *err)
{
    struct textset t = {.all = *ids, .ctx = ctx, .stride = ctx, .begins = first >= 0};
    enum b2_status rc;

    *ids = (struct tok_ids){0};
    if (ctx < TEXTSET_MIN_CTX)
        rc = err_set(err, B2_EARG, "a window of %lld tokens: at least %d are needed",
                     (long long)ctx, TEXTSET_MIN_CTX);
    else if (conv == CONV_ROLLING)
        rc = cut_rolling(&t, first, max_windows, err);
    else
        rc = cut_llama_cpp(&t, first, max_windows, err);
    if (rc) {
        textset_free(&t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

enum b2_status textset_make(struct textset *out, const struct tokenizer *tok,
                            const char *text, size_t n_bytes, enum text_convention conv,
                            int64_t ctx, int64_t max_windows, struct b2_err *err)
{
    struct tok_ids ids = {0};
    struct textset t = {0};
    char sha[65] = "";
    int32_t first = -1;
    unsigned flags;
    enum b2_status rc;

    /* llama-perplexity takes the text literally and lets the vocabulary add its begin
     * token; the harness encodes with a Hugging Face tokenizer, which always knows
     * added tokens written in the text and is told not to add any. */
    if (conv == CONV_ROLLING) {
        flags = TOK_SPECIAL;
        first = tok_bos(tok) >= 0 ? tok_bos(tok) : tok_eos(tok);
    } else {
        flags = TOK_ADD_BOS;
        first = tok_adds_bos(tok) ? tok_bos(tok) : -1;
    }
    rc = hash_sha256(sha, text, n_bytes, err);
    if (!rc)
        rc = tok_encode(tok, text, n_bytes, flags, &ids, err);
    if (rc) {
        tok_ids_free(&ids);
        return rc;
    }
    rc = textset_from_ids(&t, &ids, conv, first, ctx, max_windows, err);
    if (rc)
        return rc;
    memcpy(t.sha256, sha, sizeof sha);
    *out = t;
    return B2_OK;
}
