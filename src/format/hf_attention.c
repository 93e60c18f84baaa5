/*
 * hf_attention.c - windows, caps and the scale of attention in config.json.
 *
 * Some architectures slide a window in all layers or in none; Gemma 3 in most, given as
 * "layer_types" per layer (new files) or "sliding_window_pattern" (old ones: every n-th
 * layer sees everything).
 */
#include "format/hf.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_PATTERN = 6 };

/* NULL when absent or null. */
static const cJSON *get(const cJSON *root, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

    return cJSON_IsNull(item) ? NULL : item;
}

/* A whole number from 1 to 2^31 - 1; def when the setting is absent or null. */
static enum b2_status opt_size(const cJSON *root, const char *name, uint32_t def,
                               uint32_t *out, struct b2_err *err)
{
    const cJSON *item = get(root, name);
    uint64_t v = def;

    if (item && (!json_get_u64(item, &v) || v < 1 || v > INT32_MAX))
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

/* One window for all layers; null switches it off, and one as long as the context hides
 * nothing. */
static enum b2_status set_window(struct meta *m, const struct hf_model *model,
                                 const cJSON *root, struct b2_err *err)
{
    const cJSON *raw = cJSON_GetObjectItemCaseSensitive(root, "sliding_window");
    uint32_t window = 0, ctx = 0;
    enum b2_status rc = opt_size(root, "max_position_embeddings", 0, &ctx, err);

    if (rc == B2_OK)
        rc = opt_size(root, "sliding_window", raw ? 0 : model->arch->default_window,
                      &window, err);
    if (rc == B2_OK && window > 0 && window < ctx)
        rc = set_u32(m, model, "attention.sliding_window", window, err);
    return rc;
}

/* The period that layer_types follow: all but the last of each period slide. */
static enum b2_status period_of_types(const struct hf_model *model, const cJSON *types,
                                      uint32_t *period, struct b2_err *err)
{
    const uint32_t n = model->n_layers;

    if (!cJSON_IsArray(types) || (uint32_t)cJSON_GetArraySize(types) != n)
        return err_set(err, B2_EFORMAT,
                       "config.json: layer_types is not a word for each of %u layers",
                       n);
    /* Period n + 1 slides everywhere, period 1 nowhere. */
    for (*period = 1; *period <= n + 1; ++*period) {
        uint32_t i = 0;
        const cJSON *e;
        cJSON_ArrayForEach(e, types)
        {
            const char *want =
                i % *period < *period - 1 ? "sliding_attention" : "full_attention";
            if (!cJSON_IsString(e) || strcmp(e->valuestring, want) != 0)
                break;
            i++;
        }
        if (i == n)
            return B2_OK;
    }
    return err_set(err, B2_EUNSUP,
                   "config.json: layer_types follow no period of sliding_attention "
                   "closed by full_attention: not supported");
}

static enum b2_status set_pattern(struct meta *m, const struct hf_model *model,
                                  const cJSON *root, struct b2_err *err)
{
    const cJSON *types = get(root, "layer_types");
    uint32_t window = 0, period = 0;
    enum b2_status rc =
        opt_size(root, "sliding_window", model->arch->default_window, &window, err);

    if (rc == B2_OK)
        rc = set_u32(m, model, "attention.sliding_window", window, err);
    if (rc == B2_OK)
        rc = opt_size(root, "_sliding_window_pattern", DEFAULT_PATTERN, &period, err);
    if (rc == B2_OK)
        rc = opt_size(root, "sliding_window_pattern", period, &period, err);
    if (rc == B2_OK && types)
        rc = period_of_types(model, types, &period, err);
    if (rc == B2_OK)
        rc = set_u32(m, model, "attention.sliding_window_pattern", period, err);
    return rc;
}

/* A number above 0 under a key; absent, null and 0 set nothing. */
static enum b2_status set_number(struct meta *m, const struct hf_model *model,
                                 const char *name, const cJSON *item,
                                 struct b2_err *err)
{
    char key[128];

    if (!item || (cJSON_IsNumber(item) && item->valuedouble == 0))
        return B2_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || item->valuedouble > 1e9)
        return err_set(err, B2_EFORMAT, "config.json: %s is not a usable number",
                       item->string);
    (void)snprintf(key, sizeof key, "%s.%s", model->arch->gguf, name);
    return meta_set_f32(m, key, (float)item->valuedouble, err);
}

/* query_pre_attn_scalar s: scores are multiplied by s^-1/2. */
static enum b2_status set_scale(struct meta *m, const struct hf_model *model,
                                const cJSON *root, struct b2_err *err)
{
    const cJSON *item = get(root, "query_pre_attn_scalar");
    double s = item ? item->valuedouble : 256;
    char key[128];

    if ((item && !cJSON_IsNumber(item)) || !(s > 0) || s > 1e9)
        return err_set(err, B2_EFORMAT,
                       "config.json: query_pre_attn_scalar is not a usable number");
    if (s == model->head_dim) /* what readers take without a key */
        return B2_OK;
    (void)snprintf(key, sizeof key, "%s.attention.scale", model->arch->gguf);
    return meta_set_f32(m, key, (float)(1 / sqrt(s)), err);
}

enum b2_status hf_attention_meta(struct meta *m, const struct hf_model *model,
                                 const cJSON *root, struct b2_err *err)
{
    enum b2_status rc;

    if (model->arch->window == HF_WINDOW_OFF)
        return B2_OK;
    if (model->arch->window == HF_WINDOW_ALL)
        return set_window(m, model, root, err);
    rc = set_pattern(m, model, root, err);
    if (rc == B2_OK)
        rc = set_scale(m, model, root, err);
    if (rc == B2_OK)
        rc = set_number(m, model, "final_logit_softcapping",
                        get(root, "final_logit_softcapping"), err);
    return rc;
}
