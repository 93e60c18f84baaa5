/*
 * hf_rope.c - rope_theta, rope_scaling and rope_parameters of config.json.
 *
 * Old files have "rope_theta" and "rope_scaling" {"type" or "rope_type", …}; new ones
 * one object "rope_parameters" with both. Kinds: default, linear, ntk, dynamic, yarn,
 * llama3; longrope is in hf_longrope.c.
 *   ntk     a larger base: theta * factor^(d / (d - 2)), d the size of a head
 *   dynamic the same, growing with the text once it passes max_position_embeddings; up
 *           to there nothing is stretched, and further no context goes here
 *   llama3  becomes a tensor of divisors, as llama.cpp's converter computes it:
 *           wave = 2 pi / freq; wave < orig / high: 1; wave > orig / low: factor;
 *           between: 1 / ((1 - s) / factor + s), s = (orig / wave - low) / (high - low)
 */
#include "format/hf.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum b2_status refuse(const char *name, const char *why, struct b2_err *err)
{
    return err_set(err, B2_EUNSUP, "config.json: rope setting %s %s", name, why);
}

/* The object with the scaling, or NULL. Nested per kind of layer in some models; that of
 * sliding layers goes to *local. */
static enum b2_status find_group(const struct hf_arch *arch, const cJSON *root,
                                 const cJSON **out, const cJSON **local,
                                 struct b2_err *err)
{
    const cJSON *g = cJSON_GetObjectItemCaseSensitive(root, "rope_parameters");

    if (!g || cJSON_IsNull(g))
        g = cJSON_GetObjectItemCaseSensitive(root, "rope_scaling");
    *out = *local = NULL;
    if (!g || cJSON_IsNull(g))
        return B2_OK;
    if (!cJSON_IsObject(g))
        return err_set(err, B2_EFORMAT, "config.json: rope_scaling is not an object");
    const cJSON *full = cJSON_GetObjectItemCaseSensitive(g, "full_attention");
    if (full && arch->window == HF_WINDOW_SOME)
        *local = cJSON_GetObjectItemCaseSensitive(g, "sliding_attention");
    if (full && cJSON_GetArraySize(g) != (*local ? 2 : 1))
        return refuse("rope_parameters", "differs between layers: not supported", err);
    *out = full ? full : g;
    return B2_OK;
}

/* Settings that a kind uses; any other that is not null is refused. */
static const struct {
    const char *name;
    bool linear, yarn, llama3; /* ntk and dynamic are as linear */
} settings[] = {
    {"factor", true, true, true},
    {"original_max_position_embeddings", false, true, true},
    {"low_freq_factor", false, false, true},
    {"high_freq_factor", false, false, true},
    {"beta_fast", false, true, false},
    {"beta_slow", false, true, false},
    {"attention_factor", false, true, false},
};

static bool is_neutral(const struct hf_arch *arch, const cJSON *item)
{
    static const char *const free_names[] = {"rope_type", "type", "rope_theta"};
    static const char *const own[] = {"partial_rotary_factor", "mrope_section",
                                      "mrope_interleaved"}; /* hf_delta.c */

    if (cJSON_IsNull(item))
        return true;
    for (size_t i = 0; i < countof(free_names); i++) {
        if (strcmp(item->string, free_names[i]) == 0)
            return true;
    }
    for (size_t i = 0; arch->delta && i < countof(own); i++) {
        if (strcmp(item->string, own[i]) == 0)
            return true;
    }
    if (strcmp(item->string, "partial_rotary_factor") == 0)
        return cJSON_IsNumber(item) && item->valuedouble == 1.0;
    if (strcmp(item->string, "truncate") == 0) /* YaRN's ramp ends at whole pairs */
        return cJSON_IsTrue(item);
    return strcmp(item->string, "finetuned") == 0;
}

/* Every setting in the group is used, neutral, or refused by name. */
static enum b2_status check_settings(const struct hf_arch *arch, const cJSON *group,
                                     const char *kind, struct b2_err *err)
{
    bool plain = strcmp(kind, "default") == 0;
    const cJSON *item;

    cJSON_ArrayForEach(item, group)
    {
        bool used = is_neutral(arch, item), known = used;
        for (size_t i = 0; i < countof(settings) && !used; i++) {
            if (strcmp(item->string, settings[i].name) != 0)
                continue;
            known = true;
            used = (settings[i].linear &&
                    (strcmp(kind, "linear") == 0 || strcmp(kind, "ntk") == 0 ||
                     strcmp(kind, "dynamic") == 0)) ||
                   (settings[i].yarn && strcmp(kind, "yarn") == 0) ||
                   (settings[i].llama3 && strcmp(kind, "llama3") == 0);
            if (used && !cJSON_IsNumber(item))
                return err_set(err, B2_EFORMAT,
                               "config.json: rope setting %s is not a number",
                               item->string);
        }
        /* A kind that ignores a known setting ignores it here too. */
        if (!used && !known && !plain)
            return refuse(item->string, "is not supported", err);
    }
    return B2_OK;
}

/* A number of the group; def when absent. */
static double number(const cJSON *group, const char *name, double def)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(group, name);

    return cJSON_IsNumber(item) ? item->valuedouble : def;
}

static enum b2_status set_f32(struct meta *m, const char *arch, const char *name,
                              double v, struct b2_err *err)
{
    char key[128];

    (void)snprintf(key, sizeof key, "%s.rope.%s", arch, name);
    return meta_set_f32(m, key, (float)v, err);
}

static enum b2_status set_yarn(struct meta *m, const char *arch, const cJSON *group,
                               double factor, double orig, struct b2_err *err)
{
    char key[128];
    /* Readers of GGUF apply 1 + 0.1 ln(factor) themselves; the key has what is left. */
    double usual = factor > 1 ? 0.1 * log(factor) + 1 : 1;
    double attention = number(group, "attention_factor", usual) / usual;

    (void)snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", arch);
    enum b2_status rc = meta_set_u32(m, key, (uint32_t)orig, err);
    if (rc == B2_OK && fabs(attention - 1) > 1e-6)
        rc = set_f32(m, arch, "scaling.yarn_attn_factor", attention, err);
    if (rc == B2_OK && number(group, "beta_fast", 32) != 32)
        rc = set_f32(m, arch, "scaling.yarn_beta_fast", number(group, "beta_fast", 32),
                     err);
    if (rc == B2_OK && number(group, "beta_slow", 1) != 1)
        rc = set_f32(m, arch, "scaling.yarn_beta_slow", number(group, "beta_slow", 1),
                     err);
    return rc;
}

static enum b2_status set_llama3(struct hf_model *model, const cJSON *group,
                                 double theta, double factor, double orig,
                                 struct b2_err *err)
{
    double low = number(group, "low_freq_factor", 1);
    double high = number(group, "high_freq_factor", 4);
    int n = (int)(model->head_dim / 2);

    if (!(low > 0) || !(high > low))
        return refuse("low_freq_factor", "must be above 0 and below high_freq_factor",
                      err);
    if (n > HF_ROPE_FACTORS_MAX)
        return refuse("head_dim", "is too large", err);
    for (int i = 0; i < n; i++) {
        float freq = 1.0f / powf((float)theta, (float)(2 * i) / (float)model->head_dim);
        float wave = (float)(2 * 3.14159265358979323846) / freq, f;
        if (wave < (float)(orig / high)) {
            f = 1.0f;
        } else if (wave > (float)(orig / low)) {
            f = (float)factor;
        } else {
            float s = ((float)orig / wave - (float)low) / (float)(high - low);
            f = 1.0f / ((1.0f - s) / (float)factor + s);
        }
        model->rope_factors[i] = f;
    }
    model->n_rope_factors = n;
    return B2_OK;
}

/* Factor and original context of a kind that stretches. */
static enum b2_status read_stretch(const cJSON *root, const cJSON *group,
                                   double *factor, double *orig, struct b2_err *err)
{
    *factor = number(group, "factor", 0);
    *orig = number(group, "original_max_position_embeddings",
                   number(root, "original_max_position_embeddings",
                          number(root, "max_position_embeddings", 0)));
    if (!(*factor >= 1) || *factor > 1e6)
        return err_set(err, B2_EFORMAT,
                       "config.json: rope setting factor is %g, expected 1 or more",
                       *factor);
    if (!(*orig >= 1) || *orig > 1e9 || *orig != floor(*orig))
        return err_set(err, B2_EFORMAT,
                       "config.json: original_max_position_embeddings is %g", *orig);
    return B2_OK;
}

/* The base of sliding layers, which are never stretched. */
static enum b2_status set_local(struct meta *m, const char *arch, const cJSON *root,
                                const cJSON *local, struct b2_err *err)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(local, "rope_type");
    double theta =
        number(local, "rope_theta", number(root, "rope_local_base_freq", 10000));

    if (cJSON_IsString(type) && strcmp(type->valuestring, "default") != 0)
        return refuse("rope_type", "of sliding layers is not `default`", err);
    if (!(theta > 1) || theta > 1e30)
        return err_set(err, B2_EFORMAT,
                       "config.json: rope_theta of sliding layers is %g", theta);
    return set_f32(m, arch, "freq_base_swa", theta, err);
}

enum b2_status hf_rope_meta(struct meta *m, struct hf_model *model, const cJSON *root,
                            struct b2_err *err)
{
    const char *arch = model->arch->gguf, *kind = "default";
    const cJSON *group, *local;
    double factor, orig;
    char key[128];
    enum b2_status rc = find_group(model->arch, root, &group, &local, err);

    if (rc)
        return rc;
    double theta = number(group, "rope_theta",
                          number(root, "rope_theta", model->arch->default_theta));
    if (!(theta > 1) || theta > 1e30)
        return err_set(err, B2_EFORMAT, "config.json: rope_theta is %g", theta);
    rc = set_f32(m, arch, "freq_base", theta, err);
    if (rc == B2_OK && model->arch->window == HF_WINDOW_SOME)
        rc = set_local(m, arch, root, local, err);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(group, "rope_type");
    if (!cJSON_IsString(type))
        type = cJSON_GetObjectItemCaseSensitive(group, "type");
    if (cJSON_IsString(type))
        kind = type->valuestring;
    if (!rc && model->arch->rotary_part)
        rc = hf_rope_part(m, model, root, group, err);
    if (rc || !group)
        return rc;
    if (model->arch->rotary_part &&
        (strcmp(kind, "longrope") == 0 || strcmp(kind, "su") == 0 ||
         strcmp(kind, "yarn") == 0)) /* what the first files called it */
        return hf_longrope_meta(m, model, root, group, err);
    bool linear = strcmp(kind, "linear") == 0, yarn = strcmp(kind, "yarn") == 0;
    bool ntk = strcmp(kind, "ntk") == 0, dynamic = strcmp(kind, "dynamic") == 0;
    if (!linear && !yarn && !ntk && !dynamic && strcmp(kind, "llama3") != 0 &&
        strcmp(kind, "default") != 0)
        return err_set(
            err, B2_EUNSUP,
            "config.json: rope_type %.40s is not supported (default, linear, ntk, "
            "dynamic, yarn, llama3; longrope of Phi 3)",
            kind);
    rc = check_settings(model->arch, group, kind, err);
    if (rc || strcmp(kind, "default") == 0)
        return rc;
    rc = read_stretch(root, group, &factor, &orig, err);
    if (rc || dynamic)
        return rc;
    if (ntk) {
        double d = (double)model->head_dim;
        return set_f32(m, arch, "freq_base", theta * pow(factor, d / (d - 2)), err);
    }
    if (!linear && !yarn)
        return set_llama3(model, group, theta, factor, orig, err);
    (void)snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    rc = meta_set_str(m, key, kind, err);
    if (rc == B2_OK)
        rc = set_f32(m, arch, "scaling.factor", factor, err);
    if (rc == B2_OK && yarn)
        rc = set_yarn(m, arch, group, factor, orig, err);
    return rc;
}
