/*
 * hf_arch.c - the table of architectures and the names of their tensors.
 *
 * Names on the right are those of llama.cpp's gguf-py (constants.py, tensor_mapping.py).
 */
#include "format/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 256 }; /* cut names are unknown names */

/* Order is the canonical order of a GGUF made from the folder. */
static const struct hf_tensor llama_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_AS_IS},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_HEADS_Q},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_HEADS_KV},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", true, HF_AS_IS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_AS_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"model.norm.weight", "output_norm.weight", false, HF_AS_IS},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

/* Rotary pairs are halves of a head in the folder and in GGUF alike: rows stay. */
static const struct hf_tensor qwen2_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_AS_IS},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_AS_IS},
    {"self_attn.q_proj.bias", "attn_q.bias", true, HF_AS_IS},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_AS_IS},
    {"self_attn.k_proj.bias", "attn_k.bias", true, HF_AS_IS},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_AS_IS},
    {"self_attn.v_proj.bias", "attn_v.bias", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", true, HF_AS_IS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_AS_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"model.norm.weight", "output_norm.weight", false, HF_AS_IS},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

static const struct hf_tensor qwen3_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_AS_IS},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_AS_IS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", true, HF_AS_IS},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_AS_IS},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", true, HF_AS_IS},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", true, HF_AS_IS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_AS_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"model.norm.weight", "output_norm.weight", false, HF_AS_IS},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

static const struct hf_tensor gemma3_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_PLUS_ONE},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_AS_IS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", true, HF_PLUS_ONE},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_AS_IS},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", true, HF_PLUS_ONE},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", true,
     HF_PLUS_ONE},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", true, HF_PLUS_ONE},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_AS_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", true, HF_PLUS_ONE},
    {"model.norm.weight", "output_norm.weight", false, HF_PLUS_ONE},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

static const struct hf_tensor bitnet_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_AS_IS},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_AS_IS},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_AS_IS},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_AS_IS},
    {"self_attn.attn_sub_norm.weight", "attn_sub_norm.weight", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", true, HF_AS_IS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_AS_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.ffn_sub_norm.weight", "ffn_sub_norm.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"model.norm.weight", "output_norm.weight", false, HF_AS_IS},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

/* Norms are stored as differences to 1, but for that of the delta net's output. */
static const struct hf_tensor qwen35_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_PLUS_ONE},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_AS_IS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", true, HF_PLUS_ONE},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_AS_IS},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", true, HF_PLUS_ONE},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight", true, HF_V_BEHIND_QK},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight", true, HF_V_ROWS},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight", true, HF_V_ONES},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight", true, HF_V_ONES},
    {"linear_attn.A_log", "ssm_a", true, HF_V_RATE},
    {"linear_attn.dt_bias", "ssm_dt.bias", true, HF_V_ONES},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight", true, HF_V_CONV},
    {"linear_attn.norm.weight", "ssm_norm.weight", true, HF_AS_IS},
    {"linear_attn.out_proj.weight", "ssm_out.weight", true, HF_V_COLS},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", true,
     HF_PLUS_ONE},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_AS_IS},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"model.norm.weight", "output_norm.weight", false, HF_PLUS_ONE},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

/* q, k and v are one tensor, and so are gate and up, in both containers. */
static const struct hf_tensor phi3_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_AS_IS},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_AS_IS},
    {"self_attn.qkv_proj.weight", "attn_qkv.weight", true, HF_AS_IS},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_AS_IS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", true, HF_AS_IS},
    {"mlp.gate_up_proj.weight", "ffn_up.weight", true, HF_AS_IS},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_AS_IS},
    {"model.norm.weight", "output_norm.weight", false, HF_AS_IS},
    {"lm_head.weight", "output.weight", false, HF_AS_IS},
    {NULL, NULL, false, HF_AS_IS},
};

static const char *const none[] = {NULL};
static const char *const qwen35_own[] = {
    "layer_types",           "full_attention_interval",      "partial_rotary_factor",
    "attn_output_gate",      "linear_conv_kernel_dim",       "linear_key_head_dim",
    "linear_value_head_dim", "linear_num_key_heads",         "linear_num_value_heads",
    "mamba_ssm_dtype", /* ours is F32 */
    "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", NULL,
};
static const char *const phi3_own[] = {"partial_rotary_factor", "resid_pdrop",
                                       "embd_pdrop", NULL};
static const char *const gemma3_own[] = {
    "layer_types",
    "rope_local_base_freq",
    "query_pre_attn_scalar",
    "final_logit_softcapping",
    NULL,
};

/* Defaults are those of transformers' configuration classes. */
static const struct hf_arch archs[] = {
    {.hf = "LlamaForCausalLM",
     .model_type = "llama",
     .attention_bias = true,
     .gguf = "llama",
     .tensors = llama_tensors,
     .activation = "silu",
     .default_theta = 1e4,
     .own = none},
    {.hf = "MistralForCausalLM",
     .model_type = "mistral",
     .gguf = "llama",
     .tensors = llama_tensors,
     .activation = "silu",
     .default_window = 4096,
     .default_theta = 1e4,
     .own = none},
    {.hf = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .gguf = "qwen2",
     .tensors = qwen2_tensors,
     .activation = "silu",
     .window = HF_WINDOW_OFF,
     .default_theta = 1e4,
     .own = none},
    {.hf = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .attention_bias = true,
     .gguf = "qwen3",
     .tensors = qwen3_tensors,
     .activation = "silu",
     .window = HF_WINDOW_OFF,
     .default_head_dim = 128,
     .default_theta = 1e4,
     .own = none},
    {.hf = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .attention_bias = true,
     .gguf = "qwen35",
     .tensors = qwen35_tensors,
     .activation = "silu",
     .window = HF_WINDOW_OFF,
     .default_head_dim = 256,
     .default_theta = 1e4,
     .own = qwen35_own,
     .delta = true},
    {.hf = "Qwen3_5ForConditionalGeneration",
     .model_type = "qwen3_5",
     .gguf = "qwen35",
     .tensors = qwen35_tensors,
     .activation = "silu",
     .window = HF_WINDOW_OFF,
     .default_head_dim = 256,
     .default_theta = 1e4,
     .own = qwen35_own,
     .nested = true,
     .delta = true},
    {.hf = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .attention_bias = true,
     .gguf = "gemma3",
     .tensors = gemma3_tensors,
     .activation = "gelu_pytorch_tanh",
     .window = HF_WINDOW_SOME,
     .default_window = 4096,
     .default_head_dim = 256,
     .default_theta = 1e6,
     .default_tied = true,
     .own = gemma3_own},
    {.hf = "Phi3ForCausalLM",
     .model_type = "phi3",
     .attention_bias = true,
     .gguf = "phi3",
     .tensors = phi3_tensors,
     .activation = "silu",
     .default_theta = 1e4,
     .rotary_part = true,
     .own = phi3_own},
    {.hf = "BitNetForCausalLM",
     .model_type = "bitnet",
     .attention_bias = true,
     .gguf = "bitnet-b1.58",
     .tensors = bitnet_tensors,
     .activation = "relu2",
     .window = HF_WINDOW_OFF,
     .default_theta = 5e5,
     .own = none},
};

const struct hf_arch *hf_arch_find(const char *hf_name)
{
    for (size_t i = 0; i < countof(archs); i++) {
        if (strcmp(archs[i].hf, hf_name) == 0)
            return &archs[i];
    }
    return NULL;
}

const struct hf_arch *hf_arch_of_gguf(const char *name)
{
    for (size_t i = 0; i < countof(archs); i++) {
        if (strcmp(archs[i].gguf, name) == 0)
            return &archs[i];
    }
    return NULL;
}

const char *hf_arch_list(void)
{
    return "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
           "Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Gemma3ForCausalLM, "
           "Phi3ForCausalLM, BitNetForCausalLM";
}

/* "model.layers.17.rest" gives 17 and rest; NULL for other names. */
static const char *layer_of(const char *name, uint32_t *layer)
{
    static const char prefix[] = "model.layers.";
    const char *p = name + sizeof prefix - 1;
    uint32_t v = 0;
    int digits = 0;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    for (; *p >= '0' && *p <= '9' && digits < 6; p++, digits++)
        v = v * 10 + (uint32_t)(*p - '0');
    if (digits == 0 || *p != '.' || (digits > 1 && name[sizeof prefix - 1] == '0'))
        return NULL;
    *layer = v;
    return p + 1;
}

/* Rotary tables that old checkpoints carry; they follow from the configuration. */
static bool is_rotary_table(const char *name)
{
    static const char suffix[] = ".rotary_emb.inv_freq";
    size_t n = strlen(name), m = sizeof suffix - 1;

    return n > m && strcmp(name + n - m, suffix) == 0;
}

static bool starts_with(const char *s, const char *start)
{
    return strncmp(s, start, strlen(start)) == 0;
}

/* The parts of a model that are not read. HF_UNKNOWN: none of them. */
static enum hf_known left_out(const struct hf_arch *arch, const char *name)
{
    if (is_rotary_table(name))
        return HF_SKIP;
    if (arch->nested && starts_with(name, "model.visual."))
        return HF_SKIP_VISION;
    if (arch->delta && (starts_with(name, "mtp.") || starts_with(name, "model.mtp.")))
        return HF_SKIP_MTP;
    return HF_UNKNOWN;
}

/* The name that the text model alone would have, in buf when it differs. */
static const char *name_in_text(const struct hf_arch *arch, const char *name,
                                char buf[NAME_MAX_LEN])
{
    static const char prefix[] = "model.language_model.";

    if (!arch->nested || !starts_with(name, prefix))
        return name;
    (void)snprintf(buf, NAME_MAX_LEN, "model.%s", name + sizeof prefix - 1);
    return buf;
}

enum hf_known hf_tensor_target(const struct hf_model *model, const char *hf_name,
                               struct hf_target *out)
{
    enum { SLOTS = 64 }; /* more than any row has tensors per layer */
    enum hf_known skip = left_out(model->arch, hf_name);
    char buf[NAME_MAX_LEN];
    uint32_t layer = 0;
    const char *name = name_in_text(model->arch, hf_name, buf);
    const char *rest = layer_of(name, &layer);
    const char *key = rest ? rest : name;

    if (skip != HF_UNKNOWN)
        return skip;
    if (rest && layer >= model->n_layers)
        return HF_UNKNOWN;
    for (const struct hf_tensor *t = model->arch->tensors; t->hf; t++) {
        if (t->in_layer != (rest != NULL) || strcmp(t->hf, key) != 0)
            continue;
        if (model->tied && strcmp(t->gguf, "output.weight") == 0)
            return HF_SKIP;
        int64_t slot = t - model->arch->tensors;
        *out = (struct hf_target){.kind = t,
                                  .order = slot == 0 ? -1 : INT64_MAX - SLOTS + slot};
        if (rest) {
            out->order = (int64_t)layer * SLOTS + slot;
            (void)snprintf(out->name, sizeof out->name, "blk.%" PRIu32 ".%s", layer,
                           t->gguf);
        } else {
            (void)snprintf(out->name, sizeof out->name, "%s", t->gguf);
        }
        if (t->change == HF_HEADS_Q)
            out->n_heads = model->n_heads;
        else if (t->change == HF_HEADS_KV)
            out->n_heads = model->n_kv_heads;
        return HF_TENSOR;
    }
    return HF_UNKNOWN;
}
