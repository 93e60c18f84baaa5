/*
 * hf_tokenizer.c - see hf_tokenizer.h.
 */
#include "format/hf_tokenizer.h"

#include "base/mem.h"
#include "base/str.h"
#include "format/hf_tokenizer_int.h"
#include "format/names.h"

#include <string.h>

#define TK "tokenizer.ggml."
#define OURS "bonsai2.tokenizer."

/* A large vocabulary has some 1.6 million values (gpt-oss: 446,189 pairs). */
enum { HF_MAX_VALUES = 16 << 20 };

static enum b2_status check_model(const cJSON *root, struct b2_err *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const char *type = hf_vocab_str(model, "type");
    const char *prefix = hf_vocab_str(model, "continuing_subword_prefix");
    const char *suffix = hf_vocab_str(model, "end_of_word_suffix");
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");

    if (!cJSON_IsObject(model))
        return err_set(err, B2_EFORMAT, "tokenizer.json: no model");
    /* Files from before the field existed are all BPE: only that has merges. */
    if (!type && cJSON_GetObjectItemCaseSensitive(model, "merges"))
        type = "BPE";
    if (!type || strcmp(type, "BPE") != 0)
        return err_set(err, B2_EUNSUP,
                       "tokenizer.json: model type \"%.64s\"; known: BPE",
                       type ? type : "(none)");
    if ((prefix && *prefix) || (suffix && *suffix))
        return err_set(
            err, B2_EUNSUP,
            "tokenizer.json: continuing_subword_prefix and end_of_word_suffix "
            "are not known here");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble > 0)
        return err_set(err, B2_EUNSUP, "tokenizer.json: dropout makes ids random");
    return B2_OK;
}

/* ---- begin, end and other special tokens ---- */

struct specials {
    int64_t bos, eos, unk, pad; /* -1: none */
    bool add_bos, add_eos;
};

/* config.key: "text" or {"content": "text"}; -1 when absent, null or no token. */
static int64_t find_special(const struct hf_vocab *v, const cJSON *config,
                            const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, key);
    const char *text = cJSON_IsObject(item) ? hf_vocab_str(item, "content")
                                            : cJSON_GetStringValue(item);

    return text ? hf_vocab_find(v, text) : -1;
}

/* The TemplateProcessing step of the post-processor, or NULL. */
static const cJSON *find_template(const cJSON *post)
{
    const char *type = hf_vocab_str(post, "type");
    const cJSON *child = NULL;

    if (type && strcmp(type, "TemplateProcessing") == 0)
        return post;
    cJSON_ArrayForEach(child, cJSON_GetObjectItemCaseSensitive(post, "processors"))
    {
        const cJSON *found = find_template(child); /* as deep as json.h allows */
        if (found)
            return found;
    }
    return NULL;
}

/* What the template puts before and after the text "A". */
static enum b2_status read_template(struct specials *s, const struct hf_vocab *v,
                                    const cJSON *post, struct b2_err *err)
{
    const cJSON *tmpl = find_template(post), *item = NULL;
    bool after = false;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(tmpl, "single"))
    {
        const char *text =
            hf_vocab_str(cJSON_GetObjectItemCaseSensitive(item, "SpecialToken"), "id");
        if (!text) {
            after = true;
            continue;
        }
        int64_t id = hf_vocab_find(v, text);
        int64_t *slot = after ? &s->eos : &s->bos;
        bool *add = after ? &s->add_eos : &s->add_bos;
        if (id < 0 || *add || (*slot >= 0 && *slot != id))
            return err_set(
                err, B2_EUNSUP,
                "tokenizer.json: the post-processor adds \"%.64s\", which is "
                "not the one begin or end token",
                text);
        *slot = id;
        *add = true;
    }
    return B2_OK;
}

static enum b2_status read_specials(struct specials *s, const struct hf_vocab *v,
                                    const cJSON *root, const cJSON *config,
                                    struct b2_err *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *bos = cJSON_GetObjectItemCaseSensitive(config, "add_bos_token");
    const cJSON *eos = cJSON_GetObjectItemCaseSensitive(config, "add_eos_token");
    enum b2_status rc = B2_OK;

    *s = (struct specials){
        .bos = find_special(v, config, "bos_token"),
        .eos = find_special(v, config, "eos_token"),
        .unk = find_special(v, config, "unk_token"),
        .pad = find_special(v, config, "pad_token"),
    };
    if (s->unk < 0)
        s->unk = find_special(v, model, "unk_token");
    /* The classes with the two flags build the template from them. */
    if (!cJSON_IsBool(bos) || !cJSON_IsBool(eos))
        rc = read_template(
            s, v, cJSON_GetObjectItemCaseSensitive(root, "post_processor"), err);
    if (cJSON_IsBool(bos))
        s->add_bos = cJSON_IsTrue(bos) && s->bos >= 0;
    if (cJSON_IsBool(eos))
        s->add_eos = cJSON_IsTrue(eos) && s->eos >= 0;
    return rc;
}

static enum b2_status set_id(struct meta *m, const char *key, int64_t id,
                             struct b2_err *err)
{
    return id < 0 ? B2_OK : meta_set_u32(m, key, (uint32_t)id, err);
}

static enum b2_status set_specials(struct meta *m, const struct specials *s,
                                   struct b2_err *err)
{
    enum b2_status rc;

    if ((rc = set_id(m, TK "bos_token_id", s->bos, err)) ||
        (rc = set_id(m, TK "eos_token_id", s->eos, err)) ||
        (rc = set_id(m, TK "unknown_token_id", s->unk, err)) ||
        (rc = set_id(m, TK "padding_token_id", s->pad, err)) ||
        (rc = meta_set_bool(m, TK "add_bos_token", s->add_bos, err)))
        return rc;
    return meta_set_bool(m, TK "add_eos_token", s->add_eos, err);
}

/* ---- chat templates ---- */

static enum b2_status set_named_template(struct meta *m, const cJSON *item,
                                         struct meta_str *names, uint64_t *n_names,
                                         struct b2_err *err)
{
    const char *name = hf_vocab_str(item, "name");
    const char *text = hf_vocab_str(item, "template");
    struct str key = {0};

    if (!name || !text || strlen(name) > 64)
        return err_set(err, B2_EFORMAT,
                       "tokenizer_config.json: a chat template has no name or text");
    if (strcmp(name, "default") == 0)
        return meta_set_str(m, "tokenizer.chat_template", text, err);
    names[(*n_names)++] = (struct meta_str){name, strlen(name)};
    str_printf(&key, "tokenizer.chat_template.%s", name);
    enum b2_status rc = str_ok(&key) ? meta_set_str(m, key.data, text, err)
                                     : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&key);
    return rc;
}

/* One template, or a list of them with names: the key's name then ends in theirs. */
static enum b2_status set_templates(struct meta *m, const cJSON *config,
                                    struct b2_err *err)
{
    const cJSON *tmpl = cJSON_GetObjectItemCaseSensitive(config, "chat_template");
    const cJSON *item = NULL;
    uint64_t n_names = 0;
    enum b2_status rc = B2_OK;

    if (cJSON_IsString(tmpl))
        return meta_set_str(m, "tokenizer.chat_template", tmpl->valuestring, err);
    if (!cJSON_IsArray(tmpl))
        return B2_OK;
    struct meta_str *names =
        mem_calloc((size_t)cJSON_GetArraySize(tmpl), sizeof *names);
    if (!names)
        return err_set(err, B2_ENOMEM, "out of memory for chat templates");
    cJSON_ArrayForEach(item, tmpl)
    {
        rc = set_named_template(m, item, names, &n_names, err);
        if (rc)
            break;
    }
    if (!rc && n_names > 0)
        rc = meta_set_strs(m, "tokenizer.chat_templates", names, n_names, err);
    mem_free(names);
    return rc;
}

/* ---- the vocabulary's keys ---- */

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for tokenizer.json");
}

/* All token texts as a set; numbers are ids because no text stands twice. */
static enum b2_status name_tokens(struct names *set, const struct hf_vocab *v,
                                  struct b2_err *err)
{
    for (int64_t i = 0; i < v->n; i++) {
        enum names_result r = names_add(set, v->tokens[i].data);
        if (r == NAMES_EXISTS)
            return err_set(err, B2_EFORMAT, "tokenizer.json: \"%.64s\" has two ids",
                           v->tokens[i].data);
        if (r == NAMES_ENOMEM)
            return no_memory(err);
    }
    return B2_OK;
}

/* Id of the token that a merge "left right" makes; joined is scratch. */
static enum b2_status merged_id(int64_t *id, const struct names *set,
                                const struct meta_str *merge, struct str *joined,
                                struct b2_err *err)
{
    const char *space = strchr(merge->data + 1, ' ');

    str_clear(joined);
    str_putn(joined, merge->data, (size_t)(space - merge->data));
    str_put(joined, space + 1);
    if (!str_ok(joined))
        return no_memory(err);
    *id = names_find(set, joined->data);
    return *id >= 0
               ? B2_OK
               : err_set(err, B2_EFORMAT,
                         "tokenizer.json: merge \"%.64s\" makes no token", merge->data);
}

/* Scores for readers that know no merges here: the earlier a merge makes a token, the
 * higher. Tokens that no merge makes lie below all others. */
static enum b2_status make_scores(struct hf_vocab *v, struct b2_err *err)
{
    struct names set = {0};
    struct str joined = {0};
    float *scores = mem_calloc((size_t)v->n, sizeof *scores);
    enum b2_status rc;

    v->scores = scores; /* freed with v */
    if (!scores)
        return no_memory(err);
    rc = name_tokens(&set, v, err);
    for (int64_t i = 0; !rc && i < v->n; i++)
        scores[i] = -(float)(v->n_merges + 1);
    for (int64_t i = v->n_merges - 1; !rc && i >= 0; i--) {
        int64_t id = 0;
        rc = merged_id(&id, &set, &v->merges[i], &joined, err);
        if (!rc)
            scores[id] = -(float)i;
    }
    str_free(&joined);
    names_free(&set);
    return rc;
}

static enum b2_status set_kind(struct meta *m, const struct hf_split *split,
                               bool ignore_merges, struct b2_err *err)
{
    enum b2_status rc = meta_set_str(m, TK "model", split->spm ? "llama" : "gpt2", err);

    if (!rc)
        rc = meta_set_str(m, TK "pre", split->spm ? "default" : split->pre, err);
    if (!rc)
        rc = meta_set_bool(m, TK "add_space_prefix",
                           split->spm && strcmp(split->prefix, "none") != 0, err);
    if (!rc && split->spm)
        return meta_set_str(m, OURS "space_prefix", split->prefix, err);
    if (!rc)
        rc = meta_set_bool(m, OURS "nfc", split->nfc, err);
    return rc ? rc : meta_set_bool(m, OURS "ignore_merges", ignore_merges, err);
}

static enum b2_status set_vocab(struct meta *m, const struct hf_vocab *v,
                                struct b2_err *err)
{
    uint64_t n = (uint64_t)v->n;
    enum b2_status rc = meta_set_strs(m, TK "tokens", v->tokens, n, err);

    if (!rc)
        rc = meta_set_arr(m, TK "token_type", MT_I32, v->types, n, err);
    if (!rc && v->scores)
        rc = meta_set_arr(m, TK "scores", MT_F32, v->scores, n, err);
    if (!rc)
        rc = meta_set_strs(m, TK "merges", v->merges, (uint64_t)v->n_merges, err);
    if (!rc && v->lstrip)
        rc = meta_set_arr(m, OURS "lstrip", MT_BOOL, v->lstrip, n, err);
    if (!rc && v->rstrip)
        rc = meta_set_arr(m, OURS "rstrip", MT_BOOL, v->rstrip, n, err);
    return rc;
}

static enum b2_status translate(struct meta *m, const cJSON *root, const cJSON *config,
                                int64_t vocab_size, struct b2_err *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    bool ignore_merges = hf_vocab_bool(model, "ignore_merges", false);
    struct hf_split split = {0};
    struct hf_vocab v = {0};
    struct specials s;
    enum b2_status rc;

    if ((rc = check_model(root, err)) ||
        (rc = hf_split_read(&split, root, ignore_merges, err)))
        return rc;
    rc = hf_vocab_read(&v, root, split.spm, vocab_size, err);
    if (!rc && split.spm)
        rc = make_scores(&v, err);
    if (!rc)
        rc = read_specials(&s, &v, root, config, err);
    if (!rc)
        rc = set_kind(m, &split, ignore_merges, err);
    if (!rc)
        rc = set_vocab(m, &v, err);
    if (!rc)
        rc = set_specials(m, &s, err);
    if (!rc)
        rc = set_templates(m, config, err);
    hf_vocab_free(&v);
    return rc;
}

enum b2_status hf_tokenizer_meta(struct meta *m, const char *tokenizer_json, size_t n,
                                 const char *tokenizer_config_json, size_t n2,
                                 int64_t vocab_size, struct b2_err *err)
{
    cJSON *root = NULL, *config = NULL;
    enum b2_status rc =
        json_parse_bounded(&root, tokenizer_json, n, HF_MAX_VALUES, err);

    if (rc) {
        err_wrap(err, "tokenizer.json");
        return rc;
    }
    if (tokenizer_config_json) {
        rc = json_parse_bounded(&config, tokenizer_config_json, n2, HF_MAX_VALUES, err);
        if (rc)
            err_wrap(err, "tokenizer_config.json");
    }
    if (!rc)
        rc = translate(m, root, config, vocab_size, err);
    cJSON_Delete(root);
    cJSON_Delete(config);
    return rc;
}
