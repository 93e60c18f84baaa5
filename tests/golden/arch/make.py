#!/usr/bin/env python3
"""make.py [NAME...] - tiny random models as Hugging Face folders, and their logits.

Each folder is saved by transformers (weights in BF16) and run by it in F32 on a CPU with
eager attention. logits.bin of a folder, little-endian:

    int32 ids[200]      the tokens of the only sequence
    int32 top1[200]     the most likely token after each
    float32 rows[20][V] the logits after tokens 9, 19, ..., 199

Of many random sequences that one is kept whose closest race for the first place is
widest, so that top1 means something. Needs torch 2.15 and transformers 5.24.
"""
import os
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers import Regex
from transformers import (BitNetConfig, BitNetForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3_5Config,
                          Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration,
                          Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM)

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = os.path.join(HERE, "..", "..", "..", "examples", "text", "austen.txt")
V, T, EVERY, TRIES = 320, 200, 10, 64
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+"
         r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
COMMON = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0,
              eos_token_id=1, pad_token_id=None)



def stretched(**rope):
    """A Llama whose positions are stretched."""
    return lambda: LlamaForCausalLM(LlamaConfig(
        **COMMON, num_hidden_layers=1, tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_parameters={"rope_theta": 1e4, **rope}))


# Widths that ternary blocks of 64 and rotations of 32 divide; three delta nets for each
# attention layer, two value heads for each key head.
DELTA = dict(
    **{**COMMON, "intermediate_size": 128}, num_hidden_layers=4, head_dim=32,
    linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16,
    linear_num_key_heads=2, linear_num_value_heads=4,
    rope_parameters={"rope_type": "default", "rope_theta": 1e7,
                     "partial_rotary_factor": .25, "mrope_section": [2, 1, 1],
                     "mrope_interleaved": True})

MODELS = {
    "llama-linear": stretched(rope_type="linear", factor=4.0),
    "llama-yarn": stretched(rope_type="yarn", factor=8.0,
                            original_max_position_embeddings=64),
    "llama-llama3": stretched(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                              high_freq_factor=4.0,
                              original_max_position_embeddings=64),
    # Below max_position_embeddings nothing grows, which is what makes it dynamic.
    "llama-dynamic": stretched(rope_type="dynamic", factor=4.0),
    "phi3": lambda: Phi3ForCausalLM(Phi3Config(
        **COMMON, num_hidden_layers=2, sliding_window=48)),
    # 6 of 16 values turn in pairs of 3; 200 tokens are above the original context.
    "phi3-long": lambda: Phi3ForCausalLM(Phi3Config(
        **COMMON, num_hidden_layers=1, original_max_position_embeddings=64,
        partial_rotary_factor=0.375,
        rope_parameters={"rope_type": "longrope", "rope_theta": 1e4,
                         "partial_rotary_factor": 0.375,
                         "short_factor": [1.0, 1.05, 1.1],
                         "long_factor": [1.25, 2.5, 6.0]})),
    "mistral": lambda: MistralForCausalLM(MistralConfig(
        **COMMON, num_hidden_layers=2, sliding_window=48, rms_norm_eps=1e-5)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(
        **COMMON, num_hidden_layers=3, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(
        **COMMON, num_hidden_layers=2, head_dim=32,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    "qwen35": lambda: Qwen3_5ForCausalLM(Qwen3_5TextConfig(**DELTA)),
    # As published: with a part for pictures, the text's settings nested; tied, six value
    # heads for two key heads, layers in no regular order.
    "qwen35-vl": lambda: Qwen3_5ForConditionalGeneration(Qwen3_5Config(
        tie_word_embeddings=True, image_token_id=2, video_token_id=3,
        vision_start_token_id=4, vision_end_token_id=5,
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2,
                           out_hidden_size=64, num_position_embeddings=16, patch_size=4),
        text_config={**DELTA, "num_hidden_layers": 3, "linear_num_value_heads": 6,
                     "tie_word_embeddings": True,
                     "layer_types": ["linear_attention", "full_attention",
                                     "linear_attention"]})),
    "bitnet": lambda: BitNetForCausalLM(BitNetConfig(
        **COMMON, num_hidden_layers=2, tie_word_embeddings=True)),
    # Sliding, sliding, full, sliding.
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(
        **{**COMMON, "intermediate_size": 64, "num_attention_heads": 2,
           "num_key_value_heads": 1},
        num_hidden_layers=4, head_dim=32, query_pre_attn_scalar=32, sliding_window=24,
        layer_types=["sliding_attention", "sliding_attention", "full_attention",
                     "sliding_attention"])),
    # What the 270M does not use: capped logits, another scale of queries, stretched positions.
    "gemma3-cap": lambda: Gemma3ForCausalLM(Gemma3TextConfig(
        **{**COMMON, "num_attention_heads": 2, "num_key_value_heads": 1},
        num_hidden_layers=2, head_dim=32, query_pre_attn_scalar=20, sliding_window=24,
        final_logit_softcapping=3.0,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})),
}


def tokenizer():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train([TEXT], trainers.BpeTrainer(
        vocab_size=V, special_tokens=["<|begin|>", "<|end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    assert tok.get_vocab_size() == V
    return tok


def fill(model, seed):
    """Weights that keep activations near 1, make attention choose, and no gain 1."""
    torch.manual_seed(seed)
    one = "gemma" in model.config.model_type or "qwen3_5" in model.config.model_type
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1 and "norm" in name:
                p.normal_(0.0 if one and "linear_attn" not in name else 1.0, 0.2)
            elif "A_log" in name:  # memories from a few tokens to a few hundred
                p.uniform_(-5.0, 1.0)
            elif "conv1d" in name:
                p.normal_(0.0, 0.5)
            elif p.dim() == 1:
                p.normal_(0.0, 0.5)
            elif "embed_tokens" in name:
                p.normal_(0.0, 0.2)
            else:
                gain = 2.0 if "q_proj" in name or "lm_head" in name else 1.0
                p.normal_(0.0, gain / p.shape[1] ** 0.5)


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def add_mtp(path):
    """Tensors of a head for further tokens, as published folders have them; transformers
    does not read them."""
    tensors = load_file(path)
    tensors["mtp.fc.weight"] = torch.zeros(64, 128, dtype=torch.bfloat16)
    tensors["mtp.norm.weight"] = torch.zeros(64, dtype=torch.bfloat16)
    tensors["mtp.layers.0.input_layernorm.weight"] = tensors["mtp.norm.weight"].clone()
    save_file(tensors, path, {"format": "pt"})


def make(name):
    folder = os.path.join(HERE, name)
    model = MODELS[name]()
    model.set_attn_implementation("eager")
    fill(model, 1)
    model = model.bfloat16()
    model.save_pretrained(folder)
    if name == "qwen35-vl":
        add_mtp(os.path.join(folder, "model.safetensors"))
    tokenizer().save(os.path.join(folder, "tokenizer.json"))
    # Read back, so that the logits belong to the file.
    model = type(model).from_pretrained(folder, dtype=torch.float32,
                                        attn_implementation="eager").eval()
    best = None
    for seed in range(TRIES):
        ids = np.random.default_rng(seed).integers(2, V, T)
        rows = logits_of(model, ids.tolist())
        two = np.sort(rows, axis=1)[:, -2:]
        gap = float((two[:, 1] - two[:, 0]).min())
        if best is None or gap > best[0]:
            best = gap, ids, rows
    gap, ids, rows = best
    with open(os.path.join(folder, "logits.bin"), "wb") as f:
        f.write(ids.astype("<i4").tobytes())
        f.write(rows.argmax(1).astype("<i4").tobytes())
        f.write(rows[EVERY - 1::EVERY].astype("<f4").tobytes())
    print("%s: logits up to %.3g, spread %.3g, smallest gap %.3g"
          % (name, np.abs(rows).max(), rows.std(), gap))


for wanted in sys.argv[1:] or MODELS:
    make(wanted)
