/*
 * vocab.c - joins the keys of format/ and the tokenizer of text/; see vocab.h.
 */
#include "model/vocab.h"

#include "base/mem.h"

#include <string.h>

#define TK "tokenizer.ggml."
#define OURS "bonsai2.tokenizer."

struct lists { /* what tok_new borrows, freed after it */
    struct tok_piece *tokens, *merges;
};

/* A list of strings as text/ wants it. absent_ok: no key gives NULL. */
static enum b2_status get_pieces(struct tok_piece **out, int64_t *n,
                                 const struct meta *m, const char *key, bool absent_ok,
                                 struct b2_err *err)
{
    const struct meta_str *strs;
    uint64_t count;

    if (absent_ok && !meta_find(m, key))
        return B2_OK;
    enum b2_status rc = meta_get_strs(m, key, &strs, &count, err);
    if (rc)
        return rc;
    *out = mem_calloc((size_t)count, sizeof **out);
    if (!*out)
        return err_set(err, B2_ENOMEM, "out of memory for %s", key);
    for (uint64_t i = 0; i < count; i++)
        (*out)[i] = (struct tok_piece){strs[i].data, strs[i].len};
    *n = (int64_t)count;
    return B2_OK;
}

/* An id key, -1 when absent. */
static enum b2_status get_id(int32_t *out, const struct meta *m, const char *key,
                             struct b2_err *err)
{
    uint32_t id;

    *out = -1;
    if (!meta_find(m, key))
        return B2_OK;
    enum b2_status rc = meta_get_u32(m, key, &id, err);
    if (rc)
        return rc;
    if (id > INT32_MAX) /* 0xFFFFFFFF is some writers' "none" */
        return id == UINT32_MAX
                   ? B2_OK
                   : err_set(err, B2_EFORMAT, "%s is %u, no token id", key, id);
    *out = (int32_t)id;
    return B2_OK;
}

static enum b2_status get_ids(struct tok_spec *s, const struct meta *m,
                              struct b2_err *err)
{
    enum b2_status rc;

    if ((rc = get_id(&s->bos, m, TK "bos_token_id", err)) ||
        (rc = get_id(&s->eos, m, TK "eos_token_id", err)) ||
        (rc = get_id(&s->eot, m, TK "eot_token_id", err)) ||
        (rc = get_id(&s->unk, m, TK "unknown_token_id", err)) ||
        (rc = get_id(&s->pad, m, TK "padding_token_id", err)))
        return rc;
    /* Many Llama files pad with the id one past the end; nothing here ever pads. */
    if (s->pad >= s->n_tokens)
        s->pad = -1;
    return B2_OK;
}

static enum b2_status get_switch(enum tok_switch *out, const struct meta *m,
                                 const char *key, struct b2_err *err)
{
    bool on = false;

    *out = TOK_BY_PRE;
    if (!meta_find(m, key))
        return B2_OK;
    enum b2_status rc = meta_get_bool(m, key, &on, err);
    *out = on ? TOK_ON : TOK_OFF;
    return rc;
}

static enum b2_status get_prefix(struct tok_spec *s, const struct meta *m,
                                 struct b2_err *err)
{
    static const char *const names[] = {
        [TOK_PREFIX_NONE] = "none",
        [TOK_PREFIX_ALWAYS] = "always",
        [TOK_PREFIX_UNLESS_SPACE] = "unless_space",
        [TOK_PREFIX_FIRST] = "first",
    };
    const char *name;
    bool on;
    enum b2_status rc = meta_opt_bool(m, TK "add_space_prefix", &on, true, err);

    if (!rc)
        rc = meta_opt_str(m, OURS "space_prefix", &name, on ? "always" : "none", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < countof(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            s->space_prefix = (enum tok_prefix)i;
            return B2_OK;
        }
    }
    return err_set(
        err, B2_EUNSUP,
        OURS "space_prefix is \"%.32s\"; known: none, always, unless_space, first",
        name);
}

/* An array with one value per token, or NULL. */
static enum b2_status get_flags(const bool **out, const struct meta *m, const char *key,
                                int64_t n, struct b2_err *err)
{
    const struct meta_kv *kv = meta_find(m, key);

    if (!kv)
        return B2_OK;
    if (kv->type != MT_ARR || kv->elem != MT_BOOL || kv->n != (uint64_t)n)
        return err_set(err, B2_EFORMAT, "%s is not an array of %lld bools", key,
                       (long long)n);
    /* A bool on disk may be any byte; as a C bool only 0 and 1 may be read. */
    const uint8_t *raw = kv->v.raw;
    for (int64_t i = 0; i < n; i++) {
        if (raw[i] > 1)
            return err_set(err, B2_EFORMAT, "%s: value %lld is no bool", key,
                           (long long)i);
    }
    *out = kv->v.raw;
    return B2_OK;
}

static enum b2_status wrong_count(const char *key, uint64_t n, int64_t want,
                                  struct b2_err *err)
{
    return err_set(err, B2_EFORMAT, "%s has %llu values for %lld tokens", key,
                   (unsigned long long)n, (long long)want);
}

static enum b2_status get_per_token(struct tok_spec *s, const struct meta *m,
                                    struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    uint64_t n = 0;

    if (meta_find(m, TK "token_type")) {
        rc = meta_get_i32s(m, TK "token_type", &s->attrs, &n, err);
        if (!rc && n != (uint64_t)s->n_tokens)
            rc = wrong_count(TK "token_type", n, s->n_tokens, err);
    }
    if (!rc && s->kind == TOK_SPM && (!s->merges || meta_find(m, TK "scores"))) {
        rc = meta_get_f32s(m, TK "scores", &s->scores, &n, err);
        if (!rc && n != (uint64_t)s->n_tokens)
            rc = wrong_count(TK "scores", n, s->n_tokens, err);
    }
    if (!rc)
        rc = get_flags(&s->lstrip, m, OURS "lstrip", s->n_tokens, err);
    if (!rc)
        rc = get_flags(&s->rstrip, m, OURS "rstrip", s->n_tokens, err);
    return rc;
}

static enum b2_status get_kind(struct tok_spec *s, const struct meta *m,
                               struct b2_err *err)
{
    const char *model;
    enum b2_status rc = meta_get_str(m, TK "model", &model, err);

    if (rc)
        return rc;
    if (strcmp(model, "gpt2") == 0) {
        s->kind = TOK_BPE;
        return meta_opt_str(m, TK "pre", &s->pre, "(none)", err);
    }
    if (strcmp(model, "llama") == 0) {
        s->kind = TOK_SPM;
        return get_prefix(s, m, err);
    }
    return err_set(err, B2_EUNSUP,
                   TK "model is \"%.64s\"; known: gpt2 (byte-level BPE), llama "
                      "(SentencePiece-style BPE)",
                   model);
}

static enum b2_status fill_spec(struct tok_spec *s, struct lists *own,
                                const struct meta *m, struct b2_err *err)
{
    enum b2_status rc;

    if ((rc = get_kind(s, m, err)) ||
        (rc = get_pieces(&own->tokens, &s->n_tokens, m, TK "tokens", false, err)) ||
        (rc = get_pieces(&own->merges, &s->n_merges, m, TK "merges", s->kind == TOK_SPM,
                         err)))
        return rc;
    s->tokens = own->tokens;
    s->merges = own->merges;
    if ((rc = get_per_token(s, m, err)) || (rc = get_ids(s, m, err)) ||
        (rc = get_switch(&s->add_bos, m, TK "add_bos_token", err)) ||
        (rc = get_switch(&s->add_eos, m, TK "add_eos_token", err)) ||
        (rc = get_switch(&s->nfc, m, OURS "nfc", err)) ||
        (rc = get_switch(&s->ignore_merges, m, OURS "ignore_merges", err)))
        return rc;
    return B2_OK;
}

enum b2_status vocab_tokenizer(struct tokenizer **out, const struct meta *m,
                               struct b2_err *err)
{
    struct lists own = {0};
    struct tok_spec spec = {0};
    enum b2_status rc = fill_spec(&spec, &own, m, err);

    if (!rc)
        rc = tok_new(out, &spec, err);
    if (rc == B2_EUNSUP && spec.kind == TOK_BPE && !meta_find(m, TK "pre"))
        err_wrap(err,
                 TK "pre is missing (a file from before April 2024: convert the model "
                    "again, or set the key)");
    mem_free(own.tokens);
    mem_free(own.merges);
    return rc;
}
