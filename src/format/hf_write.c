/*
 * hf_write.c - config.json and its kin.
 *
 * Everything that changes the arithmetic is written or refused; the inverse of
 * hf_config.c and hf_rope.c.
 */
#include "format/hf_write.h"

#include "base/file.h"
#include "base/str.h"
#include "format/hf.h"
#include "format/hf_write_vocab.h"
#include "format/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum b2_status hf_write_check(const struct meta *m, struct b2_err *err)
{
    const char *arch;
    enum b2_status rc = meta_get_str(m, "general.architecture", &arch, err);

    if (!rc && strcmp(arch, "llama") != 0)
        rc = err_set(err, B2_EUNSUP,
                     "architecture %.40s: only `llama` models become a Hugging Face "
                     "folder; export to a GGUF format instead",
                     arch);
    return rc;
}

/* ---- tensors ---- */

/* "blk.17.rest" gives 17 and rest; NULL for other names. */
static const char *block_of(const char *name, unsigned long *layer)
{
    char *end;

    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return NULL;
    *layer = strtoul(name + 4, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

/* The head counts are read again for each tensor: they were checked when the file was
 * opened as a model, and an absent one means "as many as query heads". */
static int64_t heads_of(const struct meta *m, const struct hf_tensor *t)
{
    uint32_t q = 0, kv = 0;

    if (t->change == HF_AS_IS ||
        meta_opt_u32(m, "llama.attention.head_count", &q, 0, NULL) ||
        meta_opt_u32(m, "llama.attention.head_count_kv", &kv, q, NULL))
        return 0;
    return t->change == HF_HEADS_Q ? q : kv;
}

bool hf_write_name(char out[HF_WRITE_NAME_MAX], int64_t *heads, const struct meta *m,
                   const char *gguf_name)
{
    unsigned long layer = 0;
    const char *rest = block_of(gguf_name, &layer);
    const struct hf_arch *arch = hf_arch_find("LlamaForCausalLM");

    for (const struct hf_tensor *t = arch->tensors; t->hf; t++) {
        if (t->in_layer != (rest != NULL) ||
            strcmp(t->gguf, rest ? rest : gguf_name) != 0)
            continue;
        if (rest)
            (void)snprintf(out, HF_WRITE_NAME_MAX, "model.layers.%lu.%s", layer, t->hf);
        else
            (void)snprintf(out, HF_WRITE_NAME_MAX, "%s", t->hf);
        *heads = heads_of(m, t);
        return true;
    }
    return false;
}

int64_t hf_write_row(int64_t r, int64_t rows, int64_t heads)
{
    int64_t dim = rows / heads, head = r / dim, at = r % dim;

    return head * dim + 2 * (at % (dim / 2)) + at / (dim / 2);
}

/* ---- JSON ---- */

/* The shortest decimal number that reads back as v; whole numbers as 100000.0. */
static void put_f32(struct str *s, float v)
{
    char buf[32];
    int digits = 1;

    if (v == floorf(v) && fabsf(v) < 1e9f) {
        str_printf(s, "%.1f", (double)v);
        return;
    }
    do {
        (void)snprintf(buf, sizeof buf, "%.*g", digits, (double)v);
    } while (strtof(buf, NULL) != v && digits++ < 9);
    str_put(s, buf);
}

static void put_key(struct str *s, const char *key)
{
    str_printf(s, "%s\n  \"%s\": ", s->len > 1 ? "," : "", key);
}

static void put_int(struct str *s, const char *key, int64_t v)
{
    put_key(s, key);
    str_printf(s, "%" PRId64, v);
}

static void put_bool(struct str *s, const char *key, bool v)
{
    put_key(s, key);
    str_put(s, v ? "true" : "false");
}

static void put_word(struct str *s, const char *key, const char *v)
{
    put_key(s, key);
    json_put_string(s, v);
}

static enum b2_status write_text(const char *dir, const char *name, struct str *s,
                                 bool force, struct b2_err *err)
{
    struct str path = {0};
    enum b2_status rc;

    str_printf(&path, "%s/%s", dir, name);
    if (!str_ok(&path) || !str_ok(s))
        rc = err_set(err, B2_ENOMEM, "%s: out of memory", name);
    else
        rc = file_write_all(path.data, s->data, s->len, force, err);
    str_free(&path);
    return rc;
}

/* ---- rotary positions ---- */

/* The divisor that llama3 scaling gives pair i; see hf_rope.c. */
static float llama3_divisor(float theta, int64_t i, int64_t head_dim, float factor,
                            float low, float high, float orig)
{
    float freq = 1.0f / powf(theta, (float)(2 * i) / (float)head_dim);
    float wave = (float)(2 * 3.14159265358979323846) / freq;

    if (wave < orig / high)
        return 1.0f;
    if (wave > orig / low)
        return factor;
    float s = (orig / wave - low) / (high - low);
    return 1.0f / ((1.0f - s) / factor + s);
}

/* A GGUF holds the divisors, config.json the four numbers behind them. The published
 * models use these; the tensor says which, or that it is something else. */
static enum b2_status put_llama3(struct str *s, const struct hf_write_model *w,
                                 float theta, struct b2_err *err)
{
    static const float origs[] = {8192, 4096, 2048, 16384, 32768};
    int64_t n = w->n_rope_factors;
    float factor = 1.0f;

    for (int64_t i = 0; i < n; i++)
        factor = fmaxf(factor, w->rope_factors[i]);
    for (size_t c = 0; c < countof(origs); c++) {
        int64_t i = 0;
        while (i < n && fabsf(llama3_divisor(theta, i, 2 * n, factor, 1, 4, origs[c]) -
                              w->rope_factors[i]) <= 1e-4f * w->rope_factors[i])
            i++;
        if (i < n)
            continue;
        put_key(s, "rope_scaling");
        str_put(s, "{\"rope_type\": \"llama3\", \"factor\": ");
        put_f32(s, factor);
        str_put(s, ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                   "\"original_max_position_embeddings\": ");
        str_printf(s, "%.0f}", (double)origs[c]);
        return B2_OK;
    }
    return err_set(
        err, B2_EUNSUP,
        "rope_freqs.weight is not one of the llama3 scalings that config.json "
        "can say; export to a GGUF format instead");
}

/* A number of the YaRN group that only some files have. */
static enum b2_status put_yarn_part(struct str *s, const struct meta *m,
                                    const char *key, const char *name,
                                    struct b2_err *err)
{
    float v;
    enum b2_status rc;

    if (!meta_find(m, key))
        return B2_OK;
    rc = meta_get_f32(m, key, &v, err);
    if (!rc) {
        str_printf(s, ", \"%s\": ", name);
        put_f32(s, v);
    }
    return rc;
}

static enum b2_status put_yarn(struct str *s, const struct meta *m, float factor,
                               struct b2_err *err)
{
    uint32_t orig;
    float attn;
    enum b2_status rc;

    rc = meta_get_u32(m, "llama.rope.scaling.original_context_length", &orig, err);
    if (!rc)
        rc = meta_opt_f32(m, "llama.rope.scaling.yarn_attn_factor", &attn, 1, err);
    if (rc)
        return rc;
    str_put(s, "{\"rope_type\": \"yarn\", \"factor\": ");
    put_f32(s, factor);
    str_printf(s, ", \"original_max_position_embeddings\": %" PRIu32, orig);
    if (attn != 1.0f) { /* config.json has the whole factor, the key what is beside */
        str_put(s, ", \"attention_factor\": ");
        put_f32(s, attn * (factor > 1 ? 0.1f * logf(factor) + 1 : 1));
    }
    rc = put_yarn_part(s, m, "llama.rope.scaling.yarn_beta_fast", "beta_fast", err);
    if (!rc)
        rc = put_yarn_part(s, m, "llama.rope.scaling.yarn_beta_slow", "beta_slow", err);
    str_put(s, "}");
    return rc;
}

static enum b2_status put_rope(struct str *s, const struct hf_write_model *w,
                               struct b2_err *err)
{
    const struct meta *m = w->meta;
    const char *type;
    float theta, factor;
    enum b2_status rc = meta_opt_f32(m, "llama.rope.freq_base", &theta, 10000, err);

    if (!rc)
        rc = meta_opt_f32(m, "llama.rope.scaling.factor", &factor, 0, err);
    if (!rc) /* a factor alone means linear, as llama.cpp reads old files */
        rc = meta_opt_str(m, "llama.rope.scaling.type", &type,
                          factor > 0 ? "linear" : "none", err);
    if (rc)
        return rc;
    put_key(s, "rope_theta");
    put_f32(s, theta);
    if (w->n_rope_factors > 0)
        return put_llama3(s, w, theta, err);
    put_key(s, "rope_scaling");
    if (strcmp(type, "none") == 0 || !(factor > 0)) {
        str_put(s, "null");
    } else if (strcmp(type, "linear") == 0) {
        str_put(s, "{\"rope_type\": \"linear\", \"factor\": ");
        put_f32(s, factor);
        str_put(s, "}");
    } else if (strcmp(type, "yarn") == 0) {
        return put_yarn(s, m, factor, err);
    } else {
        return err_set(
            err, B2_EUNSUP,
            "llama.rope.scaling.type = %.40s has no form in config.json here", type);
    }
    return B2_OK;
}

/* ---- config.json ---- */

/* Keys behind "llama." that another part of the folder says, or that say nothing there. */
static const char *const said[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "vocab_size",
    "attention.sliding_window",
};

static enum b2_status check_keys(const struct meta *m, struct b2_err *err)
{
    for (int64_t i = 0; i < meta_count(m); i++) {
        const char *key = meta_at(m, i)->key;
        bool known = strncmp(key, "llama.", 6) != 0;
        for (size_t k = 0; k < countof(said) && !known; k++)
            known = strcmp(key + 6, said[k]) == 0;
        if (!known)
            return err_set(err, B2_EUNSUP,
                           "key %.80s has no form in a Hugging Face config.json here; "
                           "export to a GGUF format instead",
                           key);
    }
    return B2_OK;
}

static enum b2_status put_sizes(struct str *s, const struct hf_write_model *w,
                                struct b2_err *err)
{
    static const struct {
        const char *key, *name;
    } sizes[] = {
        {"llama.embedding_length", "hidden_size"},
        {"llama.feed_forward_length", "intermediate_size"},
        {"llama.block_count", "num_hidden_layers"},
        {"llama.attention.head_count", "num_attention_heads"},
        {"llama.context_length", "max_position_embeddings"},
    };
    uint32_t v[countof(sizes)], kv, head, rot;
    enum b2_status rc = B2_OK;

    for (size_t i = 0; i < countof(sizes); i++) {
        rc = meta_get_u32(w->meta, sizes[i].key, &v[i], err);
        if (!rc && v[i] == 0)
            rc = err_set(err, B2_EFORMAT, "key %s is 0", sizes[i].key);
        if (rc)
            return rc;
        put_int(s, sizes[i].name, v[i]);
    }
    if ((rc = meta_opt_u32(w->meta, "llama.attention.head_count_kv", &kv, v[3], err)) ||
        (rc = meta_opt_u32(w->meta, "llama.attention.key_length", &head, v[0] / v[3],
                           err)) ||
        (rc = meta_opt_u32(w->meta, "llama.rope.dimension_count", &rot, head, err)))
        return rc;
    if (rot != head)
        return err_set(err, B2_EUNSUP,
                       "llama.rope.dimension_count %" PRIu32 " of heads of %" PRIu32
                       ": LlamaForCausalLM turns whole heads only",
                       rot, head);
    put_int(s, "num_key_value_heads", kv);
    put_int(s, "head_dim", head);
    put_int(s, "vocab_size", w->vocab);
    return B2_OK;
}

static void put_ids(struct str *s, const struct hf_write_vocab *v)
{
    const struct {
        const char *name;
        int64_t id;
    } ids[] = {
        {"bos_token_id", v->bos}, {"eos_token_id", v->eos}, {"pad_token_id", v->pad}};

    for (size_t i = 0; i < countof(ids); i++) {
        put_key(s, ids[i].name);
        if (ids[i].id >= 0)
            str_printf(s, "%" PRId64, ids[i].id);
        else
            str_put(s, "null");
    }
}

static enum b2_status put_config(struct str *s, const struct hf_write_model *w,
                                 const struct hf_write_vocab *v, struct b2_err *err)
{
    const char *type = w->type == DT_F32   ? "float32"
                       : w->type == DT_F16 ? "float16"
                                           : "bfloat16";
    uint32_t window = 0;
    float eps;
    enum b2_status rc = check_keys(w->meta, err);

    if (!rc)
        rc = meta_get_f32(w->meta, "llama.attention.layer_norm_rms_epsilon", &eps, err);
    if (!rc)
        rc = meta_opt_u32(w->meta, "llama.attention.sliding_window", &window, 0, err);
    if (rc)
        return rc;
    str_put(s, "{");
    put_key(s, "architectures");
    str_put(s, window ? "[\"MistralForCausalLM\"]" : "[\"LlamaForCausalLM\"]");
    put_word(s, "model_type", window ? "mistral" : "llama");
    rc = put_sizes(s, w, err);
    if (rc)
        return rc;
    put_word(s, "hidden_act", "silu");
    put_key(s, "rms_norm_eps");
    put_f32(s, eps);
    rc = put_rope(s, w, err);
    if (rc)
        return rc;
    if (window)
        put_int(s, "sliding_window", window);
    put_bool(s, "attention_bias", false);
    put_bool(s, "mlp_bias", false);
    put_key(s, "attention_dropout");
    str_put(s, "0.0");
    put_key(s, "initializer_range");
    str_put(s, "0.02");
    put_bool(s, "tie_word_embeddings", w->tied);
    put_bool(s, "use_cache", true);
    put_ids(s, v);
    put_word(s, "torch_dtype", type);
    str_put(s, "\n}\n");
    return B2_OK;
}

/* ---- tokenizer_config.json ---- */

static enum b2_status put_tokenizer_config(struct str *s, const struct meta *m,
                                           const struct hf_write_vocab *v,
                                           struct b2_err *err)
{
    const struct {
        const char *name;
        int64_t id;
    } words[] = {{"bos_token", v->bos},
                 {"eos_token", v->eos},
                 {"pad_token", v->pad},
                 {"unk_token", v->kind == HF_WRITE_SPM ? v->unk : -1}};
    const char *template;
    uint32_t ctx;
    enum b2_status rc =
        meta_opt_str(m, "tokenizer.chat_template", &template, NULL, err);

    if (!rc)
        rc = meta_get_u32(m, "llama.context_length", &ctx, err);
    if (rc)
        return rc;
    str_put(s, "{");
    put_bool(s, "add_bos_token", v->add_bos);
    put_bool(s, "add_eos_token", v->add_eos);
    put_bool(s, "add_prefix_space",
             v->kind == HF_WRITE_SPM && strcmp(v->prefix, "none") != 0);
    for (size_t i = 0; i < countof(words); i++) {
        put_key(s, words[i].name);
        if (words[i].id >= 0)
            json_put_string(s, v->tokens[words[i].id].data);
        else
            str_put(s, "null");
    }
    put_bool(s, "clean_up_tokenization_spaces", false);
    put_int(s, "model_max_length", ctx);
    put_word(s, "tokenizer_class", "PreTrainedTokenizerFast");
    if (template)
        put_word(s, "chat_template", template);
    str_put(s, "\n}\n");
    return B2_OK;
}

enum { TOKENIZER, TOKENIZER_CONFIG, GENERATION, CONFIG, N_FILES };

static const char *const file_names[N_FILES] = {
    [TOKENIZER] = "tokenizer.json",
    [TOKENIZER_CONFIG] = "tokenizer_config.json",
    [GENERATION] = "generation_config.json",
    [CONFIG] = "config.json", /* last: a folder without it is not a model yet */
};

/* All texts; the caller frees them in every case. */
static enum b2_status make_texts(struct str s[N_FILES], const struct hf_write_model *w,
                                 struct b2_err *err)
{
    struct hf_write_vocab v;
    enum b2_status rc = hf_write_vocab_read(&v, w->meta, err);

    if (!rc)
        rc = put_config(&s[CONFIG], w, &v, err);
    if (!rc)
        rc = put_tokenizer_config(&s[TOKENIZER_CONFIG], w->meta, &v, err);
    if (!rc)
        rc = hf_write_vocab_json(&s[TOKENIZER], &v, err);
    if (rc)
        return rc;
    str_put(&s[GENERATION], "{");
    put_bool(&s[GENERATION], "_from_model_config", true);
    put_ids(&s[GENERATION], &v);
    str_put(&s[GENERATION], "\n}\n");
    return B2_OK;
}

static void free_texts(struct str s[N_FILES])
{
    for (int i = 0; i < N_FILES; i++)
        str_free(&s[i]);
}

enum b2_status hf_write_dry(const struct hf_write_model *w, struct b2_err *err)
{
    struct str s[N_FILES] = {{0}};
    enum b2_status rc = make_texts(s, w, err);

    free_texts(s);
    return rc;
}

enum b2_status hf_write_files(const struct hf_write_model *w, const char *dir,
                              bool force, uint64_t *n_bytes, struct b2_err *err)
{
    struct str s[N_FILES] = {{0}};
    enum b2_status rc = make_texts(s, w, err);

    for (int i = 0; !rc && i < N_FILES; i++) {
        rc = write_text(dir, file_names[i], &s[i], force, err);
        *n_bytes += s[i].len;
    }
    free_texts(s);
    return rc;
}
