/*
 * hparams.c - reads an architecture's keys and refuses what would change the result.
 *
 * Differences from llama.cpp: a key that asks for arithmetic that this program does not
 * have is an error here, where others ignore it.
 */
#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 128 };

/* What a reader below works on. */
struct source {
    const struct meta *m;
    const struct arch *arch;
};

/* "<arch>.<name>" in buf. */
static const char *key_of(char buf[KEY_MAX], const struct source *s, const char *name)
{
    snprintf(buf, KEY_MAX, "%s.%s", s->arch->name, name);
    return buf;
}

static bool has_key(const struct source *s, const char *name)
{
    char key[KEY_MAX];

    return meta_find(s->m, key_of(key, s, name)) != NULL;
}

/* Keys that are read below, or that say nothing about the arithmetic. */
static const char *const known_keys[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.recurrent_layers",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "full_attention_interval",
    "nextn_predict_layers",
    "rope.dimension_count",
    "rope.dimension_sections",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "tensor_data_layout",
    "vocab_size",
};

/* Numbers that switch on arithmetic which is not here: only the neutral values pass. */
static const struct {
    const char *name;
    float neutral, also; /* `also`: a second value that some writers use for "off" */
} neutral_keys[] = {
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.output_scale", 1, 0},
    {"attention.temperature_length", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"attn_logit_softcapping", 0, 0},
    {"embedding_scale", 1, 0},
    {"expert_count", 0, 0},
    {"expert_used_count", 0, 0},
    {"final_logit_softcapping", 0, 0},
    {"logit_scale", 1, 0},
    {"residual_scale", 1, 0},
    {"rope.scaling.alpha", 0, 0},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
};

/* A number of any kind, or a flag, as F32. An absent key gives def. */
static enum b2_status get_number(const struct source *s, const char *name, float def,
                                 float *out, struct b2_err *err)
{
    char key[KEY_MAX];
    const struct meta *m = s->m;
    const struct meta_kv *kv = meta_find(m, key_of(key, s, name));
    uint64_t u;
    bool b;
    enum b2_status rc;

    *out = def;
    if (!kv)
        return B2_OK;
    if (kv->type == MT_BOOL) {
        rc = meta_get_bool(m, key, &b, err);
        *out = b && rc == B2_OK ? 1.0f : 0.0f;
        return rc;
    }
    if (kv->type == MT_F32 || kv->type == MT_F64)
        return meta_get_f32(m, key, out, err);
    rc = meta_get_u64(m, key, &u, err);
    if (rc == B2_OK)
        *out = (float)u;
    return rc;
}

/* Limits are far above any real model and keep all products inside 64 bits. */
enum { MAX_LAYERS = HPARAMS_MAX_LAYERS, MAX_WIDTH = 1 << 20, MAX_CTX = 1 << 28 };

/* A count in 1..limit. Some writers give one value per layer: equal ones are taken,
 * others need layers of different shapes, which no architecture here has. */
static enum b2_status get_count(const struct source *s, const char *name, int64_t limit,
                                int64_t *out, struct b2_err *err)
{
    char key[KEY_MAX];
    const struct meta *m = s->m;
    const struct meta_kv *kv = meta_find(m, key_of(key, s, name));
    const int32_t *values;
    uint64_t n, v;
    enum b2_status rc;

    if (kv && kv->type == MT_ARR) {
        rc = meta_get_i32s(m, key, &values, &n, err);
        if (rc)
            return rc;
        if (n == 0 || values[0] < 1)
            return err_set(err, B2_EFORMAT, "key %s: empty or not positive", key);
        for (uint64_t i = 1; i < n; i++)
            if (values[i] != values[0])
                return err_set(
                    err, B2_EUNSUP,
                    "key %s: layers of different sizes (%d, then %d at layer "
                    "%llu) are not supported for `%s`",
                    key, values[0], values[i], (unsigned long long)i, s->arch->name);
        v = (uint64_t)values[0];
    } else {
        rc = meta_get_u64(m, key, &v, err);
        if (rc)
            return rc;
    }
    if (v < 1 || v > (uint64_t)limit)
        return err_set(err, B2_EFORMAT, "key %s: %llu is not in 1..%lld", key,
                       (unsigned long long)v, (long long)limit);
    *out = (int64_t)v;
    return B2_OK;
}

/* A count that may differ from layer to layer: *out is then the largest, and *of has a
 * value for each of the n_layers, all of them in 1..limit. */
static enum b2_status get_counts(const struct source *s, const char *name,
                                 int64_t n_layers, int64_t *out, const int32_t **of,
                                 struct b2_err *err)
{
    char key[KEY_MAX];
    const struct meta_kv *kv = meta_find(s->m, key_of(key, s, name));
    const int32_t *values;
    uint64_t n;
    bool alike = true;

    if (!kv || kv->type != MT_ARR || s->arch->delta || s->arch->fused)
        return get_count(s, name, MAX_WIDTH, out, err);
    enum b2_status rc = meta_get_i32s(s->m, key, &values, &n, err);
    if (rc)
        return rc;
    for (uint64_t i = 1; i < n; i++)
        alike = alike && values[i] == values[0];
    if (alike)
        return get_count(s, name, MAX_WIDTH, out, err);
    if (n != (uint64_t)n_layers)
        return err_set(err, B2_EFORMAT, "key %s: %llu values for %lld layers", key,
                       (unsigned long long)n, (long long)n_layers);
    *out = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (values[i] < 1 || values[i] > MAX_WIDTH)
            return err_set(err, values[i] == 0 ? B2_EUNSUP : B2_EFORMAT,
                           "key %s: %d at layer %llu is not in 1..%d", key, values[i],
                           (unsigned long long)i, MAX_WIDTH);
        *out = max_i64(*out, values[i]);
    }
    *of = values;
    return B2_OK;
}

/* get_count for a key that may be absent; *out keeps its value then. */
static enum b2_status opt_count(const struct source *s, const char *name, int64_t limit,
                                int64_t *out, struct b2_err *err)
{
    return has_key(s, name) ? get_count(s, name, limit, out, err) : B2_OK;
}

/* The size of a head, which values share with keys, and how much of it turns. */
static enum b2_status read_head_size(struct hparams *hp, const struct source *s,
                                     struct b2_err *err)
{
    const char *arch = s->arch->name;
    enum b2_status rc;

    const int64_t heads =
        hparams_heads(hp, 0); /* the first layer's, as llama.cpp does */

    if (!has_key(s, "attention.key_length") && hp->d % heads != 0)
        return err_set(err, B2_EFORMAT,
                       "%s.embedding_length %lld is not a multiple of head_count "
                       "%lld, and no attention.key_length says the head's size",
                       arch, (long long)hp->d, (long long)heads);
    hp->head_dim = hp->d / heads;
    rc = opt_count(s, "attention.key_length", MAX_WIDTH, &hp->head_dim, err);
    if (rc)
        return rc;
    int64_t value_length = hp->head_dim;
    rc = opt_count(s, "attention.value_length", MAX_WIDTH, &value_length, err);
    if (rc)
        return rc;
    if (value_length != hp->head_dim)
        return err_set(err, B2_EUNSUP,
                       "%s.attention.value_length %lld differs from the key length "
                       "%lld: not supported",
                       arch, (long long)value_length, (long long)hp->head_dim);
    hp->n_rot = hp->head_dim;
    rc = opt_count(s, "rope.dimension_count", MAX_WIDTH, &hp->n_rot, err);
    if (rc)
        return rc;
    if (hp->n_rot % 2 != 0 || hp->n_rot > hp->head_dim)
        return err_set(err, B2_EFORMAT,
                       "%s.rope.dimension_count %lld is odd or above the head's "
                       "size %lld",
                       arch, (long long)hp->n_rot, (long long)hp->head_dim);
    return B2_OK;
}

static enum b2_status read_shape(struct hparams *hp, const struct source *s,
                                 struct b2_err *err)
{
    enum b2_status rc;

    if ((rc = get_count(s, "block_count", MAX_LAYERS, &hp->n_layers, err)) ||
        (rc = get_count(s, "embedding_length", MAX_WIDTH, &hp->d, err)) ||
        (rc = get_counts(s, "feed_forward_length", hp->n_layers, &hp->f, &hp->f_of,
                         err)) ||
        (rc = get_counts(s, "attention.head_count", hp->n_layers, &hp->n_heads,
                         &hp->heads_of, err)) ||
        (rc = get_count(s, "context_length", MAX_CTX, &hp->ctx_train, err)))
        return rc;
    hp->n_kv_heads = hp->n_heads;
    hp->kv_heads_of = hp->heads_of;
    if (has_key(s, "attention.head_count_kv")) {
        hp->kv_heads_of = NULL;
        rc = get_counts(s, "attention.head_count_kv", hp->n_layers, &hp->n_kv_heads,
                        &hp->kv_heads_of, err);
        if (rc)
            return rc;
    }
    for (int64_t i = 0; i < hp->n_layers; i++) {
        const int64_t heads = hparams_heads(hp, i), kv = hparams_kv_heads(hp, i);
        if (kv < 1 || heads % kv != 0)
            return err_set(err, B2_EFORMAT,
                           "%s.attention.head_count %lld is not a multiple of "
                           "head_count_kv %lld (layer %lld)",
                           s->arch->name, (long long)heads, (long long)kv,
                           (long long)i);
    }
    return read_head_size(hp, s, err);
}

static enum b2_status read_vocab(struct hparams *hp, const struct source *s,
                                 struct b2_err *err)
{
    const struct meta_kv *tokens = meta_find(s->m, "tokenizer.ggml.tokens");

    if (tokens && tokens->type == MT_ARR && tokens->n > 0 && tokens->n <= INT32_MAX) {
        hp->vocab = (int64_t)tokens->n;
        return B2_OK;
    }
    return get_count(s, "vocab_size", INT32_MAX, &hp->vocab, err);
}

/* Refuses every switch that is on; see neutral_keys. */
static enum b2_status check_neutral(const struct source *s, struct b2_err *err)
{
    float v;
    enum b2_status rc;

    for (size_t i = 0; i < countof(neutral_keys); i++) {
        const char *name = neutral_keys[i].name;
        const float neutral = neutral_keys[i].neutral;
        if (s->arch->final_cap && strcmp(name, "final_logit_softcapping") == 0)
            continue; /* read_scales() */
        rc = get_number(s, name, neutral, &v, err);
        if (rc)
            return rc;
        if (v != neutral && v != neutral_keys[i].also)
            return err_set(err, B2_EUNSUP,
                           "key %s.%s = %g changes the arithmetic in a way that is not "
                           "supported (only %g)",
                           s->arch->name, name, (double)v, (double)neutral);
    }
    rc = get_number(s, "attention.causal", 1, &v, err);
    if (rc == B2_OK && v == 0)
        return err_set(err, B2_EUNSUP,
                       "key %s.attention.causal = false: a model that "
                       "looks ahead is not supported",
                       s->arch->name);
    if (rc == B2_OK && has_key(s, "rope.dimension_sections") && !s->arch->delta)
        return err_set(err, B2_EUNSUP,
                       "key %s.rope.dimension_sections: rotary positions in sections "
                       "are not supported for `%s`",
                       s->arch->name, s->arch->name);
    return rc;
}

/* The kind of position stretching. Without a type a factor means linear, as llama.cpp
 * reads old files. */
static enum b2_status read_scaling_type(struct hparams *hp, const struct source *s,
                                        struct b2_err *err)
{
    static const struct {
        const char *name;
        enum rope_scaling kind;
    } kinds[] = {
        {"none", ROPE_SCALE_NONE},
        {"longrope", ROPE_SCALE_NONE}, /* the divisors are tensors */
        {"linear", ROPE_SCALE_LINEAR},
        {"yarn", ROPE_SCALE_YARN},
    };
    char key[KEY_MAX];
    const char *type;
    enum b2_status rc =
        meta_opt_str(s->m, key_of(key, s, "rope.scaling.type"), &type, "linear", err);

    if (rc)
        return rc;
    for (size_t i = 0; i < countof(kinds); i++) {
        if (strcmp(type, kinds[i].name) == 0 &&
            (s->arch->longrope || strcmp(type, "longrope") != 0)) {
            hp->rope_scaling = kinds[i].kind;
            return B2_OK;
        }
    }
    return err_set(err, B2_EUNSUP,
                   "key %s = %.40s is not supported (none, linear, yarn)", key, type);
}

/* One number of the rope group: its key, where it goes, its default, and whether it
 * must be above zero. */
struct rope_key {
    const char *name;
    float *out;
    float def;
    bool positive;
};

static enum b2_status read_rope(struct hparams *hp, const struct source *s,
                                struct b2_err *err)
{
    float linear, yarn_attn;
    const struct rope_key keys[] = {
        {"rope.freq_base", &hp->rope_base, 10000.0f, true},
        {"rope.freq_base_swa", &hp->rope_base_local, s->arch->local_base, false},
        {"rope.scale_linear", &linear, 1.0f, true},
        {"rope.scaling.factor", &hp->rope_factor, 0.0f, false},
        {"rope.scaling.original_context_length", &hp->rope_orig_ctx,
         (float)hp->ctx_train, true},
        {"rope.scaling.attn_factor", &hp->rope_attn_factor, 1.0f, true},
        {"rope.scaling.yarn_attn_factor", &yarn_attn, 1.0f, true},
        {"rope.scaling.yarn_ext_factor", &hp->yarn_ext, -1.0f, false},
        {"rope.scaling.yarn_beta_fast", &hp->yarn_beta_fast, 32.0f, true},
        {"rope.scaling.yarn_beta_slow", &hp->yarn_beta_slow, 1.0f, true},
    };
    enum b2_status rc = read_scaling_type(hp, s, err);

    for (size_t i = 0; i < countof(keys) && rc == B2_OK; i++) {
        rc = get_number(s, keys[i].name, keys[i].def, keys[i].out, err);
        if (rc == B2_OK &&
            (!isfinite(*keys[i].out) || (keys[i].positive && !(*keys[i].out > 0.0f))))
            return err_set(err, B2_EFORMAT, "key %s.%s: %g is not a usable number",
                           s->arch->name, keys[i].name, (double)*keys[i].out);
    }
    if (rc)
        return rc;
    if (hp->rope_factor < 0.0f)
        return err_set(err, B2_EFORMAT, "key %s.rope.scaling.factor: %g is negative",
                       s->arch->name, (double)hp->rope_factor);
    if (hp->rope_base_local < 0.0f)
        return err_set(err, B2_EFORMAT, "key %s.rope.freq_base_swa: %g is negative",
                       s->arch->name, (double)hp->rope_base_local);
    if (hp->rope_factor == 0.0f) /* absent, or 0 as some writers say "none" */
        hp->rope_factor = linear;
    if (hp->rope_scaling == ROPE_SCALE_LINEAR && hp->rope_factor == 1.0f)
        hp->rope_scaling = ROPE_SCALE_NONE;
    if (hp->yarn_ext < 0.0f) /* unset: full extrapolation mix */
        hp->yarn_ext = 1.0f;
    hp->rope_attn_factor *= yarn_attn;
    return B2_OK;
}

static bool in_window_part(const struct hparams *hp, int64_t layer)
{
    int64_t period = hp->window_period;

    return period == 0 || layer % period < period - 1;
}

/* The smallest period that the flags follow. */
static enum b2_status read_window_flags(struct hparams *hp, const struct meta_kv *kv,
                                        struct b2_err *err)
{
    const uint8_t *flag = kv->v.raw;

    if (kv->elem != MT_BOOL || kv->n != (uint64_t)hp->n_layers)
        return err_set(err, B2_EFORMAT, "key %s: not a flag for each of %lld layers",
                       kv->key, (long long)hp->n_layers);
    for (hp->window_period = 0; hp->window_period <= hp->n_layers;
         hp->window_period++) {
        int64_t i = 0;
        while (i < hp->n_layers && (flag[i] != 0) == in_window_part(hp, i))
            i++;
        if (i == hp->n_layers)
            return B2_OK;
    }
    return err_set(err, B2_EUNSUP,
                   "key %s: sliding layers that follow no period are not supported",
                   kv->key);
}

/* Window, and which layers it is for. The pattern is a period or, as newer writers
 * have it, a flag per layer; flags must follow a period. */
static enum b2_status read_window(struct hparams *hp, const struct source *s,
                                  struct b2_err *err)
{
    static const char name[] = "attention.sliding_window_pattern";
    char key[KEY_MAX];
    float window, period = (float)s->arch->period;
    const struct meta_kv *kv = meta_find(s->m, key_of(key, s, name));
    enum b2_status rc = get_number(s, "attention.sliding_window", 0.0f, &window, err);

    if (rc)
        return rc;
    if (!(window >= 0.0f && window <= (float)MAX_CTX))
        return err_set(err, B2_EFORMAT, "key %s.attention.sliding_window: %g",
                       s->arch->name, (double)window);
    hp->window = (int64_t)window;
    if (kv && kv->type == MT_ARR)
        return read_window_flags(hp, kv, err);
    rc = get_number(s, name, period, &period, err);
    if (rc)
        return rc;
    if (!(period >= 0.0f && period <= MAX_LAYERS) || period != floorf(period))
        return err_set(err, B2_EFORMAT, "key %s: %g is not a period of layers", key,
                       (double)period);
    hp->window_period = (int64_t)period;
    return B2_OK;
}

/* The scale of attention: 1 / sqrt(head size) unless a key says otherwise. The 27B of
 * Gemma 3, known by its 62 layers, divides by the width per head instead, and its files
 * do not say so (llama.cpp, src/models/gemma3.cpp). */
static enum b2_status read_scales(struct hparams *hp, const struct source *s,
                                  struct b2_err *err)
{
    enum b2_status rc = get_number(s, "attention.scale", 0.0f, &hp->attn_scale, err);

    if (rc)
        return rc;
    if (hp->attn_scale == 0.0f) {
        bool wide = strcmp(s->arch->name, "gemma3") == 0 && hp->n_layers == 62;
        float size = wide ? (float)hp->d / (float)hp->n_heads : (float)hp->head_dim;
        hp->attn_scale = 1.0f / sqrtf(size);
    }
    if (!(hp->attn_scale > 0.0f) || !isfinite(hp->attn_scale))
        return err_set(err, B2_EFORMAT, "key %s.attention.scale: %g", s->arch->name,
                       (double)hp->attn_scale);
    hp->embd_scale = s->arch->embd_scale ? sqrtf((float)hp->d) : 1.0f;
    if (!s->arch->final_cap)
        return B2_OK;
    rc = get_number(s, "final_logit_softcapping", 0.0f, &hp->final_softcap, err);
    if (rc == B2_OK && !(hp->final_softcap >= 0.0f))
        rc = err_set(err, B2_EFORMAT, "key %s.final_logit_softcapping: %g",
                     s->arch->name, (double)hp->final_softcap);
    return rc;
}

enum b2_status hparams_read(struct hparams *hp, const struct meta *m,
                            struct b2_err *err)
{
    struct source s = {.m = m};
    char key[KEY_MAX];
    const char *name;
    enum b2_status rc = meta_get_str(m, "general.architecture", &name, err);

    if (rc)
        return rc;
    s.arch = arch_find(name);
    if (!s.arch)
        return err_set(err, B2_EUNSUP,
                       "architecture `%.60s` is not supported (known: %s)", name,
                       arch_list());
    *hp = (struct hparams){.arch = s.arch};
    if ((rc = check_neutral(&s, err)) || (rc = read_shape(hp, &s, err)) ||
        (rc = read_vocab(hp, &s, err)) || (rc = read_rope(hp, &s, err)) ||
        (s.arch->delta && (rc = hparams_read_delta(hp, m, err))))
        return rc;
    rc = meta_get_f32(m, key_of(key, &s, "attention.layer_norm_rms_epsilon"),
                      &hp->norm_eps, err);
    if (rc)
        return rc;
    if (!(hp->norm_eps > 0.0f && hp->norm_eps < 1.0f))
        return err_set(err, B2_EFORMAT, "key %s: %g is not in (0, 1)", key,
                       (double)hp->norm_eps);
    rc = read_scales(hp, &s, err);
    return rc ? rc : read_window(hp, &s, err);
}

bool hparams_slides(const struct hparams *hp, int64_t layer)
{
    return hp->window > 0 && in_window_part(hp, layer);
}

const char *hparams_unknown_key(const struct meta *m, int64_t *i)
{
    const char *arch = "";
    size_t n;

    if (meta_get_str(m, "general.architecture", &arch, NULL))
        return NULL;
    n = strlen(arch);
    while (*i < meta_count(m)) {
        const char *key = meta_at(m, (*i)++)->key;
        bool known = false;

        if (strncmp(key, arch, n) != 0 || key[n] != '.')
            continue;
        const char *name = key + n + 1;
        for (size_t k = 0; k < countof(known_keys) && !known; k++)
            known = strcmp(name, known_keys[k]) == 0;
        for (size_t k = 0; k < countof(neutral_keys) && !known; k++)
            known = strcmp(name, neutral_keys[k].name) == 0;
        if (!known)
            return key;
    }
    return NULL;
}
