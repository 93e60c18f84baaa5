/*
 * hf_sampling.c - the sampling advice of generation_config.json in GGUF's keys.
 */
#include "base/str.h"
#include "format/hf.h"
#include "format/json.h"

enum { MAX_VALUES = 1 << 16 };

static enum b2_status set_number(struct meta *m, const char *key, const cJSON *item,
                                 bool whole, struct b2_err *err)
{
    uint64_t u;

    if (!cJSON_IsNumber(item) || meta_find(m, key))
        return B2_OK;
    if (!whole)
        return meta_set_f32(m, key, (float)item->valuedouble, err);
    return json_get_u64(item, &u) && u <= INT32_MAX
               ? meta_set_u32(m, key, (uint32_t)u, err)
               : B2_OK;
}

enum b2_status hf_sampling_meta(struct meta *m, const char *json, size_t n,
                                struct b2_err *err)
{
    static const struct {
        const char *name, *key;
        bool whole;
    } rows[] = {
        {"temperature", "general.sampling.temp", false},
        {"top_k", "general.sampling.top_k", true},
        {"top_p", "general.sampling.top_p", false},
        {"min_p", "general.sampling.min_p", false},
        {"repetition_penalty", "general.sampling.penalty_repeat", false},
    };
    cJSON *root = NULL;
    enum b2_status rc =
        n > HF_CONFIG_MAX ? err_set(err, B2_EUNSUP, "more than %d bytes", HF_CONFIG_MAX)
                          : json_parse_bounded(&root, json, n, MAX_VALUES, err);
    if (rc) {
        err_wrap(err, "generation_config.json");
        return rc;
    }
    /* "do_sample": false says: take the most likely. */
    const cJSON *sample = cJSON_GetObjectItemCaseSensitive(root, "do_sample");
    if (cJSON_IsFalse(sample) && !meta_find(m, rows[0].key))
        rc = meta_set_f32(m, rows[0].key, 0.0f, err);
    for (size_t i = 0; rc == B2_OK && i < countof(rows); i++)
        rc = set_number(m, rows[i].key,
                        cJSON_GetObjectItemCaseSensitive(root, rows[i].name),
                        rows[i].whole, err);
    cJSON_Delete(root);
    return rc;
}
