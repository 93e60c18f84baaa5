/*
 * hf_longrope.c - rotary positions of Phi 3: a part of each head, and two sets of divisors.
 *
 * "longrope" (also called "su") divides the frequencies by short_factor up to the
 * original context and by long_factor in longer ones; cos and sin are multiplied by
 * sqrt(1 + ln(f) / ln(original)), f = context / original, unless attention_factor says
 * otherwise. GGUF has two tensors for the divisors and a key for the multiplier.
 */
#include "format/hf.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* NULL when absent or null; obj may be NULL. */
static const cJSON *get(const cJSON *obj, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, name);

    return cJSON_IsNull(item) ? NULL : item;
}

static const char *key_of(char key[128], const struct hf_model *model, const char *name)
{
    (void)snprintf(key, 128, "%s.%s", model->arch->gguf, name);
    return key;
}

/* A number in the group or beside it; def when absent. */
static enum b2_status number(const cJSON *root, const cJSON *group, const char *name,
                             double def, double *out, struct b2_err *err)
{
    const cJSON *item = get(group, name);

    if (!item)
        item = get(root, name);
    *out = item ? item->valuedouble : def;
    if ((item && !cJSON_IsNumber(item)) || !(*out > 0) || *out > 1e9)
        return err_set(err, B2_EFORMAT, "config.json: %s is not a usable number", name);
    return B2_OK;
}

enum b2_status hf_rope_part(struct meta *m, struct hf_model *model, const cJSON *root,
                            const cJSON *group, struct b2_err *err)
{
    char key[128];
    double part, ctx, orig;
    enum b2_status rc = number(root, group, "partial_rotary_factor", 1, &part, err);

    if (!rc)
        rc = number(root, NULL, "max_position_embeddings", 1, &ctx, err);
    if (!rc)
        rc = number(root, group, "original_max_position_embeddings", ctx, &orig, err);
    if (rc)
        return rc;
    model->n_rot = (uint32_t)(model->head_dim * part);
    if (part > 1 || model->n_rot < 2 || model->n_rot % 2 != 0)
        return err_set(err, B2_EFORMAT,
                       "config.json: partial_rotary_factor %g turns %u values of heads "
                       "of %u",
                       part, model->n_rot, model->head_dim);
    rc = meta_set_u32(m, key_of(key, model, "rope.dimension_count"), model->n_rot, err);
    if (!rc)
        rc = meta_set_u32(m, key_of(key, model, "rope.scaling.original_context_length"),
                          (uint32_t)orig, err);
    return rc;
}

static enum b2_status read_factors(float *out, const struct hf_model *model,
                                   const cJSON *group, const char *name,
                                   struct b2_err *err)
{
    const cJSON *list = get(group, name), *e;
    uint32_t n = 0;

    if (!cJSON_IsArray(list) || (uint32_t)cJSON_GetArraySize(list) != model->n_rot / 2)
        return err_set(err, B2_EFORMAT, "config.json: %s is not a list of %u numbers",
                       name, model->n_rot / 2);
    cJSON_ArrayForEach(e, list)
    {
        if (!cJSON_IsNumber(e) || !(e->valuedouble > 0) || e->valuedouble > 1e9)
            return err_set(err, B2_EFORMAT, "config.json: %s, number %u is not above 0",
                           name, n);
        out[n++] = (float)e->valuedouble;
    }
    return B2_OK;
}

/* Every setting of the group is used here, or refused by name. */
static enum b2_status check_settings(const cJSON *group, struct b2_err *err)
{
    static const char *const used[] = {"rope_type",
                                       "type",
                                       "rope_theta",
                                       "factor",
                                       "attention_factor",
                                       "long_factor",
                                       "short_factor",
                                       "original_max_position_embeddings",
                                       "partial_rotary_factor"};
    const cJSON *item;

    cJSON_ArrayForEach(item, group)
    {
        bool known = cJSON_IsNull(item);
        for (size_t i = 0; i < countof(used) && !known; i++)
            known = strcmp(used[i], item->string) == 0;
        if (!known)
            return err_set(err, B2_EUNSUP,
                           "config.json: rope setting %.40s is not supported",
                           item->string);
    }
    return B2_OK;
}

enum b2_status hf_longrope_meta(struct meta *m, struct hf_model *model,
                                const cJSON *root, const cJSON *group,
                                struct b2_err *err)
{
    double ctx, orig, factor, attn = 1;
    char key[128];
    enum b2_status rc = check_settings(group, err);

    if (model->n_rot / 2 > HF_ROPE_FACTORS_MAX)
        return err_set(err, B2_EUNSUP, "config.json: heads of %u are too large",
                       model->n_rot);
    if (!rc)
        rc = read_factors(model->rope_factors, model, group, "short_factor", err);
    if (!rc)
        rc = read_factors(model->rope_long, model, group, "long_factor", err);
    if (!rc)
        rc = number(root, NULL, "max_position_embeddings", 1, &ctx, err);
    if (!rc)
        rc = number(root, group, "original_max_position_embeddings", ctx, &orig, err);
    if (!rc)
        rc = number(NULL, group, "factor", ctx / orig, &factor, err);
    if (rc)
        return rc;
    model->n_rope_factors = (int)(model->n_rot / 2);
    model->longrope = true;
    if (factor > 1)
        attn = sqrt(1 + log(factor) / log(orig));
    rc = number(NULL, group, "attention_factor", attn, &attn, err);
    if (!rc)
        rc = meta_set_f32(m, key_of(key, model, "rope.scaling.attn_factor"),
                          (float)attn, err);
    return rc;
}
