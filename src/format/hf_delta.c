/*
 * hf_delta.c - config.json of models with gated delta net layers (Qwen 3.5).
 *
 * Which layers are such nets stands in "layer_types", or in "full_attention_interval"
 * (every n-th layer is attention); sizes in "linear_...". Heads turn in their first part
 * only, and that part is cut into sections for pictures, which text does not notice
 * (model/hparams_delta.c).
 */
#include "format/hf.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_INTERVAL = 4, MAX_LAYERS = 4096 };

static const cJSON *get(const cJSON *root, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

    return cJSON_IsNull(item) ? NULL : item;
}

static const char *key_of(char buf[128], const struct hf_model *model, const char *name)
{
    (void)snprintf(buf, 128, "%s.%s", model->arch->gguf, name);
    return buf;
}

/* A whole number from 1 to 65536; def when absent. */
static enum b2_status get_size(const cJSON *root, const char *name, uint32_t def,
                               uint32_t *out, struct b2_err *err)
{
    const cJSON *item = get(root, name);
    uint64_t v = def;

    if (item && (!json_get_u64(item, &v) || v < 1 || v > 65536))
        return err_set(err, B2_EFORMAT,
                       "config.json: %s is not a whole number from 1 to 65536", name);
    *out = (uint32_t)v;
    return B2_OK;
}

static enum b2_status set_sizes(struct meta *m, struct hf_model *model,
                                const cJSON *root, struct b2_err *err)
{
    uint32_t taps;
    const struct {
        const char *name;
        uint32_t def, *out;
    } sizes[] = {
        {"linear_conv_kernel_dim", 4, &taps},
        {"linear_key_head_dim", 128, &model->k_dim},
        {"linear_value_head_dim", 128, &model->v_dim},
        {"linear_num_key_heads", 16, &model->k_heads},
        {"linear_num_value_heads", 32, &model->v_heads},
    };
    char key[128];
    enum b2_status rc = B2_OK;

    for (size_t i = 0; i < countof(sizes) && rc == B2_OK; i++)
        rc = get_size(root, sizes[i].name, sizes[i].def, sizes[i].out, err);
    if (rc)
        return rc;
    if (model->v_heads % model->k_heads != 0)
        return err_set(err, B2_EFORMAT,
                       "config.json: linear_num_value_heads %u is not a multiple of "
                       "linear_num_key_heads %u",
                       model->v_heads, model->k_heads);
    if (model->v_dim != model->k_dim)
        return err_set(err, B2_EUNSUP,
                       "config.json: linear_value_head_dim %u differs from "
                       "linear_key_head_dim %u: not supported",
                       model->v_dim, model->k_dim);
    const struct {
        const char *name;
        uint32_t value;
    } keys[] = {
        {"ssm.conv_kernel", taps},
        {"ssm.state_size", model->k_dim},
        {"ssm.group_count", model->k_heads},
        {"ssm.time_step_rank", model->v_heads},
        {"ssm.inner_size", model->v_heads * model->v_dim},
    };
    for (size_t i = 0; i < countof(keys) && rc == B2_OK; i++)
        rc = meta_set_u32(m, key_of(key, model, keys[i].name), keys[i].value, err);
    return rc;
}

/* One flag per layer from layer_types. */
static enum b2_status read_types(const struct hf_model *model, const cJSON *types,
                                 uint8_t *flags, struct b2_err *err)
{
    const cJSON *e;
    uint32_t i = 0;

    if (!cJSON_IsArray(types) || (uint32_t)cJSON_GetArraySize(types) != model->n_layers)
        return err_set(err, B2_EFORMAT,
                       "config.json: layer_types is not a word for each of %u layers",
                       model->n_layers);
    cJSON_ArrayForEach(e, types)
    {
        bool linear =
            cJSON_IsString(e) && strcmp(e->valuestring, "linear_attention") == 0;
        if (!linear &&
            (!cJSON_IsString(e) || strcmp(e->valuestring, "full_attention") != 0))
            return err_set(err, B2_EUNSUP,
                           "config.json: layer_types[%u] is neither linear_attention "
                           "nor full_attention",
                           i);
        flags[i++] = linear;
    }
    return B2_OK;
}

/* The interval that the flags follow: n - 1 nets, then attention. 0: none. */
static uint32_t interval_of(const uint8_t *flags, uint32_t n)
{
    uint32_t interval = 0, i = 0;

    while (interval < n && flags[interval])
        interval++;
    interval++;
    while (i < n && (flags[i] != 0) == ((i + 1) % interval != 0))
        i++;
    return i == n ? interval : 0;
}

/* The interval where there is one: every reader knows that key. */
static enum b2_status set_layers(struct meta *m, const struct hf_model *model,
                                 const cJSON *root, struct b2_err *err)
{
    uint8_t flags[MAX_LAYERS] = {0};
    uint32_t interval = 0;
    char key[128];
    const cJSON *types = get(root, "layer_types");
    enum b2_status rc = B2_OK;

    if (model->n_layers > MAX_LAYERS)
        return err_set(err, B2_EUNSUP, "config.json: more than %d layers", MAX_LAYERS);
    if (types) {
        rc = read_types(model, types, flags, err);
        interval = rc ? 0 : interval_of(flags, model->n_layers);
    } else {
        rc =
            get_size(root, "full_attention_interval", DEFAULT_INTERVAL, &interval, err);
    }
    if (rc)
        return rc;
    if (interval > 0)
        return meta_set_u32(m, key_of(key, model, "full_attention_interval"), interval,
                            err);
    return meta_set_arr(m, key_of(key, model, "attention.recurrent_layers"), MT_BOOL,
                        flags, model->n_layers, err);
}

/* Length of the part of a head that turns, and its sections. */
static enum b2_status set_rope(struct meta *m, const struct hf_model *model,
                               const cJSON *root, struct b2_err *err)
{
    const cJSON *group = get(root, "rope_parameters"), *e;
    int32_t section[4] = {11, 11, 10, 0};
    char key[128];
    int n = 0;

    if (!group)
        group = get(root, "rope_scaling");
    const cJSON *part = get(group, "partial_rotary_factor");
    if (!part)
        part = get(root, "partial_rotary_factor");
    double factor = cJSON_IsNumber(part) ? part->valuedouble : 0.25;
    if (!(factor > 0 && factor <= 1) || (part && !cJSON_IsNumber(part)))
        return err_set(err, B2_EFORMAT,
                       "config.json: partial_rotary_factor is not in (0, 1]");
    cJSON_ArrayForEach(e, get(group, "mrope_section"))
    {
        uint64_t v = 0;
        if (n >= 3 || !json_get_u64(e, &v) || v > 65536)
            return err_set(err, B2_EFORMAT,
                           "config.json: mrope_section is not three numbers");
        section[n++] = (int32_t)v;
    }
    if (n != 0 && n != 3)
        return err_set(err, B2_EFORMAT,
                       "config.json: mrope_section is not three numbers");
    enum b2_status rc =
        meta_set_u32(m, key_of(key, model, "rope.dimension_count"),
                     (uint32_t)floor((double)model->head_dim * factor), err);
    if (rc == B2_OK)
        rc = meta_set_arr(m, key_of(key, model, "rope.dimension_sections"), MT_I32,
                          section, 4, err);
    return rc;
}

enum b2_status hf_delta_meta(struct meta *m, struct hf_model *model, const cJSON *root,
                             struct b2_err *err)
{
    const cJSON *gate = get(root, "attn_output_gate");
    enum b2_status rc;

    if (gate && !cJSON_IsTrue(gate))
        return err_set(err, B2_EUNSUP,
                       "config.json: attn_output_gate is not true: attention without "
                       "gates is not supported here");
    if ((rc = set_sizes(m, model, root, err)) || (rc = set_layers(m, model, root, err)))
        return rc;
    return set_rope(m, model, root, err);
}
