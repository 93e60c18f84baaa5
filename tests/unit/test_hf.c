/*
 * test_hf.c - config.json and its kin: what is translated, and what is refused by name.
 */
#include "format/hf.h"
#include "format/json.h"
#include "unit/unit.h"

#include <math.h>
#include <stdlib.h>

/* A configuration that is fine, with room for one more setting. */
#define CONFIG(arch, more)                                                             \
    "{\"architectures\":[\"" arch "\"],\"num_hidden_layers\":2,\"hidden_size\":64,"    \
    "\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2,"    \
    "\"vocab_size\":50,\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5" more    \
    "}"
#define LLAMA(more) CONFIG("LlamaForCausalLM", more)
#define MISTRAL(more) CONFIG("MistralForCausalLM", more)
#define QWEN2(more) CONFIG("Qwen2ForCausalLM", more)
#define QWEN3(more) CONFIG("Qwen3ForCausalLM", more)
#define GEMMA3(more) CONFIG("Gemma3ForCausalLM", more)
#define QWEN35(more) CONFIG("Qwen3_5ForCausalLM", more)
#define VISION(more)                                                                   \
    "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"eos_token_id\":7,"     \
    "\"vision_config\":{\"depth\":1},\"text_config\":{\"num_hidden_layers\":8,"        \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,"           \
    "\"vocab_size\":50,\"max_position_embeddings\":8192" more "}}"
#define PHI3(more) CONFIG("Phi3ForCausalLM", more)
#define LONGROPE(long, short)                                                          \
    ",\"original_max_position_embeddings\":1024,\"rope_scaling\":{\"type\":"           \
    "\"longrope\","                                                                    \
    "\"long_factor\":[" long "],\"short_factor\":[" short "]}"
#define ROPES(sliding, full)                                                           \
    ",\"rope_parameters\":{\"sliding_attention\":{" sliding                            \
    "},\"full_attention\":{" full "}}"

#define ABSENT (-1.0)

static enum b2_status read(struct meta *m, struct hf_model *model, const char *json,
                           struct b2_err *err)
{
    return hf_config_meta(m, model, json, strlen(json), NULL, err);
}

static void test_refused(void **state)
{
    static const struct {
        const char *json;
        enum b2_status want;
        const char *words;
    } cases[] = {
        {"", B2_EFORMAT, "config.json"},
        {"version https://git-lfs.github.com/spec/v1\n", B2_EFORMAT, "Git LFS pointer"},
        {"{}", B2_EFORMAT, "architectures"},
        {CONFIG("MambaForCausalLM", ""), B2_EUNSUP, "MambaForCausalLM"},
        {LLAMA(",\"attention_bias\":true"), B2_EUNSUP, "attention_bias"},
        {LLAMA(",\"mlp_bias\":true"), B2_EUNSUP, "mlp_bias"},
        {LLAMA(",\"hidden_act\":\"gelu\""), B2_EUNSUP, "hidden_act"},
        {LLAMA(",\"partial_rotary_factor\":0.5"), B2_EUNSUP, "partial_rotary_factor"},
        {LLAMA(",\"quantization_config\":{\"bits\":4}"), B2_EUNSUP,
         "quantization_config"},
        {LLAMA(",\"logit_scale\":0.5"), B2_EUNSUP, "logit_scale"},
        {LLAMA(",\"layer_types\":[\"full_attention\",\"sliding_attention\"]"),
         B2_EUNSUP, "layer_types"},
        {LLAMA(",\"num_local_experts\":8"), B2_EUNSUP, "num_local_experts"},
        {LLAMA(",\"head_dim\":0"), B2_EFORMAT, "head_dim"},
        {LLAMA(",\"head_dim\":7"), B2_EFORMAT, "odd"},
        {LLAMA(",\"rope_theta\":-1"), B2_EFORMAT, "rope_theta"},
        {LLAMA(",\"rope_scaling\":{\"type\":\"proportional\",\"factor\":2}"), B2_EUNSUP,
         "proportional"},
        {PHI3(LONGROPE("1,2,3", "1,2") ",\"partial_rotary_factor\":0.375"), B2_EFORMAT,
         "short_factor"},
        {PHI3(LONGROPE("1,2,0", "1,2,3") ",\"partial_rotary_factor\":0.375"),
         B2_EFORMAT, "long_factor, number 2"},
        {PHI3(",\"partial_rotary_factor\":1.5"), B2_EFORMAT, "partial_rotary_factor"},
        {PHI3(",\"rope_scaling\":{\"type\":\"longrope\",\"short_mscale\":1.1}"),
         B2_EUNSUP, "short_mscale"},
        {LLAMA(",\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2}"),
         B2_EUNSUP, "longrope"},
        {LLAMA(",\"rope_scaling\":{\"type\":\"linear\"}"), B2_EFORMAT, "factor"},
        {LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}"), B2_EFORMAT,
         "factor"},
        {LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"mystery\":1}"),
         B2_EUNSUP, "mystery"},
        {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"truncate\":false}"),
         B2_EUNSUP, "truncate"},
        {LLAMA(",\"rope_scaling\":[1]"), B2_EFORMAT, "rope_scaling"},
        {LLAMA(",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":{}}"),
         B2_EUNSUP, "rope_parameters"},
        {QWEN2(",\"use_sliding_window\":true,\"sliding_window\":64"), B2_EUNSUP,
         "use_sliding_window"},
        {QWEN3(",\"attention_bias\":true"), B2_EUNSUP, "attention_bias"},
        {GEMMA3(",\"hidden_activation\":\"silu\""), B2_EUNSUP, "hidden_activation"},
        {GEMMA3(",\"attn_logit_softcapping\":50.0"), B2_EUNSUP,
         "attn_logit_softcapping"},
        {GEMMA3(",\"final_logit_softcapping\":-1"), B2_EFORMAT,
         "final_logit_softcapping"},
        {GEMMA3(",\"use_bidirectional_attention\":true"), B2_EUNSUP, "bidirectional"},
        {QWEN35(",\"attn_output_gate\":false"), B2_EUNSUP, "attn_output_gate"},
        {QWEN35(",\"linear_num_key_heads\":5"), B2_EFORMAT, "linear_num_key_heads"},
        {QWEN35(",\"linear_num_key_heads\":0"), B2_EFORMAT, "linear_num_key_heads"},
        {QWEN35(",\"linear_value_head_dim\":64"), B2_EUNSUP, "linear_value_head_dim"},
        {QWEN35(",\"layer_types\":[\"linear_attention\"]"), B2_EFORMAT, "layer_types"},
        {QWEN35(",\"layer_types\":[\"linear_attention\",\"sliding_attention\"]"),
         B2_EUNSUP, "layer_types[1]"},
        {QWEN35(",\"partial_rotary_factor\":1.5"), B2_EFORMAT, "partial_rotary_factor"},
        {QWEN35(",\"rope_parameters\":{\"mrope_section\":[11,11]}"), B2_EFORMAT,
         "mrope_section"},
        {QWEN35(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
                "\"mystery\":1}"),
         B2_EUNSUP, "mystery"},
        {QWEN35(",\"num_experts\":8"), B2_EUNSUP, "num_experts"},
        {CONFIG("Qwen3_5ForConditionalGeneration", ""), B2_EFORMAT, "text_config"},
        {VISION(",\"attention_bias\":true"), B2_EUNSUP, "attention_bias"},
        {GEMMA3(",\"query_pre_attn_scalar\":0"), B2_EFORMAT, "query_pre_attn_scalar"},
        {GEMMA3(",\"sliding_window\":0"), B2_EFORMAT, "sliding_window"},
        {GEMMA3(",\"layer_types\":[\"full_attention\"]"), B2_EFORMAT, "layer_types"},
        {GEMMA3(",\"layer_types\":[\"full_attention\",\"sliding_attention\"]"),
         B2_EUNSUP, "layer_types"},
        {GEMMA3(",\"layer_types\":[\"full_attention\",\"linear_attention\"]"),
         B2_EUNSUP, "layer_types"},
        {GEMMA3(ROPES("\"rope_type\":\"linear\",\"factor\":2", "")), B2_EUNSUP,
         "sliding"},
        {GEMMA3(ROPES("\"rope_theta\":-3", "")), B2_EFORMAT, "sliding"},
        {"{\"architectures\":[\"LlamaForCausalLM\"]}", B2_ENOTFOUND,
         "num_hidden_layers"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = meta_new(1 << 20);
        struct hf_model model;
        struct b2_err err = {0};
        assert_non_null(m);
        enum b2_status rc = read(m, &model, cases[i].json, &err);
        if (rc != cases[i].want || err.status != rc || !strstr(err.msg, cases[i].words))
            fail_msg("row %zu: status %d: %s", i, rc, err.msg);
        meta_free(m);
    }
}

static void test_accepted(void **state)
{
    static const struct {
        const char *json;
        const char *key; /* must have this value, or be absent */
        double want;
    } cases[] = {
        {LLAMA(""), "llama.rope.freq_base", 10000},
        {LLAMA(""), "llama.attention.key_length", ABSENT},
        {LLAMA(""), "llama.attention.sliding_window", ABSENT},
        {LLAMA(",\"sliding_window\":null"), "llama.attention.sliding_window", ABSENT},
        {LLAMA(",\"head_dim\":32"), "llama.attention.key_length", 32},
        {LLAMA(",\"head_dim\":32"), "llama.rope.dimension_count", 32},
        {LLAMA(",\"rope_theta\":250000"), "llama.rope.freq_base", 250000},
        {LLAMA(",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7e5}"),
         "llama.rope.freq_base", 700000},
        {LLAMA(",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":7e5}}"),
         "llama.rope.freq_base", 700000},
        {LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}"),
         "llama.rope.scaling.factor", 4},
        {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
               "\"original_max_position_embeddings\":2048}"),
         "llama.rope.scaling.original_context_length", 2048},
        {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
               "\"original_max_position_embeddings\":2048}"),
         "llama.rope.scaling.yarn_attn_factor", ABSENT},
        {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":16,"
               "\"attention_factor\":1.0}"),
         "llama.rope.scaling.yarn_attn_factor", 1.0 / 1.1386294361119891},
        {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":16}"),
         "llama.rope.scaling.yarn_beta_fast", 16},
        {LLAMA(",\"pretraining_tp\":1,\"attention_bias\":false,\"hidden_act\":\"silu\","
               "\"is_llama_config\":true,\"rope_interleaved\":false"),
         "llama.block_count", 2},
        {LLAMA(",\"head_dim\":32,\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2}"),
         "llama.rope.freq_base", 20945.882456412535}, /* 10000 * 2^(32/30) */
        {LLAMA(",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"),
         "llama.rope.freq_base", 10000},
        {LLAMA(",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"),
         "llama.rope.scaling.factor", ABSENT},
        {PHI3(""), "phi3.attention.sliding_window", ABSENT},
        {PHI3(",\"sliding_window\":1024"), "phi3.attention.sliding_window", 1024},
        {PHI3(",\"partial_rotary_factor\":0.75"), "phi3.rope.dimension_count", 12},
        {PHI3(LONGROPE("1,2,3", "1,1,1") ",\"partial_rotary_factor\":0.375"),
         "phi3.rope.scaling.attn_factor",
         1.1401754250991381}, /* sqrt(1 + ln 8 / ln 1024) */
        {MISTRAL(""), "llama.attention.sliding_window", 4096},
        {MISTRAL(",\"sliding_window\":null"), "llama.attention.sliding_window", ABSENT},
        {MISTRAL(",\"sliding_window\":1024"), "llama.attention.sliding_window", 1024},
        {MISTRAL(",\"sliding_window\":8192"), "llama.attention.sliding_window", ABSENT},
        {LLAMA(",\"dtype\":\"float16\""), "general.file_type", 1},
        {QWEN2(",\"use_sliding_window\":false,\"sliding_window\":64,"
               "\"max_window_layers\":1"),
         "qwen2.attention.sliding_window", ABSENT},
        {QWEN2(""), "qwen2.attention.key_length", ABSENT},
        {QWEN3(""), "qwen3.attention.key_length", 128},
        {QWEN3(",\"head_dim\":64"), "qwen3.rope.dimension_count", 64},
        {GEMMA3(""), "gemma3.rope.freq_base", 1e6},
        {GEMMA3(""), "gemma3.rope.freq_base_swa", 1e4},
        {GEMMA3(""), "gemma3.attention.sliding_window", 4096},
        {GEMMA3(""), "gemma3.attention.sliding_window_pattern", 6},
        {GEMMA3(""), "gemma3.attention.scale", ABSENT}, /* 256 and heads of 256 */
        {GEMMA3(""), "gemma3.final_logit_softcapping", ABSENT},
        {GEMMA3(",\"final_logit_softcapping\":30"), "gemma3.final_logit_softcapping",
         30},
        {GEMMA3(",\"query_pre_attn_scalar\":64"), "gemma3.attention.scale", 0.125},
        {GEMMA3(",\"sliding_window\":16384"), "gemma3.attention.sliding_window",
         16384}, /* beyond the context, but the rotary base depends on it */
        {GEMMA3(",\"sliding_window_pattern\":2"),
         "gemma3.attention.sliding_window_pattern", 2},
        {GEMMA3(",\"_sliding_window_pattern\":6,\"layer_types\":"
                "[\"sliding_attention\",\"full_attention\"]"),
         "gemma3.attention.sliding_window_pattern", 2},
        {GEMMA3(",\"layer_types\":[\"full_attention\",\"full_attention\"]"),
         "gemma3.attention.sliding_window_pattern", 1},
        {GEMMA3(",\"layer_types\":[\"sliding_attention\",\"sliding_attention\"]"),
         "gemma3.attention.sliding_window_pattern", 3},
        {GEMMA3(",\"rope_theta\":5e5,\"rope_local_base_freq\":2e4,"
                "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}"),
         "gemma3.rope.freq_base_swa", 2e4},
        {GEMMA3(ROPES("\"rope_theta\":3e4",
                      "\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":5e5")),
         "gemma3.rope.freq_base_swa", 3e4},
        {GEMMA3(ROPES("\"rope_theta\":3e4",
                      "\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":5e5")),
         "gemma3.rope.scaling.factor", 8},
        {QWEN35(""), "qwen35.attention.key_length", 256},
        {QWEN35(""), "qwen35.rope.dimension_count", 64},
        {QWEN35(""), "qwen35.ssm.inner_size", 4096},
        {QWEN35(""), "qwen35.full_attention_interval", 4},
        {QWEN35(",\"full_attention_interval\":2"), "qwen35.full_attention_interval", 2},
        {QWEN35(",\"head_dim\":64,\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
         "qwen35.rope.dimension_count", 32},
        {QWEN35(",\"partial_rotary_factor\":1.0,\"head_dim\":64"),
         "qwen35.rope.dimension_count", 64},
        {QWEN35(",\"layer_types\":[\"linear_attention\",\"full_attention\"]"),
         "qwen35.full_attention_interval", 2},
        {QWEN35(",\"layer_types\":[\"linear_attention\",\"linear_attention\"]"),
         "qwen35.full_attention_interval", 3},
        {QWEN35(",\"layer_types\":[\"full_attention\",\"linear_attention\"]"),
         "qwen35.full_attention_interval", ABSENT}, /* flags instead */
        {QWEN35(",\"linear_num_value_heads\":48,\"linear_num_key_heads\":16"),
         "qwen35.ssm.time_step_rank", 48},
        {QWEN35(",\"mtp_num_hidden_layers\":1,\"attn_output_gate\":true,"
                "\"mamba_ssm_dtype\":\"float32\""),
         "qwen35.block_count", 2},
        {QWEN35(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
                "\"rope_theta\":1e7,\"mrope_section\":[11,11,10],"
                "\"mrope_interleaved\":true,\"partial_rotary_factor\":0.25}"),
         "qwen35.rope.scaling.factor", 4},
        {VISION(""), "qwen35.block_count", 8},
        {VISION(",\"linear_conv_kernel_dim\":3"), "qwen35.ssm.conv_kernel", 3},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = meta_new(1 << 20);
        struct hf_model model;
        struct b2_err err = {0};
        assert_non_null(m);
        if (read(m, &model, cases[i].json, &err))
            fail_msg("row %zu: %s", i, err.msg);
        const struct meta_kv *kv = meta_find(m, cases[i].key);
        if (cases[i].want == ABSENT) {
            ROW_CHECK(i, kv == NULL);
        } else {
            uint32_t u = 0;
            float f = 0;
            ROW_CHECK(i, kv != NULL);
            if (kv->type == MT_F32)
                ROW_CHECK(i, meta_get_f32(m, kv->key, &f, &err) == B2_OK);
            else
                ROW_CHECK(i, meta_get_u32(m, kv->key, &u, &err) == B2_OK);
            ROW_CHECK(i, f + (float)u == (float)cases[i].want);
        }
        meta_free(m);
    }
}

/* Divisors of llama3 scaling against numpy in F32. */
static void test_llama3(void **state)
{
    static const struct {
        double theta;
        int head_dim;
        double factor, low, high;
        int orig;
        double want[64];
    } cases[] = {
#include "golden/format/rope_llama3.inc"
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = meta_new(1 << 20);
        struct hf_model model;
        struct b2_err err = {0};
        char json[1024];
        snprintf(json, sizeof json,
                 LLAMA(",\"head_dim\":%d,\"rope_theta\":%g,\"rope_scaling\":{"
                       "\"rope_type\":\"llama3\",\"factor\":%g,\"low_freq_factor\":%g,"
                       "\"high_freq_factor\":%g,"
                       "\"original_max_position_embeddings\":%d}"),
                 cases[i].head_dim, cases[i].theta, cases[i].factor, cases[i].low,
                 cases[i].high, cases[i].orig);
        assert_non_null(m);
        if (read(m, &model, json, &err))
            fail_msg("row %zu: %s", i, err.msg);
        ROW_CHECK(i, model.n_rope_factors == cases[i].head_dim / 2);
        for (int k = 0; k < model.n_rope_factors; k++)
            ROW_CHECK(i, fabs((double)model.rope_factors[k] - cases[i].want[k]) <=
                             2e-6 * cases[i].want[k]);
        meta_free(m);
    }
}

static void test_tensor_names(void **state)
{
    static const struct {
        const char *hf;
        bool tied;
        enum hf_known want;
        const char *gguf;
        uint32_t heads;
    } cases[] = {
        {"model.embed_tokens.weight", false, HF_TENSOR, "token_embd.weight", 0},
        {"model.layers.1.self_attn.q_proj.weight", false, HF_TENSOR,
         "blk.1.attn_q.weight", 4},
        {"model.layers.0.self_attn.k_proj.weight", false, HF_TENSOR,
         "blk.0.attn_k.weight", 2},
        {"model.layers.0.self_attn.v_proj.weight", false, HF_TENSOR,
         "blk.0.attn_v.weight", 0},
        {"lm_head.weight", false, HF_TENSOR, "output.weight", 0},
        {"lm_head.weight", true, HF_SKIP, NULL, 0},
        {"model.layers.0.self_attn.rotary_emb.inv_freq", false, HF_SKIP, NULL, 0},
        {"model.layers.2.self_attn.q_proj.weight", false, HF_UNKNOWN, NULL, 0},
        {"model.layers.01.self_attn.q_proj.weight", false, HF_UNKNOWN, NULL, 0},
        {"model.layers.0.self_attn.q_norm.weight", false, HF_UNKNOWN, NULL, 0},
        {"model.layers.99999999999.mlp.up_proj.weight", false, HF_UNKNOWN, NULL, 0},
        {"model.layers.", false, HF_UNKNOWN, NULL, 0},
        {"", false, HF_UNKNOWN, NULL, 0},
    };
    struct hf_model model = {
        .arch = hf_arch_find("LlamaForCausalLM"), .n_layers = 2, .n_heads = 4};

    (void)state;
    model.n_kv_heads = 2;
    for (size_t i = 0; i < countof(cases); i++) {
        struct hf_target t = {.n_heads = 0};
        model.tied = cases[i].tied;
        ROW_CHECK(i, hf_tensor_target(&model, cases[i].hf, &t) == cases[i].want);
        if (cases[i].want == HF_TENSOR) {
            assert_string_equal(t.name, cases[i].gguf);
            ROW_CHECK(i, t.n_heads == cases[i].heads);
        }
    }
}

/* Parts that are left out, and the names of a text model inside another. */
static void test_nested_names(void **state)
{
    static const struct {
        const char *hf;
        enum hf_known want, alone; /* with a part for pictures, without */
        const char *gguf;
        int change;
    } cases[] = {
        {"model.language_model.layers.1.linear_attn.A_log", HF_TENSOR, HF_UNKNOWN,
         "blk.1.ssm_a", HF_V_RATE},
        {"model.layers.1.linear_attn.dt_bias", HF_TENSOR, HF_TENSOR,
         "blk.1.ssm_dt.bias", HF_V_ONES},
        {"model.language_model.embed_tokens.weight", HF_TENSOR, HF_UNKNOWN,
         "token_embd.weight", HF_AS_IS},
        {"model.layers.0.linear_attn.norm.weight", HF_TENSOR, HF_TENSOR,
         "blk.0.ssm_norm.weight", HF_AS_IS},
        {"model.layers.0.post_attention_layernorm.weight", HF_TENSOR, HF_TENSOR,
         "blk.0.post_attention_norm.weight", HF_PLUS_ONE},
        {"model.visual.blocks.0.norm1.weight", HF_SKIP_VISION, HF_UNKNOWN, NULL, 0},
        {"mtp.fc.weight", HF_SKIP_MTP, HF_SKIP_MTP, NULL, 0},
        {"model.language_model.layers.1.linear_attn.bias", HF_UNKNOWN, HF_UNKNOWN, NULL,
         0},
    };
    struct hf_model model = {.n_layers = 2, .n_heads = 4, .n_kv_heads = 2};

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct hf_target t = {.n_heads = 0};
        model.arch = hf_arch_find("Qwen3_5ForCausalLM");
        ROW_CHECK(i, hf_tensor_target(&model, cases[i].hf, &t) == cases[i].alone);
        model.arch = hf_arch_find("Qwen3_5ForConditionalGeneration");
        ROW_CHECK(i, hf_tensor_target(&model, cases[i].hf, &t) == cases[i].want);
        if (cases[i].want == HF_TENSOR) {
            assert_string_equal(t.name, cases[i].gguf);
            ROW_CHECK(i, (int)t.kind->change == cases[i].change);
        }
    }
}

/* The ids of a nested configuration are found where they stand. */
static void test_nested_ids(void **state)
{
    static const struct {
        const char *json;
        uint32_t eos, bos;
    } cases[] = {
        {"{\"eos_token_id\":7,\"text_config\":{\"eos_token_id\":9,\"bos_token_id\":3}}",
         7, 3},
        {"{\"text_config\":{\"eos_token_id\":[9,8],\"bos_token_id\":3}}", 9, 3},
        {"{\"eos_token_id\":5,\"bos_token_id\":4}", 5, 4},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = meta_new(1 << 16);
        uint32_t eos = 0, bos = 0;
        assert_non_null(m);
        ROW_CHECK(i, hf_token_ids_meta(m, cases[i].json, strlen(cases[i].json),
                                       "config.json", NULL) == B2_OK);
        ROW_CHECK(i,
                  meta_get_u32(m, "tokenizer.ggml.eos_token_id", &eos, NULL) == B2_OK);
        ROW_CHECK(i,
                  meta_get_u32(m, "tokenizer.ggml.bos_token_id", &bos, NULL) == B2_OK);
        ROW_CHECK(i, eos == cases[i].eos && bos == cases[i].bos);
        meta_free(m);
    }
}

static void test_tokenizer_config(void **state)
{
    static const char config[] = "{\"add_bos_token\":false,\"chat_template\":["
                                 "{\"name\":\"tool_use\",\"template\":\"T\"},"
                                 "{\"name\":\"default\",\"template\":\"{{ x }}\"}]}";
    static const char ids[] = "{\"eos_token_id\":[7,8,9],\"bos_token_id\":5}";
    struct meta *m = meta_new(1 << 20);
    struct b2_err err = {0};
    const char *text = "";
    bool add = true;
    uint32_t v = 0;

    (void)state;
    assert_non_null(m);
    assert_int_equal(hf_tokenizer_config_meta(m, config, sizeof config - 1, &err),
                     B2_OK);
    assert_int_equal(meta_get_str(m, "tokenizer.chat_template", &text, &err), B2_OK);
    assert_string_equal(text, "{{ x }}");
    assert_int_equal(meta_get_bool(m, "tokenizer.ggml.add_bos_token", &add, &err),
                     B2_OK);
    assert_false(add);
    assert_int_equal(meta_set_u32(m, "tokenizer.ggml.eos_token_id", 8, &err), B2_OK);
    assert_int_equal(hf_token_ids_meta(m, ids, sizeof ids - 1, "g.json", &err), B2_OK);
    assert_int_equal(meta_get_u32(m, "tokenizer.ggml.eos_token_id", &v, &err), B2_OK);
    assert_int_equal(v, 8); /* what the tokenizer said stays */
    assert_int_equal(meta_get_u32(m, "tokenizer.ggml.eot_token_id", &v, &err), B2_OK);
    assert_int_equal(v, 7);
    assert_int_equal(meta_get_u32(m, "tokenizer.ggml.bos_token_id", &v, &err), B2_OK);
    assert_int_equal(v, 5);
    assert_int_equal(
        hf_token_ids_meta(m, "{\"eos_token_id\":\"x\"}", 20, "g.json", &err),
        B2_EFORMAT);
    meta_free(m);
}

static void test_json_limits(void **state)
{
    static const struct {
        const char *text;
        enum b2_status want;
    } cases[] = {
        {"1", B2_OK},
        {" [1,2] \n", B2_OK},
        {"\"\\\"[[\"", B2_OK},
        {"[1,2", B2_EFORMAT},
        {"1 2", B2_EFORMAT},
        {"", B2_EFORMAT},
        {"\"\\", B2_EFORMAT},
        {"{\"a\":}", B2_EFORMAT},
        {"\"\\u0000\"", B2_EFORMAT},
        {"[1,1,1,1,1,1,1,1,1,1]", B2_EUNSUP},
    };
    cJSON *root = NULL;
    struct b2_err err = {0};
    char deep[260];

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        enum b2_status rc =
            json_parse_bounded(&root, cases[i].text, strlen(cases[i].text), 10, &err);
        ROW_CHECK(i, rc == cases[i].want);
        if (rc == B2_OK)
            cJSON_Delete(root);
    }
    memset(deep, '[', 128);
    memset(deep + 128, ']', 128);
    assert_int_equal(json_parse_bounded(&root, deep, 256, 1000, &err), B2_OK);
    cJSON_Delete(root);
    memset(deep, '[', 129);
    memset(deep + 129, ']', 129);
    assert_int_equal(json_parse_bounded(&root, deep, 258, 1000, &err), B2_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),          cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_llama3),           cmocka_unit_test(test_tensor_names),
        cmocka_unit_test(test_nested_names),     cmocka_unit_test(test_nested_ids),
        cmocka_unit_test(test_tokenizer_config), cmocka_unit_test(test_json_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
