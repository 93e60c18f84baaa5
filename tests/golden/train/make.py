"""Writes ARCH.safetensors: a random model of two layers of each architecture, a batch, and
what PyTorch says of it. Usage: make.py OUT_DIR (torch, transformers, safetensors).

Everything is computed in F64 by transformers' models with eager attention and stored in
F32 under the names of GGUF. The loss is the mean over tokens of KL(teacher || student)
over the whole vocabulary plus CE / 4 of the next tokens, the teacher's last hidden states
being random and its head the student's (without a gradient through the teacher).
  hp [9]  kind of rope (0 norm, 1 neox), kind of glu (0 silu, 1 gelu), heads, kv heads,
          head size, attention's scale, its soft cap (always 0: these models' code has
          none), the logits' soft cap, scale of embeddings
  ids, target [seqs, ctx]; window [layers]; freq [layers, head/2]; ht [tokens, d]
  loss [2]: KL and CE, means; hidden [tokens, d]: before the last norm
  grad.NAME: gradient of the tensor NAME
adam.safetensors: see make_adam().
"""
import math
import sys

import torch
from safetensors.torch import save_file
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig,
                          LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

D, F, V, HEADS, KV, HEAD, LAYERS, SEQS, CTX = 24, 40, 61, 4, 2, 8, 2, 2, 10
COMMON = dict(hidden_size=D, intermediate_size=F, vocab_size=V, num_attention_heads=HEADS,
              num_key_value_heads=KV, head_dim=HEAD, num_hidden_layers=LAYERS,
              max_position_embeddings=64, tie_word_embeddings=True, rms_norm_eps=1e-5,
              attn_implementation="eager", bos_token_id=1, eos_token_id=2, pad_token_id=None)
ARCHS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**{**COMMON, "head_dim": D // HEADS})),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**{**COMMON, "head_dim": D // HEADS})),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**COMMON)),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(
        **COMMON, sliding_window=4, query_pre_attn_scalar=12,
        layer_types=["sliding_attention", "full_attention"], final_logit_softcapping=4.0,
        hidden_activation="gelu_pytorch_tanh")),
}
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
GEMMA = {"post_attention_layernorm": "post_attention_norm",
         "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}


def gguf_name(arch, name):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    table = {**NAMES, **(GEMMA if arch == "gemma3" else {})}
    return f"blk.{layer}.{table[module]}.{kind}"


def permute(w, heads):
    """Rows of q and k as llama.cpp's converter lays them for interleaved pairs."""
    return (w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2)
            .reshape(w.shape))


def stored(arch, name, w, is_grad):
    if arch == "gemma3" and "norm" in name and not is_grad:
        w = w + 1
    if arch == "llama" and "q_proj" in name:
        w = permute(w, HEADS)
    if arch == "llama" and "k_proj" in name:
        w = permute(w, KV)
    return w.detach().float().contiguous()


def freqs(model, layer):
    rotary = model.model.rotary_emb
    if hasattr(rotary, "inv_freq"):
        return rotary.inv_freq
    return getattr(rotary, model.config.layer_types[layer] + "_inv_freq")


def make(arch, out_dir):
    cls, config = ARCHS[arch]
    torch.manual_seed(len(arch) + ord(arch[-1]))
    model = cls(config).double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * (0.3 if "norm" in name else 0.35))
            if "norm" in name and arch != "gemma3":
                p.add_(1)
    ids = torch.randint(0, V, (SEQS, CTX))
    target = torch.randint(0, V, (SEQS, CTX))
    ht = torch.randn(SEQS, CTX, D, dtype=torch.float64)
    hidden = {}
    model.model.norm.register_forward_pre_hook(
        lambda m, args: hidden.setdefault("x", args[0]))
    cap = getattr(config, "final_logit_softcapping", None) or 0.0
    y = model(input_ids=ids, use_cache=False).logits
    with torch.no_grad():
        yt = ht @ model.lm_head.weight.T
        yt = cap * torch.tanh(yt / cap) if cap else yt
    pt = torch.log_softmax(yt, -1)
    ps = torch.log_softmax(y, -1)
    kl = (pt.exp() * (pt - ps)).sum(-1).mean()
    ce = torch.nn.functional.nll_loss(ps.reshape(-1, V), target.reshape(-1))
    (kl + ce / 4).backward()
    head = D // HEADS if arch in ("llama", "qwen2") else HEAD
    gemma = arch == "gemma3"
    scale = 12 ** -0.5 if gemma else head ** -0.5
    out = {
        "hp": [0 if arch == "llama" else 1, int(gemma), HEADS, KV, head, scale,
               0, cap, math.sqrt(D) if gemma else 1.0],
        "ids": ids, "target": target, "ht": ht.reshape(-1, D),
        "window": [4, 0] if gemma else [0, 0],
        "freq": torch.stack([freqs(model, i) for i in range(LAYERS)]),
        "loss": [kl.item(), ce.item()], "hidden": hidden["x"].detach().reshape(-1, D),
    }
    out = {k: torch.as_tensor(v).detach().float().contiguous() for k, v in out.items()}
    for name, p in model.named_parameters():
        out[gguf_name(arch, name)] = stored(arch, name, p, False)
        out["grad." + gguf_name(arch, name)] = stored(arch, name, p.grad, True)
    save_file(out, f"{out_dir}/{arch}.safetensors")
    print(arch, kl.item(), ce.item())


def make_adam(out_dir):
    """Ten numbers through six steps of AdamW with gradients that are given."""
    torch.manual_seed(7)
    start = torch.randn(10, dtype=torch.float64)
    grads = torch.randn(6, 10, dtype=torch.float64) * torch.logspace(-4, 1, 10).double()
    p = torch.nn.Parameter(start.clone())
    opt = torch.optim.AdamW([p], lr=0.03, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for g in grads:
        p.grad = g.clone()
        opt.step()
    out = {"start": start, "grads": grads, "end": p.detach()}
    save_file({k: v.float().contiguous() for k, v in out.items()},
              f"{out_dir}/adam.safetensors")


for a in ARCHS:
    make(a, sys.argv[1])
make_adam(sys.argv[1])
