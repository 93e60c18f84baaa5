/*
 * hf_config.c - config.json, generation_config.json and tokenizer_config.json as keys.
 */
#include "format/hf.h"
#include "format/json.h"
#include "format/sniff.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VALUES = 200000 };

#define ACTIVATION "(of the architecture)"

/* Settings that would change the arithmetic: only these values pass. A number is
 * compared with `number`, a word with `word`; null, false and {} pass always. */
static const struct {
    const char *name;
    double number;
    const char *word;
} neutral[] = {
    {"attention_bias", 0, NULL},
    {"mlp_bias", 0, NULL},
    {"use_bias", 0, NULL},
    {"hidden_act", 0, ACTIVATION},
    {"hidden_activation", 0, ACTIVATION},
    {"partial_rotary_factor", 1, NULL},
    {"rope_interleaved", 0, NULL},
    {"no_rope_layers", 0, NULL},
    {"no_rope_layer_interval", 0, NULL},
    {"rope_local_base_freq", 0, NULL},
    {"quantization_config", 0, NULL},
    {"attn_logit_softcapping", 0, NULL},
    {"final_logit_softcapping", 0, NULL},
    {"logits_scaling", 1, NULL},
    {"logit_scale", 1, NULL},
    {"embedding_multiplier", 1, NULL},
    {"residual_multiplier", 1, NULL},
    {"attention_multiplier", 0, NULL},
    {"query_pre_attn_scalar", 0, NULL},
    {"attn_temperature_tuning", 0, NULL},
    {"use_qk_norm", 0, NULL},
    {"use_sliding_window", 0, NULL},
    {"use_bidirectional_attention", 0, NULL},
    {"qk_layernorm", 0, NULL},
    {"num_local_experts", 0, NULL},
    {"num_experts", 0, NULL},
    {"is_encoder_decoder", 0, NULL},
    {"add_cross_attention", 0, NULL},
    {"pruned_heads", 0, NULL},
    {"layer_types", 0, "full_attention"},
};

/* Settings that are translated below, or that say nothing about the arithmetic. */
static const char *const known[] = {
    "architectures",
    "num_hidden_layers",
    "max_position_embeddings",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "rms_norm_eps",
    "num_key_value_heads",
    "vocab_size",
    "head_dim",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "tie_word_embeddings",
    "sliding_window",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "max_window_layers",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "torch_dtype",
    "dtype",
    "model_type",
    "initializer_range",
    "transformers_version",
    "use_cache",
    "cache_implementation",
    "pretraining_tp",
    "attention_dropout",
    "_name_or_path",
    "is_llama_config",
    "transformers.js_config",
    "unsloth_version",
    "original_max_position_embeddings",
};

/* The sizes: required unless a default stands for them. */
static const struct {
    const char *name, *key; /* key behind "<arch>." */
} sizes[] = {
    {"num_hidden_layers", "block_count"},
    {"max_position_embeddings", "context_length"},
    {"hidden_size", "embedding_length"},
    {"intermediate_size", "feed_forward_length"},
    {"num_attention_heads", "attention.head_count"},
    {"vocab_size", "vocab_size"},
};

static const cJSON *get(const cJSON *root, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

    return cJSON_IsNull(item) ? NULL : item;
}

/* A whole number from 1 to 2^31 - 1. */
static enum b2_status get_size(const cJSON *root, const char *name, uint32_t *out,
                               struct b2_err *err)
{
    const cJSON *item = get(root, name);
    uint64_t v;

    if (!item)
        return err_set(err, B2_ENOTFOUND, "config.json: %s is missing", name);
    if (!json_get_u64(item, &v) || v < 1 || v > INT32_MAX)
        return err_set(err, B2_EFORMAT,
                       "config.json: %s is not a whole number from 1 to 2147483647",
                       name);
    *out = (uint32_t)v;
    return B2_OK;
}

static enum b2_status set_u32(struct meta *m, const struct hf_model *model,
                              const char *name, uint32_t v, struct b2_err *err)
{
    char key[128];

    (void)snprintf(key, sizeof key, "%s.%s", model->arch->gguf, name);
    return meta_set_u32(m, key, v, err);
}

static bool value_is_neutral(const struct hf_arch *arch, const cJSON *item, size_t row)
{
    const char *word = neutral[row].word;

    if (word && strcmp(word, ACTIVATION) == 0)
        word = arch->activation;

    if (cJSON_IsNull(item) || cJSON_IsFalse(item))
        return true;
    if (cJSON_IsNumber(item))
        return !word && item->valuedouble == neutral[row].number;
    if (cJSON_IsString(item))
        return word && strcmp(item->valuestring, word) == 0;
    if (!cJSON_IsArray(item) && !cJSON_IsObject(item))
        return false;
    const cJSON *e;
    cJSON_ArrayForEach(e, item)
    {
        if (!cJSON_IsArray(item) || !value_is_neutral(arch, e, row))
            return false;
    }
    return true;
}

static bool is_own(const struct hf_arch *arch, const char *name)
{
    const char *const *own = arch->own;

    while (*own && strcmp(*own, name) != 0)
        own++;
    return *own != NULL;
}

/* Refuses what would change the result; notes what nobody here knows. */
static enum b2_status check_settings(const struct hf_arch *arch, const cJSON *root,
                                     const struct log *log, struct b2_err *err)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, root)
    {
        bool seen = cJSON_IsNull(item) || is_own(arch, item->string);
        for (size_t i = 0; i < countof(known) && !seen; i++)
            seen = strcmp(known[i], item->string) == 0;
        for (size_t i = 0; i < countof(neutral) && !seen; i++) {
            if (strcmp(neutral[i].name, item->string) != 0)
                continue;
            seen = true;
            if (!value_is_neutral(arch, item, i))
                return err_set(err, B2_EUNSUP,
                               "config.json: setting %s has a value that changes the "
                               "arithmetic in a way that is not supported",
                               neutral[i].name);
        }
        if (!seen && log && log->strict)
            return err_set(err, B2_EUNSUP,
                           "config.json: unknown setting %.60s (--strict)",
                           item->string);
        if (!seen)
            log_line(log, LOG_INFO,
                     "config.json: setting %.60s is not known and not used",
                     item->string);
    }
    return B2_OK;
}

/* The architecture, and the object with the text model's settings. */
static enum b2_status find_arch(struct hf_model *model, const cJSON *top,
                                const cJSON **root, struct b2_err *err)
{
    const cJSON *list = get(top, "architectures");
    const cJSON *name = cJSON_IsArray(list) ? list->child : NULL;

    if (!name || !cJSON_IsString(name))
        return err_set(err, B2_EFORMAT, "config.json: architectures is missing");
    model->arch = hf_arch_find(name->valuestring);
    if (!model->arch)
        return err_set(err, B2_EUNSUP,
                       "config.json: architecture %.60s is not supported (known: %s)",
                       name->valuestring, hf_arch_list());
    *root = model->arch->nested ? get(top, "text_config") : top;
    if (!cJSON_IsObject(*root))
        return err_set(err, B2_EFORMAT,
                       "config.json: text_config is missing, where a %s has the "
                       "settings of its text model",
                       model->arch->hf);
    return B2_OK;
}

/* Heads: their number, their size, and what follows from the size. */
static enum b2_status set_heads(struct meta *m, struct hf_model *model,
                                const cJSON *root, struct b2_err *err)
{
    uint32_t width = 0;
    enum b2_status rc = get_size(root, "num_attention_heads", &model->n_heads, err);

    model->n_kv_heads = model->n_heads;
    if (rc == B2_OK && get(root, "num_key_value_heads"))
        rc = get_size(root, "num_key_value_heads", &model->n_kv_heads, err);
    if (rc == B2_OK)
        rc = set_u32(m, model, "attention.head_count_kv", model->n_kv_heads, err);
    if (rc == B2_OK)
        rc = get_size(root, "hidden_size", &width, err);
    if (rc)
        return rc;
    if (get(root, "head_dim") || model->arch->default_head_dim) {
        model->head_dim = model->arch->default_head_dim;
        if (get(root, "head_dim"))
            rc = get_size(root, "head_dim", &model->head_dim, err);
        if (rc == B2_OK)
            rc = set_u32(m, model, "attention.key_length", model->head_dim, err);
        if (rc == B2_OK)
            rc = set_u32(m, model, "attention.value_length", model->head_dim, err);
    } else if (width % model->n_heads != 0) {
        rc = err_set(err, B2_EFORMAT,
                     "config.json: hidden_size %" PRIu32 " is not a multiple of "
                     "num_attention_heads %" PRIu32,
                     width, model->n_heads);
    } else {
        model->head_dim = width / model->n_heads;
    }
    if (rc == B2_OK && model->head_dim % 2 != 0)
        rc = err_set(err, B2_EFORMAT, "config.json: heads of odd size %" PRIu32,
                     model->head_dim);
    if (rc == B2_OK)
        rc = set_u32(m, model, "rope.dimension_count", model->head_dim, err);
    return rc;
}

static enum b2_status set_general(struct meta *m, const struct hf_model *model,
                                  const cJSON *root, struct b2_err *err)
{
    /* general.file_type of llama.cpp: the type of most weights. */
    static const struct {
        const char *name;
        uint32_t type;
    } files[] = {{"float32", 0}, {"float16", 1}, {"bfloat16", 32}};
    const cJSON *dtype = get(root, "dtype");
    enum b2_status rc = meta_set_str(m, "general.architecture", model->arch->gguf, err);

    if (rc == B2_OK)
        rc = meta_set_str(m, "general.type", "model", err);
    if (!dtype)
        dtype = get(root, "torch_dtype");
    for (size_t i = 0; rc == B2_OK && cJSON_IsString(dtype) && i < countof(files);
         i++) {
        if (strcmp(files[i].name, dtype->valuestring) == 0)
            rc = meta_set_u32(m, "general.file_type", files[i].type, err);
    }
    return rc;
}

/* eos_token_id: a number or a list. The first becomes eos, another one end of turn. */
static enum b2_status set_ends(struct meta *m, const cJSON *item, struct b2_err *err)
{
    const cJSON *first = cJSON_IsArray(item) ? item->child : item;
    enum b2_status rc = B2_OK;
    uint32_t eos = 0;
    uint64_t v;

    if (!item)
        return B2_OK;
    for (const cJSON *e = first; e; e = cJSON_IsArray(item) ? e->next : NULL) {
        if (!json_get_u64(e, &v) || v > INT32_MAX)
            return err_set(err, B2_EFORMAT, "eos_token_id is not a token id");
        if (!meta_find(m, "tokenizer.ggml.eos_token_id"))
            rc = meta_set_u32(m, "tokenizer.ggml.eos_token_id", (uint32_t)v, err);
        if (rc == B2_OK)
            rc = meta_get_u32(m, "tokenizer.ggml.eos_token_id", &eos, err);
        if (rc == B2_OK && v != eos && !meta_find(m, "tokenizer.ggml.eot_token_id"))
            rc = meta_set_u32(m, "tokenizer.ggml.eot_token_id", (uint32_t)v, err);
        if (rc)
            return rc;
    }
    return B2_OK;
}

static enum b2_status translate(struct meta *m, struct hf_model *model,
                                const cJSON *top, const struct log *log,
                                struct b2_err *err)
{
    char key[128];
    const cJSON *root = NULL;
    enum b2_status rc = find_arch(model, top, &root, err);

    if (rc == B2_OK)
        rc = check_settings(model->arch, root, log, err);
    if (rc == B2_OK)
        rc = set_general(m, model, root, err);
    for (size_t i = 0; rc == B2_OK && i < countof(sizes); i++) {
        uint32_t v = 0;
        rc = get_size(root, sizes[i].name, &v, err);
        if (rc == B2_OK)
            rc = set_u32(m, model, sizes[i].key, v, err);
        if (i == 0)
            model->n_layers = v;
    }
    if (rc == B2_OK)
        rc = set_heads(m, model, root, err);
    if (rc)
        return rc;
    const cJSON *eps = get(root, "rms_norm_eps");
    if (eps && !cJSON_IsNumber(eps))
        return err_set(err, B2_EFORMAT, "config.json: rms_norm_eps is not a number");
    (void)snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon",
                   model->arch->gguf);
    rc = meta_set_f32(m, key, eps ? (float)eps->valuedouble : 1e-6f, err);
    if (rc == B2_OK && model->arch->delta)
        rc = hf_delta_meta(m, model, root, err);
    if (rc == B2_OK)
        rc = hf_rope_meta(m, model, root, err);
    if (rc == B2_OK)
        rc = hf_attention_meta(m, model, root, err);
    const cJSON *tied = get(top, "tie_word_embeddings");
    if (!tied)
        tied = get(root, "tie_word_embeddings");
    model->tied = tied ? cJSON_IsTrue(tied) : model->arch->default_tied;
    return rc;
}

/* Parses one JSON object of at most HF_CONFIG_MAX bytes. */
static enum b2_status parse_object(cJSON **out, const char *json, size_t n,
                                   const char *file, struct b2_err *err)
{
    const char *mistake = sniff_mistake(json, n);
    enum b2_status rc;

    if (mistake)
        return err_set(err, B2_EFORMAT, "%s: %s", file, mistake);
    if (n > HF_CONFIG_MAX)
        return err_set(err, B2_EUNSUP, "%s has %zu bytes, at most %d are read", file, n,
                       HF_CONFIG_MAX);
    rc = json_parse_bounded(out, json, n, MAX_VALUES, err);
    if (rc == B2_OK && !cJSON_IsObject(*out)) {
        cJSON_Delete(*out);
        *out = NULL;
        rc = err_set(err, B2_EFORMAT, "not a JSON object");
    }
    if (rc)
        err_wrap(err, "%s", file);
    return rc;
}

enum b2_status hf_config_meta(struct meta *m, struct hf_model *model, const char *json,
                              size_t n, const struct log *log, struct b2_err *err)
{
    cJSON *root = NULL;
    enum b2_status rc = parse_object(&root, json, n, "config.json", err);

    *model = (struct hf_model){0};
    if (rc == B2_OK)
        rc = translate(m, model, root, log, err);
    cJSON_Delete(root);
    return rc;
}

enum b2_status hf_token_ids_meta(struct meta *m, const char *json, size_t n,
                                 const char *file, struct b2_err *err)
{
    cJSON *root = NULL;
    enum b2_status rc = parse_object(&root, json, n, file, err);
    uint64_t bos;

    if (rc)
        return rc;
    const cJSON *text = get(root, "text_config");
    rc = set_ends(m, get(root, "eos_token_id"), err);
    if (rc == B2_OK && !meta_find(m, "tokenizer.ggml.eos_token_id"))
        rc = set_ends(m, get(text, "eos_token_id"), err);
    const cJSON *begin = get(root, "bos_token_id");
    if (!begin)
        begin = get(text, "bos_token_id");
    if (rc == B2_OK && !meta_find(m, "tokenizer.ggml.bos_token_id") &&
        json_get_u64(begin, &bos) && bos <= INT32_MAX)
        rc = meta_set_u32(m, "tokenizer.ggml.bos_token_id", (uint32_t)bos, err);
    if (rc)
        err_wrap(err, "%s", file);
    cJSON_Delete(root);
    return rc;
}

/* The template: a string, or a list of named ones of which "default" is meant. */
static const char *chat_template(const cJSON *root)
{
    const cJSON *item = get(root, "chat_template"), *e;

    if (cJSON_IsString(item))
        return item->valuestring;
    cJSON_ArrayForEach(e, item)
    {
        const cJSON *name = get(e, "name"), *text = get(e, "template");
        if (cJSON_IsString(name) && cJSON_IsString(text) &&
            strcmp(name->valuestring, "default") == 0)
            return text->valuestring;
    }
    return NULL;
}

enum b2_status hf_tokenizer_config_meta(struct meta *m, const char *json, size_t n,
                                        struct b2_err *err)
{
    static const char *const flags[][2] = {
        {"add_bos_token", "tokenizer.ggml.add_bos_token"},
        {"add_eos_token", "tokenizer.ggml.add_eos_token"},
    };
    cJSON *root = NULL;
    enum b2_status rc = parse_object(&root, json, n, "tokenizer_config.json", err);

    if (rc)
        return rc;
    const char *text = chat_template(root);
    if (text && !meta_find(m, "tokenizer.chat_template"))
        rc = meta_set_str(m, "tokenizer.chat_template", text, err);
    for (size_t i = 0; rc == B2_OK && i < countof(flags); i++) {
        const cJSON *flag = get(root, flags[i][0]);
        if (cJSON_IsBool(flag) && !meta_find(m, flags[i][1]))
            rc = meta_set_bool(m, flags[i][1], cJSON_IsTrue(flag), err);
    }
    cJSON_Delete(root);
    return rc;
}
