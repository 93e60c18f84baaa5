/*
 * tokenizer.c - see tokenizer.h. Encoding walks the text from one added token to the
 * next; what lies between goes to BPE (NFC, words, merges) or SPM (prefix, merges).
 */
#include "text/tokenizer.h"

#include "base/mem.h"
#include "base/str.h"
#include "text/tok_int.h"
#include "text/utf8.h"

#include <string.h>

enum b2_status tok_new(struct tokenizer **out, const struct tok_spec *spec,
                       struct b2_err *err)
{
    struct tokenizer *t = mem_calloc(1, sizeof *t);

    if (t)
        t->arena = arena_new(SIZE_MAX / 2);
    if (!t || !t->arena) {
        tok_free(t);
        return err_set(err, B2_ENOMEM, "out of memory for the tokenizer");
    }
    enum b2_status rc = tok_build(t, spec, err);
    if (rc) {
        err_wrap(err, "tokenizer");
        tok_free(t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

void tok_free(struct tokenizer *t)
{
    if (!t)
        return;
    tok_pre_free(t->pre);
    arena_free(t->arena);
    mem_free(t);
}

void tok_ids_free(struct tok_ids *ids)
{
    mem_free(ids->id);
    *ids = (struct tok_ids){0};
}

/* ---- encoding ---- */

struct enc { /* one tok_encode call */
    const struct tokenizer *t;
    struct tok_ids *out;
    struct tok_work work;
    struct tok_words words, tmp;
    struct str nfc, clean, gap; /* normalised, made valid, with space prefix */
    struct b2_err *err;
};

static enum b2_status no_memory(const struct enc *e)
{
    return err_set(e->err, B2_ENOMEM, "out of memory while tokenizing");
}

static bool push(struct tok_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        int64_t cap = ids->cap ? 2 * ids->cap : 64;
        int32_t *p = mem_realloc(ids->id, (size_t)cap, sizeof *p);
        if (!p)
            return false;
        ids->id = p;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return true;
}

/* Emits the merged symbols; bytes that are no token go by byte tokens, or unknown. */
static bool emit(struct enc *e, const char *text)
{
    const struct tokenizer *t = e->t;

    for (size_t i = 0; i < e->work.n_sym; i++) {
        const struct tok_sym *s = &e->work.sym[i];
        if (s->len == 0)
            continue;
        if (s->id >= 0) {
            if (!push(e->out, s->id))
                return false;
            continue;
        }
        if (t->kind == TOK_BPE) /* a byte that the vocabulary lacks */
            continue;
        for (int32_t b = 0; b < s->len; b++) {
            int32_t id = t->byte_id[(uint8_t)text[s->off + b]];
            if (id < 0) { /* one unknown token for the whole character */
                if (t->unk >= 0 && !push(e->out, t->unk))
                    return false;
                break;
            }
            if (!push(e->out, id))
                return false;
        }
    }
    return true;
}

/* One word of byte-level BPE. */
static bool bpe_word(struct enc *e, const char *s, size_t n)
{
    const struct tokenizer *t = e->t;

    if (t->ignore_merges) {
        int32_t id = tok_table_find(&t->table, t->bytes, s, n);
        if (id >= 0 && t->attr[id] == TOK_NORMAL)
            return push(e->out, id);
    }
    e->work.n_sym = 0;
    if (!tok_merge_reserve(&e->work, n))
        return false;
    for (size_t i = 0; i < n; i++)
        tok_merge_push(&e->work, i, 1, t->byte_id[(uint8_t)s[i]]);
    return tok_merge_run(&e->work, t, s) && emit(e, s);
}

static enum b2_status bpe_gap(struct enc *e, const char *s, size_t n)
{
    size_t begin = 0;

    if (e->t->nfc && !tok_nfc_is_plain(s, n)) {
        str_clear(&e->nfc);
        enum b2_status rc = tok_nfc_put(&e->nfc, s, n, e->err);
        if (rc)
            return rc;
        s = e->nfc.data;
        n = e->nfc.len;
    }
    enum b2_status rc = tok_pre_split(e->t->pre, s, n, &e->words, &e->tmp, e->err);
    for (size_t i = 0; !rc && i < e->words.n; i++) {
        if (!bpe_word(e, s + begin, e->words.end[i] - begin))
            rc = no_memory(e);
        begin = e->words.end[i];
    }
    return rc;
}

/* True when s starts with what the vocabulary sees as a space. */
static bool starts_with_space(const char *s, size_t n)
{
    return (n > 0 && s[0] == ' ') || (n >= 3 && memcmp(s, "\xE2\x96\x81", 3) == 0);
}

static bool wants_prefix(const struct tokenizer *t, const char *s, size_t n, bool first)
{
    switch (t->prefix) {
    case TOK_PREFIX_ALWAYS:
        return true;
    case TOK_PREFIX_UNLESS_SPACE:
        return !starts_with_space(s, n);
    case TOK_PREFIX_FIRST:
        return first && !starts_with_space(s, n);
    case TOK_PREFIX_NONE:
        break;
    }
    return false;
}

/* SPM merges over the whole stretch: there are no words. Inside, a space is a space and
 * U+2581 is one too (tok_build.c did the same to the tokens). */
static enum b2_status spm_gap(struct enc *e, const char *s, size_t n, bool first)
{
    const struct tokenizer *t = e->t;

    str_clear(&e->gap);
    if (wants_prefix(t, s, n, first))
        str_put(&e->gap, " ");
    e->work.n_sym = 0;
    if (!tok_merge_reserve(&e->work, n + 1))
        return no_memory(e);
    for (size_t i = 0; i < n;) {
        size_t used;
        bool space = utf8_next(s + i, n - i, &used) == 0x2581;
        str_putn(&e->gap, space ? " " : s + i, space ? 1 : used);
        i += used;
    }
    if (!str_ok(&e->gap))
        return no_memory(e);
    for (size_t i = 0; i < e->gap.len;) {
        size_t used;
        const char *c = e->gap.data + i;
        (void)utf8_next(c, e->gap.len - i, &used);
        int32_t id = tok_table_find(&t->table, t->bytes, c, used);
        bool plain = id >= 0 && t->attr[id] == TOK_NORMAL;
        tok_merge_push(&e->work, i, used, plain ? id : -1);
        i += used;
    }
    if (!tok_merge_run(&e->work, t, e->gap.data) || !emit(e, e->gap.data))
        return no_memory(e);
    return B2_OK;
}

/* BPE works on characters: every ill-formed prefix becomes U+FFFD first. */
static enum b2_status make_valid(struct enc *e, const char **s, size_t *n)
{
    if (e->t->kind != TOK_BPE || utf8_valid(*s, *n))
        return B2_OK;
    for (size_t i = 0; i < *n;) {
        char buf[4];
        size_t used;
        uint32_t cp = utf8_next(*s + i, *n - i, &used);
        str_putn(&e->clean, buf, (size_t)utf8_put(buf, cp));
        i += used;
    }
    if (!str_ok(&e->clean))
        return no_memory(e);
    *s = e->clean.data;
    *n = e->clean.len;
    return B2_OK;
}

static enum b2_status encode_text(struct enc *e, const char *s, size_t n, bool specials)
{
    enum b2_status rc = make_valid(e, &s, &n);

    for (size_t at = 0; !rc && at < n;) {
        struct tok_match m = tok_added_next(e->t, s, n, at, specials);
        if (m.begin > at)
            rc = e->t->kind == TOK_BPE ? bpe_gap(e, s + at, m.begin - at)
                                       : spm_gap(e, s + at, m.begin - at, at == 0);
        if (!rc && m.id >= 0 && !push(e->out, m.id))
            rc = no_memory(e);
        at = m.end;
    }
    return rc;
}

/* Puts the begin token at position start unless the text brought it. */
static bool add_bos(const struct tokenizer *t, struct tok_ids *out, int64_t start)
{
    if (!t->add_bos || (out->n > start && out->id[start] == t->bos))
        return true;
    if (!push(out, t->bos))
        return false;
    memmove(out->id + start + 1, out->id + start,
            (size_t)(out->n - 1 - start) * sizeof *out->id);
    out->id[start] = t->bos;
    return true;
}

enum b2_status tok_encode(const struct tokenizer *t, const char *text, size_t n,
                          unsigned flags, struct tok_ids *out, struct b2_err *err)
{
    struct enc e = {.t = t, .out = out, .err = err};
    int64_t start = out->n;

    /* Normalisation can treble a text; offsets of symbols are 32 bits. */
    if (n > INT32_MAX / 4)
        return err_set(err, B2_EARG, "%zu bytes are too much text for one call", n);
    enum b2_status rc = encode_text(&e, text, n, (flags & TOK_SPECIAL) != 0);
    if (!rc && (flags & TOK_ADD_BOS)) {
        bool ends = out->n > start && out->id[out->n - 1] == t->eos;
        if (!add_bos(t, out, start) || (t->add_eos && !ends && !push(out, t->eos)))
            rc = no_memory(&e);
    }
    if (rc)
        out->n = start;
    tok_merge_free(&e.work);
    mem_free(e.words.end);
    mem_free(e.tmp.end);
    str_free(&e.nfc);
    str_free(&e.clean);
    str_free(&e.gap);
    return rc;
}

/* ---- decoding and questions ---- */

static bool in_range(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n;
}

const char *tok_bytes(const struct tokenizer *t, int32_t id, bool special, size_t *n)
{
    *n = 0;
    if (!in_range(t, id))
        return NULL;
    if (special || (t->attr[id] != TOK_CONTROL && t->attr[id] != TOK_UNKNOWN))
        *n = t->bytes[id].len;
    return t->bytes[id].data;
}

/* True when the token came from its own text. The unknown token does where every byte
 * has a token, for then nothing is unknown. */
static bool is_added(const struct tokenizer *t, int32_t id)
{
    return t->attr[id] == TOK_CONTROL || t->attr[id] == TOK_USER ||
           (t->attr[id] == TOK_UNKNOWN && t->byte_id[' '] >= 0);
}

enum b2_status tok_decode(const struct tokenizer *t, const int32_t *ids, int64_t n,
                          bool special, struct str *out, struct b2_err *err)
{
    /* Encoding put a space before the word that comes next. */
    bool prefixed = t->prefix != TOK_PREFIX_NONE;

    for (int64_t i = 0; i < n; i++) {
        size_t len;
        const char *s = tok_bytes(t, ids[i], special, &len);
        if (!s)
            return err_set(err, B2_EARG, "token %d is outside the vocabulary of %lld",
                           ids[i], (long long)t->n);
        bool added = is_added(t, ids[i]);
        if (prefixed && !added && len > 0 && s[0] == ' ') {
            s++;
            len--;
        }
        if (added)
            prefixed = t->prefix == TOK_PREFIX_ALWAYS ||
                       t->prefix == TOK_PREFIX_UNLESS_SPACE ||
                       (prefixed && ids[i] == t->bos);
        else
            prefixed = false;
        str_putn(out, s, len);
    }
    return str_ok(out) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory decoding");
}

int64_t tok_count(const struct tokenizer *t)
{
    return t->n;
}

int32_t tok_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tok_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tok_adds_bos(const struct tokenizer *t)
{
    return t->add_bos;
}

bool tok_is_end(const struct tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->end[id];
}

int32_t tok_find(const struct tokenizer *t, const char *text)
{
    size_t n = strlen(text);
    int32_t id = tok_added_find(&t->added, text, n);
    char buf[256];

    if (id >= 0)
        return id;
    if (n > sizeof buf)
        return -1;
    if (t->kind == TOK_BPE) {
        int64_t len = tok_build_unmap(buf, text, n);
        if (len >= 0)
            return tok_table_find(&t->table, t->bytes, buf, (size_t)len);
    }
    return tok_table_find(&t->table, t->bytes, text, n);
}
