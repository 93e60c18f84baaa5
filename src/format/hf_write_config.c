/*
 * hf_write_config.c - config.json from GGUF keys.
 *
 * One text for all architectures; the row in hf_arch.c says the names, and the few
 * settings that only one of them has are written by its own function below.
 */
#include "format/hf_write_int.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Keys behind "<arch>." that the text below says, or that say nothing there. */
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
};
static const char *const said_part[] = {"rope.scaling.attn_factor"};
static const char *const said_delta[] = {
    "attention.recurrent_layers",
    "full_attention_interval",
    "rope.dimension_sections",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
};
static const char *const said_window[] = {"attention.sliding_window"};
static const char *const said_pattern[] = {
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "final_logit_softcapping",
    "rope.freq_base_swa",
};

static bool in_list(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static enum b2_status check_keys(const struct hf_doc *d, struct b2_err *err)
{
    const size_t n = strlen(d->arch->gguf);

    for (int64_t i = 0; i < meta_count(d->w->meta); i++) {
        const char *key = meta_at(d->w->meta, i)->key;
        if (strncmp(key, d->arch->gguf, n) != 0 || key[n] != '.')
            continue;
        const char *name = key + n + 1;
        bool known = in_list(name, said, countof(said));
        if (d->arch->rotary_part)
            known = known || in_list(name, said_part, countof(said_part));
        if (d->arch->delta)
            known = known || in_list(name, said_delta, countof(said_delta));
        if (d->arch->window == HF_WINDOW_ALL)
            known = known || in_list(name, said_window, countof(said_window));
        if (d->arch->window == HF_WINDOW_SOME)
            known = known || in_list(name, said_pattern, countof(said_pattern));
        if (!known)
            return err_set(err, B2_EUNSUP,
                           "key %.80s has no form in a Hugging Face config.json here; "
                           "export to a GGUF format instead",
                           key);
    }
    return B2_OK;
}

struct sizes {
    uint32_t width, layers, heads, head;
};

static enum b2_status put_sizes(const struct hf_doc *d, struct sizes *z,
                                struct b2_err *err)
{
    uint32_t f, ctx, kv, rot;
    const struct {
        const char *key, *name;
        uint32_t *v;
    } rows[] = {
        {"embedding_length", "hidden_size", &z->width},
        {"feed_forward_length", "intermediate_size", &f},
        {"block_count", "num_hidden_layers", &z->layers},
        {"attention.head_count", "num_attention_heads", &z->heads},
        {"context_length", "max_position_embeddings", &ctx},
    };
    enum b2_status rc = B2_OK;

    for (size_t i = 0; i < countof(rows); i++) {
        rc = hf_doc_u32(d, rows[i].key, rows[i].v, err);
        if (!rc && *rows[i].v == 0)
            rc = err_set(err, B2_EFORMAT, "key %s.%s is 0", d->arch->gguf, rows[i].key);
        if (rc)
            return rc;
        hf_put_int(d->s, rows[i].name, *rows[i].v);
    }
    if ((rc = hf_doc_opt_u32(d, "attention.head_count_kv", &kv, z->heads, err)) ||
        (rc = hf_doc_opt_u32(d, "attention.key_length", &z->head, z->width / z->heads,
                             err)) ||
        (rc = hf_doc_opt_u32(d, "rope.dimension_count", &rot, z->head, err)))
        return rc;
    if (rot != z->head && !d->arch->rotary_part && !d->arch->delta)
        return err_set(err, B2_EUNSUP,
                       "%s.rope.dimension_count %" PRIu32 " of heads of %" PRIu32
                       ": %s turns whole heads only",
                       d->arch->gguf, rot, z->head, d->arch->hf);
    hf_put_int(d->s, "num_key_value_heads", kv);
    hf_put_int(d->s, "head_dim", z->head);
    hf_put_int(d->s, "vocab_size", d->w->vocab);
    return B2_OK;
}

/* ---- Gemma 3 ---- */

/* Whether a layer slides: a flag per layer, or all but the last of each period. */
static enum b2_status put_layer_types(const struct hf_doc *d, uint32_t layers,
                                      struct b2_err *err)
{
    enum { PERIOD = 6 }; /* where the file does not say */
    char key[HF_KEY_MAX];
    const struct meta_kv *kv =
        meta_find(d->w->meta, hf_doc_key(key, d, "attention.sliding_window_pattern"));
    const uint8_t *flag = NULL;
    uint32_t period = PERIOD;

    if (kv && kv->type == MT_ARR) {
        if (kv->elem != MT_BOOL || kv->n != layers)
            return err_set(err, B2_EFORMAT, "key %s: not a flag for each layer", key);
        flag = kv->v.raw;
    } else {
        enum b2_status rc = meta_opt_u32(d->w->meta, key, &period, PERIOD, err);
        if (rc)
            return rc;
    }
    hf_put_key(d->s, "layer_types");
    for (uint32_t i = 0; i < layers; i++) {
        bool slides = flag ? flag[i] != 0 : period == 0 || i % period < period - 1;
        str_printf(d->s, "%s\"%s\"", i ? ", " : "[",
                   slides ? "sliding_attention" : "full_attention");
    }
    str_put(d->s, "]");
    return B2_OK;
}

/* The divisor below the root of the scores' scale. The 27B divides by the width per head
 * and is known by its 62 layers (model/hparams.c). */
static enum b2_status put_query_scalar(const struct hf_doc *d, const struct sizes *z,
                                       struct b2_err *err)
{
    float scale;
    enum b2_status rc = hf_doc_opt_f32(d, "attention.scale", &scale, 0, err);
    double v = z->layers == 62 ? (double)z->width / z->heads : (double)z->head;

    if (rc)
        return rc;
    if (scale > 0.0f)
        v = 1.0 / ((double)scale * (double)scale);
    if (fabs(v - round(v)) < 1e-4 * v) {
        hf_put_int(d->s, "query_pre_attn_scalar", (int64_t)round(v));
        return B2_OK;
    }
    hf_put_key(d->s, "query_pre_attn_scalar");
    hf_put_f32(d->s, (float)v);
    return B2_OK;
}

static enum b2_status put_gemma(const struct hf_doc *d, const struct sizes *z,
                                struct b2_err *err)
{
    uint32_t window;
    float cap = 0;
    enum b2_status rc = hf_doc_u32(d, "attention.sliding_window", &window, err);

    if (!rc)
        rc = hf_doc_opt_f32(d, "final_logit_softcapping", &cap, 0, err);
    if (rc)
        return rc;
    hf_put_int(d->s, "sliding_window", window);
    hf_put_key(d->s, "final_logit_softcapping");
    if (cap > 0)
        hf_put_f32(d->s, cap);
    else
        str_put(d->s, "null");
    hf_put_key(d->s, "attn_logit_softcapping");
    str_put(d->s, "null");
    rc = put_query_scalar(d, z, err);
    return rc ? rc : put_layer_types(d, z->layers, err);
}

/* ---- gated delta nets ---- */

/* Attention stands in every n-th layer, or where no flag says otherwise. */
static enum b2_status put_delta_layers(const struct hf_doc *d, uint32_t layers,
                                       struct b2_err *err)
{
    char key[HF_KEY_MAX];
    const struct meta_kv *kv =
        meta_find(d->w->meta, hf_doc_key(key, d, "attention.recurrent_layers"));
    const uint8_t *flag = kv ? kv->v.raw : NULL;
    uint32_t interval;
    enum b2_status rc = hf_doc_opt_u32(d, "full_attention_interval", &interval, 4, err);

    if (rc)
        return rc;
    if (kv && (kv->type != MT_ARR || kv->elem != MT_BOOL || kv->n != layers))
        return err_set(err, B2_EFORMAT, "key %s: not a flag for each layer", key);
    hf_put_key(d->s, "layer_types");
    for (uint32_t i = 0; i < layers; i++) {
        bool net = flag ? flag[i] != 0 : interval == 0 || (i + 1) % interval != 0;
        str_printf(d->s, "%s\"%s\"", i ? ", " : "[",
                   net ? "linear_attention" : "full_attention");
    }
    str_put(d->s, "]");
    return B2_OK;
}

static enum b2_status put_delta(const struct hf_doc *d, const struct sizes *z,
                                struct b2_err *err)
{
    uint32_t taps, dim, groups, heads, inner;
    enum b2_status rc;

    if ((rc = hf_doc_u32(d, "ssm.conv_kernel", &taps, err)) ||
        (rc = hf_doc_u32(d, "ssm.state_size", &dim, err)) ||
        (rc = hf_doc_u32(d, "ssm.group_count", &groups, err)) ||
        (rc = hf_doc_u32(d, "ssm.time_step_rank", &heads, err)) ||
        (rc = hf_doc_u32(d, "ssm.inner_size", &inner, err)))
        return rc;
    hf_put_int(d->s, "linear_conv_kernel_dim", taps);
    hf_put_int(d->s, "linear_key_head_dim", dim);
    hf_put_int(d->s, "linear_value_head_dim", heads ? inner / heads : 0);
    hf_put_int(d->s, "linear_num_key_heads", groups);
    hf_put_int(d->s, "linear_num_value_heads", heads);
    hf_put_bool(d->s, "attn_output_gate", true);
    return put_delta_layers(d, z->layers, err);
}

/* ---- the text ---- */

/* A `llama` whose layers slide a window is a Mistral. */
static enum b2_status put_class(const struct hf_doc *d, uint32_t *window,
                                struct b2_err *err)
{
    const char *class = d->arch->hf, *type = d->arch->model_type;
    enum b2_status rc = B2_OK;

    *window = 0;
    if (d->arch->window == HF_WINDOW_ALL)
        rc = hf_doc_opt_u32(d, "attention.sliding_window", window, 0, err);
    if (*window && strcmp(class, "LlamaForCausalLM") == 0) {
        class = "MistralForCausalLM";
        type = "mistral";
    }
    str_put(d->s, "{");
    hf_put_key(d->s, "architectures");
    str_printf(d->s, "[\"%s\"]", class);
    hf_put_word(d->s, "model_type", type);
    return rc;
}

static void put_rest(const struct hf_doc *d, const struct hf_write_vocab *v)
{
    const enum dtype t = d->w->type;

    if (d->arch->attention_bias)
        hf_put_bool(d->s, "attention_bias", false);
    if (strcmp(d->arch->gguf, "llama") == 0)
        hf_put_bool(d->s, "mlp_bias", false);
    hf_put_key(d->s, "attention_dropout");
    str_put(d->s, "0.0");
    hf_put_key(d->s, "initializer_range");
    str_put(d->s, "0.02");
    hf_put_bool(d->s, "tie_word_embeddings", d->w->tied);
    hf_put_bool(d->s, "use_cache", true);
    hf_put_ids(d->s, v);
    hf_put_word(d->s, "torch_dtype",
                t == DT_F32   ? "float32"
                : t == DT_F16 ? "float16"
                              : "bfloat16");
    str_put(d->s, "\n}\n");
}

enum b2_status hf_write_config(const struct hf_doc *d, const struct hf_write_vocab *v,
                               struct b2_err *err)
{
    const bool gemma = d->arch->window == HF_WINDOW_SOME;
    char key[HF_KEY_MAX];
    struct sizes z;
    uint32_t window;
    float eps;
    enum b2_status rc = check_keys(d, err);

    if (!rc)
        rc = meta_get_f32(d->w->meta,
                          hf_doc_key(key, d, "attention.layer_norm_rms_epsilon"), &eps,
                          err);
    if (!rc)
        rc = put_class(d, &window, err);
    if (!rc)
        rc = put_sizes(d, &z, err);
    if (rc)
        return rc;
    hf_put_word(d->s, gemma ? "hidden_activation" : "hidden_act", d->arch->activation);
    hf_put_key(d->s, "rms_norm_eps");
    hf_put_f32(d->s, eps);
    rc = hf_write_rope(d, err);
    if (!rc && gemma)
        rc = put_gemma(d, &z, err);
    if (!rc && d->arch->delta)
        rc = put_delta(d, &z, err);
    if (rc)
        return rc;
    if (window)
        hf_put_int(d->s, "sliding_window", window);
    put_rest(d, v);
    return B2_OK;
}
