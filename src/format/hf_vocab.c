/*
 * hf_vocab.c - the vocabulary, the added tokens and the merges of a tokenizer.json.
 *
 * The JSON lists tokens by text; the arrays of GGUF are by id. Ids that nothing names
 * become unused tokens "[PAD7]", which no text can reach.
 */
#include "base/mem.h"
#include "format/hf_tokenizer_int.h"

#include <stdio.h>
#include <string.h>

enum { PAD_NAME = 16 }; /* "[PAD16777215]" and its zero */

const char *hf_vocab_str(const cJSON *obj, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(obj, key));
}

bool hf_vocab_bool(const cJSON *obj, const char *key, bool def)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, key);

    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : def;
}

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for tokenizer.json");
}

/* A token id from the JSON. */
static enum b2_status get_id(const cJSON *item, const char *text, uint64_t *id,
                             struct b2_err *err)
{
    if (json_get_u64(item, id) && *id < HF_MAX_TOKENS)
        return B2_OK;
    return err_set(err, B2_EFORMAT, "tokenizer.json: token \"%.64s\" has no usable id",
                   text);
}

/* The highest id of vocabulary and added tokens, plus one. */
static enum b2_status count_ids(int64_t *n, const cJSON *vocab, const cJSON *added,
                                struct b2_err *err)
{
    const cJSON *item = NULL;
    enum b2_status rc = B2_OK;
    uint64_t id = 0;

    *n = 0;
    cJSON_ArrayForEach(item, vocab)
    {
        rc = get_id(item, item->string, &id, err);
        if (rc)
            return rc;
        *n = max_i64(*n, (int64_t)id + 1);
    }
    cJSON_ArrayForEach(item, added)
    {
        const char *text = hf_vocab_str(item, "content");
        if (!text)
            return err_set(err, B2_EFORMAT,
                           "tokenizer.json: an added token has no content");
        rc = get_id(cJSON_GetObjectItemCaseSensitive(item, "id"), text, &id, err);
        if (rc)
            return rc;
        *n = max_i64(*n, (int64_t)id + 1);
    }
    return B2_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

static bool is_byte_text(const char *s)
{
    return strlen(s) == 6 && strncmp(s, "<0x", 3) == 0 && is_hex(s[3]) &&
           is_hex(s[4]) && s[5] == '>';
}

static enum b2_status read_tokens(struct hf_vocab *v, const cJSON *vocab, bool spm,
                                  struct b2_err *err)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, vocab)
    {
        uint64_t id = 0;
        enum b2_status rc = get_id(item, item->string, &id, err);
        if (rc)
            return rc;
        if (v->tokens[id].data)
            return err_set(err, B2_EFORMAT,
                           "tokenizer.json: \"%.64s\" and \"%.64s\" both have id %llu",
                           v->tokens[id].data, item->string, (unsigned long long)id);
        v->tokens[id] = (struct meta_str){item->string, strlen(item->string)};
        v->types[id] = spm && is_byte_text(item->string) ? HF_BYTE : HF_NORMAL;
    }
    return B2_OK;
}

/* One flag array for all tokens, made when the first token sets it. */
static bool set_flag(bool **flags, int64_t n, uint64_t id)
{
    if (!*flags)
        *flags = mem_calloc((size_t)n, sizeof **flags);
    if (*flags)
        (*flags)[id] = true;
    return *flags != NULL;
}

/* Added tokens keep their literal text, also where the vocabulary lists them too. */
static enum b2_status read_added(struct hf_vocab *v, const cJSON *added,
                                 const char *unk, bool spm, struct b2_err *err)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, added)
    {
        const char *text = hf_vocab_str(item, "content");
        uint64_t id = 0;
        enum b2_status rc =
            get_id(cJSON_GetObjectItemCaseSensitive(item, "id"), text, &id, err);
        if (rc)
            return rc;
        if (hf_vocab_bool(item, "single_word", false))
            return err_set(
                err, B2_EUNSUP,
                "tokenizer.json: added token \"%.64s\" is single_word, which is "
                "not known here",
                text);
        v->tokens[id] = (struct meta_str){text, strlen(text)};
        v->types[id] = hf_vocab_bool(item, "special", false) ? HF_CONTROL : HF_USER;
        if (spm && unk && strcmp(text, unk) == 0)
            v->types[id] = HF_UNKNOWN;
        if ((hf_vocab_bool(item, "lstrip", false) && !set_flag(&v->lstrip, v->n, id)) ||
            (hf_vocab_bool(item, "rstrip", false) && !set_flag(&v->rstrip, v->n, id)))
            return no_memory(err);
    }
    return B2_OK;
}

static enum b2_status fill_holes(struct hf_vocab *v, struct b2_err *err)
{
    size_t holes = 0;

    for (int64_t i = 0; i < v->n; i++)
        holes += v->tokens[i].data == NULL;
    v->pad_pool = mem_calloc(holes + 1, PAD_NAME);
    if (!v->pad_pool)
        return no_memory(err);
    char *name = v->pad_pool;
    for (int64_t i = 0; i < v->n; i++) {
        if (v->tokens[i].data)
            continue;
        int len = snprintf(name, PAD_NAME, "[PAD%lld]", (long long)i);
        v->tokens[i] = (struct meta_str){name, (size_t)len};
        v->types[i] = HF_UNUSED;
        name += PAD_NAME;
    }
    return B2_OK;
}

/* The two sides of a merge: "left right", or ["left", "right"]. */
static bool merge_sides(const cJSON *item, const char **left, size_t *n_left,
                        const char **right)
{
    if (cJSON_IsString(item)) {
        const char *s = item->valuestring;
        const char *space = s[0] ? strchr(s + 1, ' ') : NULL;
        if (!space)
            return false;
        *left = s;
        *n_left = (size_t)(space - s);
        *right = space + 1;
    } else {
        *left = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
        *right = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
        if (!*left || !*right || cJSON_GetArraySize(item) != 2)
            return false;
        *n_left = strlen(*left);
    }
    /* A space inside a side could not be told from the one between them. */
    return *n_left > 0 && **right && !memchr(*left + 1, ' ', *n_left - 1) &&
           !strchr(*right, ' ');
}

static enum b2_status read_merges(struct hf_vocab *v, const cJSON *merges,
                                  struct b2_err *err)
{
    const cJSON *item = NULL;
    const char *left, *right;
    size_t n_left, total = 1;
    int64_t n = 0;

    if (!cJSON_IsArray(merges))
        return err_set(err, B2_EFORMAT, "tokenizer.json: model.merges is no list");
    cJSON_ArrayForEach(item, merges)
    {
        if (!merge_sides(item, &left, &n_left, &right))
            return err_set(
                err, B2_EFORMAT,
                "tokenizer.json: merge %lld is no pair of texts without spaces",
                (long long)n);
        total += n_left + strlen(right) + 2;
        n++;
    }
    v->merges = mem_calloc((size_t)n, sizeof *v->merges);
    v->merge_pool = mem_calloc(total, 1);
    if (!v->merges || !v->merge_pool)
        return no_memory(err);
    char *p = v->merge_pool;
    cJSON_ArrayForEach(item, merges)
    {
        if (!merge_sides(item, &left, &n_left,
                         &right)) /* cannot happen: checked above */
            break;
        size_t n_right = strlen(right), len = n_left + 1 + n_right;
        memcpy(p, left, n_left);
        p[n_left] = ' ';
        memcpy(p + n_left + 1, right, n_right + 1);
        v->merges[v->n_merges++] = (struct meta_str){p, len};
        p += len + 1;
    }
    return B2_OK;
}

enum b2_status hf_vocab_read(struct hf_vocab *v, const cJSON *root, bool spm,
                             int64_t vocab_size, struct b2_err *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(root, "added_tokens");
    const char *unk = hf_vocab_str(model, "unk_token");
    enum b2_status rc;

    if (!cJSON_IsObject(vocab))
        return err_set(err, B2_EFORMAT, "tokenizer.json: model.vocab is no object");
    rc = count_ids(&v->n, vocab, added, err);
    if (rc)
        return rc;
    if (vocab_size > HF_MAX_TOKENS)
        return err_set(err, B2_EUNSUP, "a vocabulary of %lld tokens",
                       (long long)vocab_size);
    if (vocab_size > 0 && v->n > vocab_size)
        return err_set(err, B2_EFORMAT,
                       "tokenizer.json has ids up to %lld, the model has %lld rows",
                       (long long)v->n - 1, (long long)vocab_size);
    v->n = max_i64(v->n, vocab_size);
    if (v->n == 0)
        return err_set(err, B2_EFORMAT, "tokenizer.json: the vocabulary is empty");
    v->tokens = mem_calloc((size_t)v->n, sizeof *v->tokens);
    v->types = mem_calloc((size_t)v->n, sizeof *v->types);
    if (!v->tokens || !v->types)
        return no_memory(err);
    if ((rc = read_tokens(v, vocab, spm, err)) ||
        (rc = read_added(v, added, unk, spm, err)) || (rc = fill_holes(v, err)))
        return rc;
    return read_merges(v, cJSON_GetObjectItemCaseSensitive(model, "merges"), err);
}

int64_t hf_vocab_find(const struct hf_vocab *v, const char *text)
{
    size_t len = strlen(text);

    for (int64_t i = 0; i < v->n; i++) {
        if (v->tokens[i].len == len && memcmp(v->tokens[i].data, text, len) == 0)
            return i;
    }
    return -1;
}

void hf_vocab_free(struct hf_vocab *v)
{
    mem_free(v->tokens);
    mem_free(v->types);
    mem_free(v->scores);
    mem_free(v->lstrip);
    mem_free(v->rstrip);
    mem_free(v->merges);
    mem_free(v->pad_pool);
    mem_free(v->merge_pool);
}
