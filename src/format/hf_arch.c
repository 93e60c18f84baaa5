/*
 * hf_arch.c - the table of architectures and the names of their tensors.
 *
 * Names on the right are those of llama.cpp's gguf-py (constants.py, tensor_mapping.py).
 */
#include "format/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Order is the canonical order of a GGUF made from the folder. */
static const struct hf_tensor llama_tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", false, HF_HEADS_NONE},
    {"input_layernorm.weight", "attn_norm.weight", true, HF_HEADS_NONE},
    {"self_attn.q_proj.weight", "attn_q.weight", true, HF_HEADS_Q},
    {"self_attn.k_proj.weight", "attn_k.weight", true, HF_HEADS_KV},
    {"self_attn.v_proj.weight", "attn_v.weight", true, HF_HEADS_NONE},
    {"self_attn.o_proj.weight", "attn_output.weight", true, HF_HEADS_NONE},
    {"post_attention_layernorm.weight", "ffn_norm.weight", true, HF_HEADS_NONE},
    {"mlp.gate_proj.weight", "ffn_gate.weight", true, HF_HEADS_NONE},
    {"mlp.up_proj.weight", "ffn_up.weight", true, HF_HEADS_NONE},
    {"mlp.down_proj.weight", "ffn_down.weight", true, HF_HEADS_NONE},
    {"model.norm.weight", "output_norm.weight", false, HF_HEADS_NONE},
    {"lm_head.weight", "output.weight", false, HF_HEADS_NONE},
    {NULL, NULL, false, HF_HEADS_NONE},
};

/* MistralConfig slides a window of 4096 unless config.json says null or a number. */
static const struct hf_arch archs[] = {
    {"LlamaForCausalLM", "llama", llama_tensors, 0},
    {"MistralForCausalLM", "llama", llama_tensors, 4096},
};

const struct hf_arch *hf_arch_find(const char *hf_name)
{
    for (size_t i = 0; i < countof(archs); i++) {
        if (strcmp(archs[i].hf, hf_name) == 0)
            return &archs[i];
    }
    return NULL;
}

const char *hf_arch_list(void)
{
    return "LlamaForCausalLM, MistralForCausalLM";
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

enum hf_known hf_tensor_target(const struct hf_model *model, const char *hf_name,
                               struct hf_target *out)
{
    enum { SLOTS = 64 }; /* more than any row has tensors per layer */
    uint32_t layer = 0;
    const char *rest = layer_of(hf_name, &layer);
    const char *key = rest ? rest : hf_name;

    if (is_rotary_table(hf_name))
        return HF_SKIP;
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
        if (t->permute != HF_HEADS_NONE)
            out->n_heads =
                t->permute == HF_HEADS_Q ? model->n_heads : model->n_kv_heads;
        return HF_TENSOR;
    }
    return HF_UNKNOWN;
}
