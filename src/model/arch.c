/*
 * arch.c - the table of architectures.
 *
 * Sources: the model files of llama.cpp (src/models) for names and order, transformers
 * (modeling_*.py) for the arithmetic.
 */
#include "model/arch.h"

#include <string.h>

static const struct arch archs[] = {
    {.name = "llama", .rope = ROPE_NORM, .glu = GLU_SILU},
    /* llama whose layers may differ in heads and hidden values: what llama.cpp calls the
     * models of NVIDIA's DeciLM line, and what `bonsai2 prune --uneven` writes. */
    {.name = "deci", .rope = ROPE_NORM, .glu = GLU_SILU},
    {.name = "qwen2", .rope = ROPE_NEOX, .glu = GLU_SILU, .qkv_bias = true},
    {.name = "qwen3", .rope = ROPE_NEOX, .glu = GLU_SILU, .qk_norm = true},
    {.name = "phi3",
     .rope = ROPE_NEOX,
     .glu = GLU_SILU,
     .fused = true,
     .longrope = true},
    {.name = "bitnet-b1.58", .rope = ROPE_NEOX, .glu = GLU_RELU2, .sub_norms = true},
    {.name = "gemma3",
     .rope = ROPE_NEOX,
     .glu = GLU_GELU,
     .qk_norm = true,
     .post_norms = true,
     .embd_scale = true,
     .final_cap = true,
     .period = 6,
     .local_base = 10000.0f},
    {.name = "qwen35",
     .rope = ROPE_NEOX,
     .glu = GLU_SILU,
     .qk_norm = true,
     .delta = true,
     .attn_gate = true,
     .ffn_norm = "post_attention_norm.weight"},
};

const struct arch *arch_find(const char *name)
{
    for (size_t i = 0; i < countof(archs); i++)
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    return NULL;
}

const char *arch_list(void)
{
    return "llama, deci, qwen2, qwen3, qwen35, phi3, gemma3, bitnet-b1.58";
}
