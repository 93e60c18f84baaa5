/*
 * tok_build.c - from a vocabulary's lists to the tables that encoding reads.
 *
 * Every token is kept as the bytes it prints. BPE vocabularies store a byte as one of
 * 256 printable characters (GPT-2's alphabet), SentencePiece ones store a space as
 * U+2581 and a byte as <0xXX>; both are undone here, once.
 */
#include "text/tok_int.h"
#include "text/utf8.h"

#include <math.h>
#include <string.h>

/* GPT-2's alphabet: printable Latin-1 stands for itself, the other 68 bytes follow from
 * U+0100 in order. Returns the byte of a code point, -1 if it is none. */
static int unmap_cp(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD))
        return (int)cp;
    if (cp < 0x100 || cp >= 0x144)
        return -1;
    cp -= 0x100; /* 0x00-0x20, 0x7F-0xA0, 0xAD */
    return cp <= 0x20 ? (int)cp : cp <= 0x42 ? (int)cp - 0x21 + 0x7F : 0xAD;
}

int64_t tok_build_unmap(char *out, const char *s, size_t n)
{
    int64_t len = 0;

    for (size_t i = 0; i < n;) {
        size_t used;
        int byte = unmap_cp(utf8_next(s + i, n - i, &used));
        if (byte < 0)
            return -1;
        out[len++] = (char)byte;
        i += used;
    }
    return len;
}

/* U+2581 to a space. Returns the length. */
static int64_t unmap_spaces(char *out, const char *s, size_t n)
{
    int64_t len = 0;

    for (size_t i = 0; i < n;) {
        if (n - i >= 3 && memcmp(s + i, "\xE2\x96\x81", 3) == 0) {
            out[len++] = ' ';
            i += 3;
        } else {
            out[len++] = s[i++];
        }
    }
    return len;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a token text "<0xAB>", -1 if it is another text. */
static int byte_of_text(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

static bool is_added(uint8_t attr)
{
    return attr == TOK_CONTROL || attr == TOK_USER || attr == TOK_UNKNOWN;
}

/* Writes what token i prints to out (at most its stored length); returns how much. */
static int64_t printed(struct tokenizer *t, const struct tok_piece *stored, int64_t i,
                       char *out)
{
    int64_t len = -1;

    if (t->kind == TOK_SPM && t->attr[i] == TOK_BYTE) {
        int byte = byte_of_text(stored->data, stored->len);
        if (byte >= 0) {
            t->byte_id[byte] = (int32_t)i;
            out[0] = (char)byte;
            return 1;
        }
    }
    if (!is_added(t->attr[i]))
        len = t->kind == TOK_BPE ? tok_build_unmap(out, stored->data, stored->len)
                                 : unmap_spaces(out, stored->data, stored->len);
    if (len < 0) { /* added tokens, and texts outside the alphabet, print as stored */
        memcpy(out, stored->data, stored->len);
        len = (int64_t)stored->len;
    }
    return len;
}

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for the tokenizer");
}

static enum b2_status fill_bytes(struct tokenizer *t, const struct tok_spec *spec,
                                 struct b2_err *err)
{
    size_t n = (size_t)t->n, total = 0;

    for (int64_t i = 0; i < t->n; i++)
        total += spec->tokens[i].len;
    t->bytes = arena_calloc(t->arena, n, sizeof *t->bytes);
    t->attr = arena_calloc(t->arena, n, sizeof *t->attr);
    t->end = arena_calloc(t->arena, n, sizeof *t->end);
    char *pool = arena_calloc(t->arena, total + 1, 1);
    if (!t->bytes || !t->attr || !t->end || !pool)
        return no_memory(err);
    for (int64_t i = 0; i < t->n; i++) {
        int32_t attr = spec->attrs ? spec->attrs[i] : TOK_NORMAL;
        /* Undefined types (0 in old files) are ordinary tokens. */
        t->attr[i] =
            (uint8_t)(attr >= TOK_NORMAL && attr <= TOK_BYTE ? attr : TOK_NORMAL);
        int64_t len = printed(t, &spec->tokens[i], i, pool);
        t->bytes[i] = (struct tok_piece){pool, (size_t)len};
        pool += len;
    }
    return B2_OK;
}

/* Adds all tokens of one class; of BPE's normal tokens no two may be the same. */
static enum b2_status add_class(struct tokenizer *t, uint8_t attr, struct b2_err *err)
{
    for (int64_t i = 0; i < t->n; i++) {
        if (t->attr[i] != attr || t->bytes[i].len == 0)
            continue;
        int32_t owner = tok_table_add(&t->table, t->bytes, (int32_t)i);
        if (owner != i && t->kind == TOK_BPE && attr == TOK_NORMAL &&
            t->attr[owner] == TOK_NORMAL)
            return err_set(err, B2_EFORMAT,
                           "tokens %d and %lld of the vocabulary are the same text",
                           owner, (long long)i);
    }
    return B2_OK;
}

/* Byte tokens stay out of the table: "<0x41>" must not be found for "A". */
static enum b2_status fill_table(struct tokenizer *t, struct b2_err *err)
{
    static const uint8_t order[] = {TOK_NORMAL, TOK_USER, TOK_CONTROL, TOK_UNKNOWN,
                                    TOK_UNUSED};
    enum b2_status rc = B2_OK;

    if (!tok_table_init(&t->table, t->arena, t->n))
        return no_memory(err);
    for (size_t i = 0; !rc && i < countof(order); i++)
        rc = add_class(t, order[i], err);
    return rc;
}

static enum b2_status fill_byte_ids(struct tokenizer *t, struct b2_err *err)
{
    int found = 0;

    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        if (t->kind == TOK_BPE) {
            int32_t id = tok_table_find(&t->table, t->bytes, &c, 1);
            t->byte_id[b] = id >= 0 && !is_added(t->attr[id]) ? id : -1;
        }
        found += t->byte_id[b] >= 0;
    }
    if (found == 0 && t->kind == TOK_BPE)
        return err_set(err, B2_EFORMAT,
                       "the vocabulary has no token for any single byte");
    return B2_OK;
}

/* Looks up the stored text of one side of a merge. */
static int32_t find_stored(const struct tokenizer *t, const char *s, size_t n,
                           char *buf)
{
    int64_t len =
        t->kind == TOK_BPE ? tok_build_unmap(buf, s, n) : unmap_spaces(buf, s, n);

    if (len < 0) {
        memcpy(buf, s, n);
        len = (int64_t)n;
    }
    return tok_table_find(&t->table, t->bytes, buf, (size_t)len);
}

/* "left right": the space after the first character divides. */
static enum b2_status add_merge(struct tokenizer *t, const struct tok_piece *m,
                                int64_t rank, char *buf, struct b2_err *err)
{
    const char *space = m->len > 1 ? memchr(m->data + 1, ' ', m->len - 1) : NULL;

    if (space) {
        size_t n_left = (size_t)(space - m->data), n_right = m->len - n_left - 1;
        int32_t left = find_stored(t, m->data, n_left, buf);
        int32_t right = find_stored(t, space + 1, n_right, buf);
        memcpy(buf + m->len, m->data, n_left);
        memcpy(buf + m->len + n_left, space + 1, n_right);
        int32_t id = find_stored(t, buf + m->len, n_left + n_right, buf);
        if (left >= 0 && right >= 0 && id >= 0) {
            tok_pairs_add(&t->pairs, (struct tok_pair){left, right, (int32_t)rank, id});
            return B2_OK;
        }
    }
    return err_set(err, B2_EFORMAT,
                   "merge %lld (\"%.*s\") is not made of tokens of the vocabulary",
                   (long long)rank, m->len < 64 ? (int)m->len : 64, m->data);
}

static enum b2_status fill_merges(struct tokenizer *t, const struct tok_spec *spec,
                                  struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    size_t longest = 0;

    if (!spec->merges)
        return B2_OK;
    if (spec->n_merges < 0 || spec->n_merges > INT32_MAX / 2)
        return err_set(err, B2_EFORMAT, "%lld merges", (long long)spec->n_merges);
    for (int64_t i = 0; i < spec->n_merges; i++)
        longest = spec->merges[i].len > longest ? spec->merges[i].len : longest;
    char *buf = arena_calloc(t->arena, 2, longest + 1);
    if (!buf || !tok_pairs_init(&t->pairs, t->arena, spec->n_merges))
        return no_memory(err);
    for (int64_t i = 0; !rc && i < spec->n_merges; i++)
        rc = add_merge(t, &spec->merges[i], i, buf, err);
    return rc;
}

static enum b2_status fill_scores(struct tokenizer *t, const struct tok_spec *spec,
                                  struct b2_err *err)
{
    if (t->kind != TOK_SPM || spec->merges)
        return B2_OK;
    if (!spec->scores)
        return err_set(err, B2_EARG, "a vocabulary without scores and without merges");
    t->score = arena_calloc(t->arena, (size_t)t->n, sizeof *t->score);
    if (!t->score)
        return no_memory(err);
    for (int64_t i = 0; i < t->n; i++) {
        if (isnan(spec->scores[i]))
            return err_set(err, B2_EFORMAT, "the score of token %lld is not a number",
                           (long long)i);
        t->score[i] = spec->scores[i];
    }
    return B2_OK;
}

static enum b2_status copy_flags(bool **out, struct tokenizer *t, const bool *flags,
                                 struct b2_err *err)
{
    if (!flags)
        return B2_OK;
    *out = arena_calloc(t->arena, (size_t)t->n, sizeof **out);
    if (!*out)
        return no_memory(err);
    memcpy(*out, flags, (size_t)t->n * sizeof **out);
    return B2_OK;
}

static enum b2_status fill_added(struct tokenizer *t, const struct tok_spec *spec,
                                 struct b2_err *err)
{
    size_t total = 0;

    for (int64_t i = 0; i < t->n; i++)
        total += is_added(t->attr[i]) ? t->bytes[i].len : 0;
    if (!tok_added_init(&t->added, t->arena, total))
        return no_memory(err);
    for (int64_t i = 0; i < t->n; i++) {
        if (is_added(t->attr[i]))
            tok_added_add(&t->added, t->bytes[i].data, t->bytes[i].len, (int32_t)i);
    }
    enum b2_status rc = copy_flags(&t->lstrip, t, spec->lstrip, err);
    return rc ? rc : copy_flags(&t->rstrip, t, spec->rstrip, err);
}

/* The texts that end a turn in the chat formats in use. */
static void mark_ends(struct tokenizer *t, const struct tok_spec *spec)
{
    static const char *const names[] = {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<end_of_turn>",
        "<turn|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "<|return|>",
        "<|call|>",
        "<|endofprompt|>",
        "<end_of_utterance>",
        ("<\xEF\xBD\x9C"
         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"), /* DeepSeek */
    };

    for (size_t i = 0; i < countof(names); i++) {
        int32_t id = tok_added_find(&t->added, names[i], strlen(names[i]));
        if (id >= 0)
            t->end[id] = true;
    }
    if (spec->eos >= 0)
        t->end[spec->eos] = true;
    if (spec->eot >= 0)
        t->end[spec->eot] = true;
}

static enum b2_status check_ids(const struct tok_spec *spec, struct b2_err *err)
{
    const int32_t ids[] = {spec->bos, spec->eos, spec->unk, spec->pad, spec->eot};

    if (spec->n_tokens < 1 || spec->n_tokens > INT32_MAX / 2)
        return err_set(err, B2_EFORMAT, "a vocabulary of %lld tokens",
                       (long long)spec->n_tokens);
    for (size_t i = 0; i < countof(ids); i++) {
        if (ids[i] >= spec->n_tokens || ids[i] < -1)
            return err_set(err, B2_EFORMAT,
                           "special token %d is outside the vocabulary of %lld", ids[i],
                           (long long)spec->n_tokens);
    }
    return B2_OK;
}

static bool decide(enum tok_switch s, bool by_pre)
{
    return s == TOK_BY_PRE ? by_pre : s == TOK_ON;
}

enum b2_status tok_build(struct tokenizer *t, const struct tok_spec *spec,
                         struct b2_err *err)
{
    const struct tok_pre_info *info = NULL;
    enum b2_status rc = check_ids(spec, err);

    if (rc)
        return rc;
    t->kind = spec->kind;
    t->n = spec->n_tokens;
    t->bos = spec->bos;
    t->eos = spec->eos;
    t->unk = spec->unk;
    t->prefix = spec->kind == TOK_SPM ? spec->space_prefix : TOK_PREFIX_NONE;
    memset(t->byte_id, 0xFF, sizeof t->byte_id); /* all -1 */
    if (t->kind == TOK_BPE) {
        rc = tok_pre_new(&t->pre, spec->pre ? spec->pre : "(none)", err);
        if (rc)
            return rc;
        info = tok_pre_info(spec->pre);
    }
    t->nfc = decide(spec->nfc, info && info->nfc);
    t->ignore_merges = decide(spec->ignore_merges, info && info->ignore_merges);
    t->add_bos = t->bos >= 0 && decide(spec->add_bos, info ? info->add_bos : true);
    t->add_eos = t->eos >= 0 && decide(spec->add_eos, false);
    if ((rc = fill_bytes(t, spec, err)) || (rc = fill_table(t, err)) ||
        (rc = fill_byte_ids(t, err)) || (rc = fill_merges(t, spec, err)) ||
        (rc = fill_scores(t, spec, err)) || (rc = fill_added(t, spec, err)))
        return rc;
    mark_ends(t, spec);
    return B2_OK;
}
