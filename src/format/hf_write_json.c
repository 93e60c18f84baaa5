/*
 * hf_write_json.c - writes tokenizer.json.
 *
 * Merges of a SentencePiece-style vocabulary: every cut of a piece into two pieces of
 * the vocabulary is a merge, ranked by the piece's score, then by the longer left and
 * the longer right part (generate_merges() of transformers). Where scores are unique,
 * as SentencePiece's BPE trainer makes them, this joins the same pairs in the same
 * order as the scores do.
 */
#include "format/hf_write_vocab.h"

#include "base/mem.h"
#include "format/json.h"
#include "format/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- merges from scores ---- */

struct merge {
    int32_t left, right;      /* token ids */
    float score;              /* of the merged piece */
    uint32_t n_left, n_right; /* lengths in characters, which break ties */
};

struct merges {
    struct merge *m;
    size_t n, cap;
};

/* Whether a byte of UTF-8 continues a character. */
static bool is_inner(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static uint32_t n_chars(const char *s, size_t n)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += !is_inner(s[i]);
    return count;
}

static bool push_merge(struct merges *all, struct merge m)
{
    if (all->n == all->cap) {
        size_t cap = all->cap ? 2 * all->cap : 1024;
        struct merge *grown = mem_realloc(all->m, cap, sizeof *grown);
        if (!grown)
            return false;
        all->m = grown;
        all->cap = cap;
    }
    all->m[all->n++] = m;
    return true;
}

/* Higher scores first; then longer left, longer right, later ids. */
static int by_score(const void *pa, const void *pb)
{
    const struct merge *a = pa, *b = pb;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->n_left != b->n_left)
        return a->n_left > b->n_left ? -1 : 1;
    if (a->n_right != b->n_right)
        return a->n_right > b->n_right ? -1 : 1;
    if (a->left != b->left)
        return a->left > b->left ? -1 : 1;
    return a->right > b->right ? -1 : a->right < b->right;
}

/* All cuts of piece id into two pieces of the vocabulary. buf has room for a piece. */
static bool cuts_of(struct merges *all, const struct hf_write_vocab *v, uint64_t id,
                    const struct names *set, char *buf)
{
    const char *piece = v->tokens[id].data;
    size_t len = v->tokens[id].len;

    for (size_t at = 1; at < len; at++) {
        if (is_inner(piece[at]))
            continue;
        int64_t right = names_find(set, piece + at);
        if (right < 0)
            continue;
        memcpy(buf, piece, at);
        buf[at] = '\0';
        int64_t left = names_find(set, buf);
        if (left < 0)
            continue;
        struct merge m = {(int32_t)left, (int32_t)right, v->scores[id],
                          n_chars(piece, at), n_chars(piece + at, len - at)};
        if (!push_merge(all, m))
            return false;
    }
    return true;
}

/* Fills set with all tokens, in the order of their ids. *longest: bytes of one. */
static enum b2_status name_set(struct names *set, size_t *longest,
                               const struct hf_write_vocab *v, struct b2_err *err)
{
    *longest = 0;
    for (uint64_t i = 0; i < v->n_tokens; i++) {
        enum names_result r = names_add(set, v->tokens[i].data);
        if (r == NAMES_EXISTS)
            return err_set(err, B2_EFORMAT, "token %" PRIu64 " is there twice", i);
        if (r != NAMES_ADDED)
            return err_set(err, B2_ENOMEM, "out of memory for the merges");
        *longest = v->tokens[i].len > *longest ? v->tokens[i].len : *longest;
    }
    return B2_OK;
}

/* Sorted merges of a vocabulary with scores; all->m owned by the caller. */
static enum b2_status score_merges(struct merges *all, const struct hf_write_vocab *v,
                                   struct b2_err *err)
{
    struct names set = {0};
    size_t longest;
    enum b2_status rc = name_set(&set, &longest, v, err);
    char *buf = rc ? NULL : mem_calloc(longest + 1, 1);
    bool ok = buf != NULL;

    for (uint64_t i = 0; ok && i < v->n_tokens; i++) {
        int32_t attr = v->attrs ? v->attrs[i] : HF_ATTR_NORMAL;
        if (attr == HF_ATTR_NORMAL || attr == HF_ATTR_USER)
            ok = cuts_of(all, v, i, &set, buf);
    }
    mem_free(buf);
    names_free(&set);
    if (!rc && !ok)
        rc = err_set(err, B2_ENOMEM, "out of memory for the merges");
    if (!rc && all->n)
        qsort(all->m, all->n, sizeof *all->m, by_score);
    return rc;
}

/* ---- the text ---- */

static void put_token(struct str *out, const struct hf_write_vocab *v, int64_t id)
{
    json_put_string(out, v->tokens[id].data);
}

static const char *word(bool b)
{
    return b ? "true" : "false";
}

/* Tokens that are found in the raw text before anything else happens to it. */
static void put_added(struct str *out, const struct hf_write_vocab *v)
{
    bool first = true;

    str_put(out, "  \"added_tokens\": [");
    for (uint64_t i = 0; i < v->n_tokens; i++) {
        int32_t attr = v->attrs ? v->attrs[i] : HF_ATTR_NORMAL;
        bool special = attr == HF_ATTR_CONTROL || attr == HF_ATTR_UNKNOWN;
        if (!special && attr != HF_ATTR_USER)
            continue;
        str_printf(out, "%s\n    {\"id\": %" PRIu64 ", \"content\": ", first ? "" : ",",
                   i);
        put_token(out, v, (int64_t)i);
        str_printf(out,
                   ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": %s, "
                   "\"normalized\": false, \"special\": %s}",
                   word(v->lstrip && v->lstrip[i]), word(v->rstrip && v->rstrip[i]),
                   word(special));
        first = false;
    }
    str_put(out, "\n  ],\n");
}

/* One piece of a template: a token by its id, or (id < 0) the text of sequence s. */
static void put_piece(struct str *out, const struct hf_write_vocab *v, int64_t id,
                      int s)
{
    if (id >= 0) {
        str_put(out, "{\"SpecialToken\": {\"id\": ");
        put_token(out, v, id);
    } else {
        str_printf(out, "{\"Sequence\": {\"id\": \"%c\"", s ? 'B' : 'A');
    }
    str_printf(out, ", \"type_id\": %d}}", s);
}

/* The template of n_texts texts, each between begin and end token where they are asked
 * for (-1: not). */
static void put_template(struct str *out, const struct hf_write_vocab *v, int64_t bos,
                         int64_t eos, int n_texts)
{
    for (int s = 0; s < n_texts; s++) {
        str_put(out, s ? ", " : "");
        if (bos >= 0) {
            put_piece(out, v, bos, s);
            str_put(out, ", ");
        }
        put_piece(out, v, -1, s);
        if (eos >= 0) {
            str_put(out, ", ");
            put_piece(out, v, eos, s);
        }
    }
}

static void put_template_token(struct str *out, const struct hf_write_vocab *v,
                               int64_t id)
{
    put_token(out, v, id);
    str_put(out, ": {\"id\": ");
    put_token(out, v, id);
    str_printf(out, ", \"ids\": [%" PRId64 "], \"tokens\": [", id);
    put_token(out, v, id);
    str_put(out, "]}");
}

static void put_post_processor(struct str *out, const struct hf_write_vocab *v)
{
    int64_t bos = v->add_bos ? v->bos : -1, eos = v->add_eos ? v->eos : -1;

    if (bos < 0 && eos < 0) {
        str_put(out, "  \"post_processor\": null,\n");
        return;
    }
    str_put(out, "  \"post_processor\": {\"type\": \"TemplateProcessing\", "
                 "\"single\": [");
    put_template(out, v, bos, eos, 1);
    str_put(out, "], \"pair\": [");
    put_template(out, v, bos, eos, 2);
    str_put(out, "], \"special_tokens\": {");
    if (bos >= 0)
        put_template_token(out, v, bos);
    if (eos >= 0 && eos != bos) {
        str_put(out, bos >= 0 ? ", " : "");
        put_template_token(out, v, eos);
    }
    str_put(out, "}},\n");
}

static void put_bpe_pipeline(struct str *out, const struct hf_write_vocab *v)
{
    str_printf(out, "  \"normalizer\": %s,\n  \"pre_tokenizer\": %s,\n",
               v->nfc ? "{\"type\": \"NFC\"}" : "null", v->pre->json);
    put_post_processor(out, v);
    str_put(out, "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                 "\"trim_offsets\": true, \"use_regex\": true},\n");
}

/* U+2581 stands for a space in the pieces. Before the text goes one of them: always (a
 * normaliser, as in Llama 2), or by the rules of a Metaspace step: before every stretch
 * between added tokens unless it begins with a space, or before the first one only. */
static void put_spm_pipeline(struct str *out, const struct hf_write_vocab *v)
{
    bool always = strcmp(v->prefix, "always") == 0;
    bool none = strcmp(v->prefix, "none") == 0;

    if (always || none) {
        str_put(out, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
        if (always)
            str_put(out, "{\"type\": \"Prepend\", \"prepend\": \"\u2581\"}, ");
        str_put(out, "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
                     "\"content\": \"\u2581\"}]},\n  \"pre_tokenizer\": null,\n");
    } else {
        str_printf(out,
                   "  \"normalizer\": null,\n  \"pre_tokenizer\": {\"type\": "
                   "\"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": "
                   "\"%s\", \"split\": false},\n",
                   strcmp(v->prefix, "first") == 0 ? "first" : "always");
    }
    put_post_processor(out, v);
    str_put(out, "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": ["
                 "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\u2581\"}, "
                 "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
                 "{\"type\": \"Fuse\"}");
    if (!none)
        str_put(out, ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "
                     "\"stop\": 0}");
    str_put(out, "]},\n");
}

/* Merges stand as pairs, which pieces with spaces inside survive. */
static void put_pair(struct str *out, bool first, const char *left, const char *right)
{
    str_put(out, first ? "\n      [" : ",\n      [");
    json_put_string(out, left);
    str_put(out, ", ");
    json_put_string(out, right);
    str_put(out, "]");
}

/* "left right" of GGUF. A piece may itself begin with a space: look from byte 1. */
static enum b2_status put_merges(struct str *out, const struct hf_write_vocab *v,
                                 struct b2_err *err)
{
    for (uint64_t i = 0; i < v->n_merges; i++) {
        const struct meta_str *m = &v->merges[i];
        const char *space = m->len > 1 ? memchr(m->data + 1, ' ', m->len - 1) : NULL;
        if (!space)
            return err_set(err, B2_EFORMAT, "merge %" PRIu64 " is not two pieces", i);
        char *left = mem_dup(m->data, m->len + 1);
        if (!left)
            return err_set(err, B2_ENOMEM, "out of memory for the merges");
        left[space - m->data] = '\0';
        put_pair(out, i == 0, left, space + 1);
        mem_free(left);
    }
    return B2_OK;
}

static enum b2_status put_score_merges(struct str *out, const struct hf_write_vocab *v,
                                       struct b2_err *err)
{
    struct merges all = {0};
    enum b2_status rc = score_merges(&all, v, err);

    for (size_t i = 0; !rc && i < all.n; i++)
        put_pair(out, i == 0, v->tokens[all.m[i].left].data,
                 v->tokens[all.m[i].right].data);
    mem_free(all.m);
    return rc;
}

static enum b2_status put_model(struct str *out, const struct hf_write_vocab *v,
                                struct b2_err *err)
{
    bool spm = v->kind == HF_WRITE_SPM;
    enum b2_status rc;

    str_put(out, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                 "    \"unk_token\": ");
    if (spm && v->unk >= 0)
        put_token(out, v, v->unk);
    else
        str_put(out, "null");
    str_printf(out,
               ",\n    \"continuing_subword_prefix\": null,\n"
               "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": %s,\n"
               "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n"
               "    \"vocab\": {",
               word(spm), word(spm), word(v->ignore_merges));
    for (uint64_t i = 0; i < v->n_tokens; i++) {
        str_put(out, i ? ",\n      " : "\n      ");
        put_token(out, v, (int64_t)i);
        str_printf(out, ": %" PRIu64, i);
    }
    str_put(out, "\n    },\n    \"merges\": [");
    rc = v->scores ? put_score_merges(out, v, err) : put_merges(out, v, err);
    str_put(out, "\n    ]\n  }\n}\n");
    return rc;
}

enum b2_status hf_write_vocab_json(struct str *out, const struct hf_write_vocab *v,
                                   struct b2_err *err)
{
    enum b2_status rc;

    for (uint64_t i = 0; i < v->n_tokens; i++) {
        if (strlen(v->tokens[i].data) != v->tokens[i].len)
            return err_set(err, B2_EUNSUP, "token %" PRIu64 " has a zero byte inside",
                           i);
    }
    str_put(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                 "  \"padding\": null,\n");
    put_added(out, v);
    if (v->kind == HF_WRITE_BPE)
        put_bpe_pipeline(out, v);
    else
        put_spm_pipeline(out, v);
    rc = put_model(out, v, err);
    if (rc)
        return rc;
    return str_ok(out) ? B2_OK
                       : err_set(err, B2_ENOMEM, "out of memory for the tokenizer");
}
