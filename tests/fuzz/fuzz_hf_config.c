/*
 * fuzz_hf_config.c - any text as config.json, tokenizer_config.json and
 * generation_config.json: an explained error, or keys.
 */
#include "format/hf.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct meta *m = meta_new(64 << 20);
    struct hf_model model;
    struct b2_err err = {0};
    uint8_t *copy = fuzz_copy(data, size);
    const char *text = (const char *)copy;

    if (m && copy) {
        enum b2_status rc = hf_config_meta(m, &model, text, size, NULL, &err);
        fuzz_check_error(rc, &err);
        if (rc == B2_OK) {
            struct hf_target t;
            fuzz_require(model.arch && model.n_layers > 0 && model.head_dim > 0,
                         "sizes are there");
            fuzz_require(model.n_rope_factors <= HF_ROPE_FACTORS_MAX, "factors fit");
            (void)hf_tensor_target(&model, "model.layers.0.mlp.up_proj.weight", &t);
        }
        err = (struct b2_err){0};
        fuzz_check_error(hf_tokenizer_config_meta(m, text, size, &err), &err);
        err = (struct b2_err){0};
        fuzz_check_error(
            hf_token_ids_meta(m, text, size, "generation_config.json", &err), &err);
        err = (struct b2_err){0};
        fuzz_check_error(hf_sampling_meta(m, text, size, &err), &err);
    }
    meta_free(m);
    free(copy);
    return 0;
}
