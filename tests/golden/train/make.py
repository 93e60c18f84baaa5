"""Writes ARCH.safetensors: a random model of two layers of each architecture, a batch, and
what PyTorch says of it. Usage: make.py OUT_DIR (torch, transformers, safetensors).

Everything is computed in F64 by transformers' models with eager attention and stored in
F32 under the names of GGUF. The loss is the mean over tokens of KL(teacher || student)
over the whole vocabulary plus CE / 4 of the next tokens, the teacher's last hidden states
being random and its head the student's (without a gradient through the teacher).
qwen35 is not computed by transformers, whose delta rule works in F32: it is written down
below, token by token, and transformers' model says the same to F32's precision.
  hp [9]  kind of rope (0 norm, 1 neox), kind of glu (0 silu, 1 gelu), heads, kv heads,
          head size, attention's scale, its soft cap (always 0: these models' code has
          none), the logits' soft cap, scale of embeddings; qwen35 also: taps, key heads,
          value heads and their size; its post_attention_norm is called ffn_norm
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
                          Qwen3ForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig)

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


def losses(y, yt, target):
    pt = torch.log_softmax(yt, -1)
    ps = torch.log_softmax(y, -1)
    kl = (pt.exp() * (pt - ps)).sum(-1).mean()
    return kl, torch.nn.functional.nll_loss(ps.reshape(-1, V), target.reshape(-1))


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
    kl, ce = losses(y, yt, target)
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


# ---- qwen35: a gated delta net, then gated attention; weights as GGUF has them ----

TAPS, KH, VH, SIZE, ROT, LONG, EPS = 4, 2, 4, 8, 4, 70, 1e-5  # LONG: more than a chunk of ours
KEYS, VALUES = KH * SIZE, VH * SIZE


def qwen35_weights():
    shapes = {"token_embd.weight": (V, D), "output_norm.weight": (D,)}
    for i in range(LAYERS):
        b = f"blk.{i}."
        shapes.update({b + "attn_norm.weight": (D,), b + "ffn_norm.weight": (D,),
                       b + "ffn_gate.weight": (F, D), b + "ffn_up.weight": (F, D),
                       b + "ffn_down.weight": (D, F)})
    shapes.update({
        "blk.0.attn_qkv.weight": (2 * KEYS + VALUES, D), "blk.0.attn_gate.weight": (VALUES, D),
        "blk.0.ssm_alpha.weight": (VH, D), "blk.0.ssm_beta.weight": (VH, D),
        "blk.0.ssm_a": (VH,), "blk.0.ssm_dt.bias": (VH,),
        "blk.0.ssm_conv1d.weight": (2 * KEYS + VALUES, TAPS), "blk.0.ssm_norm.weight": (SIZE,),
        "blk.0.ssm_out.weight": (D, VALUES),
        "blk.1.attn_q.weight": (2 * HEADS * HEAD, D), "blk.1.attn_k.weight": (KV * HEAD, D),
        "blk.1.attn_v.weight": (KV * HEAD, D), "blk.1.attn_output.weight": (D, HEADS * HEAD),
        "blk.1.attn_q_norm.weight": (HEAD,), "blk.1.attn_k_norm.weight": (HEAD,)})
    w = {}
    for name, shape in shapes.items():
        x = torch.randn(shape, dtype=torch.float64) * (0.3 if "norm" in name else 0.35)
        if name == "blk.0.ssm_a":
            x = -torch.exp(3 * x - 1)
        w[name] = (x + 1 if "norm" in name else x).float().double().requires_grad_()
    return w


def rms(x, gain):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * gain


def unit(x):
    return x / torch.clamp(x.norm(dim=-1, keepdim=True), min=EPS)


def delta_net(w, h):
    """The recurrence as MODELS.md has it: one token after the other."""
    u = h @ w["attn_qkv.weight"].T
    padded = torch.nn.functional.pad(u, (0, 0, TAPS - 1, 0))
    conv = sum(padded[:, k:k + LONG] * w["ssm_conv1d.weight"][:, k] for k in range(TAPS))
    conv = torch.nn.functional.silu(conv)
    q = unit(conv[..., :KEYS].reshape(SEQS, LONG, KH, SIZE))
    k = unit(conv[..., KEYS:2 * KEYS].reshape(SEQS, LONG, KH, SIZE))
    v = conv[..., 2 * KEYS:].reshape(SEQS, LONG, VH, SIZE)
    q, k = q.repeat(1, 1, VH // KH, 1), k.repeat(1, 1, VH // KH, 1)  # head j reads j mod KH
    beta = torch.sigmoid(h @ w["ssm_beta.weight"].T)
    g = w["ssm_a"] * torch.nn.functional.softplus(h @ w["ssm_alpha.weight"].T
                                                  + w["ssm_dt.bias"])
    state = torch.zeros(SEQS, VH, SIZE, SIZE, dtype=torch.float64)  # keys, values
    out = []
    for t in range(LONG):
        state = state * g[:, t, :, None, None].exp()
        was = (k[:, t, :, None] @ state)[..., 0, :]
        new = beta[:, t, :, None] * (v[:, t] - was)
        state = state + k[:, t, :, :, None] * new[..., None, :]
        out.append((q[:, t, :, None] @ state)[..., 0, :] / SIZE ** 0.5)
    y = rms(torch.stack(out, 1), w["ssm_norm.weight"]).reshape(SEQS, LONG, VALUES)
    return (y * torch.nn.functional.silu(h @ w["attn_gate.weight"].T)) @ w["ssm_out.weight"].T


def turn(x, freq):
    """NeoX pairs of the first ROT values of each head."""
    angle = torch.arange(LONG)[:, None] * freq
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :ROT // 2], x[..., ROT // 2:ROT]
    return torch.cat([a * c - b * s, a * s + b * c, x[..., ROT:]], -1)


def gated_attention(w, h, freq):
    q, gate = (h @ w["attn_q.weight"].T).reshape(SEQS, LONG, HEADS, 2, HEAD).unbind(3)
    k = (h @ w["attn_k.weight"].T).reshape(SEQS, LONG, KV, HEAD)
    v = (h @ w["attn_v.weight"].T).reshape(SEQS, LONG, KV, HEAD)
    q = turn(rms(q, w["attn_q_norm.weight"]), freq)
    k = turn(rms(k, w["attn_k_norm.weight"]), freq).repeat_interleave(HEADS // KV, 2)
    v = v.repeat_interleave(HEADS // KV, 2)
    p = torch.einsum("sqhd,skhd->shqk", q, k) * HEAD ** -0.5
    p = p.masked_fill(torch.ones(LONG, LONG).triu(1).bool(), -math.inf).softmax(-1)
    y = torch.einsum("shqk,skhd->sqhd", p, v) * torch.sigmoid(gate)
    return y.reshape(SEQS, LONG, -1) @ w["attn_output.weight"].T


def qwen35(w, ids, freq):
    """Hidden states before the last norm."""
    x = w["token_embd.weight"][ids]
    for i in range(LAYERS):
        l = {n.split(".", 2)[2]: p for n, p in w.items() if n.startswith(f"blk.{i}.")}
        h = rms(x, l["attn_norm.weight"])
        x = x + (gated_attention(l, h, freq) if i else delta_net(l, h))
        h = rms(x, l["ffn_norm.weight"])
        x = x + (torch.nn.functional.silu(h @ l["ffn_gate.weight"].T)
                 * (h @ l["ffn_up.weight"].T)) @ l["ffn_down.weight"].T
    return x


def grouped(w, size, axis=0):
    """Value heads along an axis in transformers' order: those of a key head together."""
    w = w.movedim(axis, 0)
    w = w.reshape(VH // KH, KH, size, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)
    return w.movedim(0, axis)


def check_qwen35(w, ids, freq, y):
    """transformers' model with the same weights: the same logits."""
    config = Qwen3_5TextConfig(
        **{**COMMON, "num_hidden_layers": 2}, linear_conv_kernel_dim=TAPS,
        linear_key_head_dim=SIZE, linear_value_head_dim=SIZE, linear_num_key_heads=KH,
        linear_num_value_heads=VH, layer_types=["linear_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                         "partial_rotary_factor": ROT / HEAD, "mrope_section": [1, 1, 0],
                         "mrope_interleaved": True})
    model = Qwen3_5ForCausalLM(config).double().eval()
    assert torch.allclose(model.model.rotary_emb.inv_freq.double(), freq)
    state, behind = {}, lambda x: torch.cat([x[:2 * KEYS], grouped(x[2 * KEYS:], SIZE)])
    hf = {"attn_qkv.weight": ("linear_attn.in_proj_qkv.weight", behind),
          "attn_gate.weight": ("linear_attn.in_proj_z.weight", lambda x: grouped(x, SIZE)),
          "ssm_alpha.weight": ("linear_attn.in_proj_a.weight", lambda x: grouped(x, 1)),
          "ssm_beta.weight": ("linear_attn.in_proj_b.weight", lambda x: grouped(x, 1)),
          "ssm_a": ("linear_attn.A_log", lambda x: grouped((-x).log(), 1)),
          "ssm_dt.bias": ("linear_attn.dt_bias", lambda x: grouped(x, 1)),
          "ssm_conv1d.weight": ("linear_attn.conv1d.weight", lambda x: behind(x)[:, None]),
          "ssm_norm.weight": ("linear_attn.norm.weight", lambda x: x),
          "ssm_out.weight": ("linear_attn.out_proj.weight", lambda x: grouped(x, SIZE, 1))}
    names = {v: k for k, v in NAMES.items()}
    for name, x in w.items():
        x = x.detach()
        if name == "token_embd.weight":
            state["model.embed_tokens.weight"] = state["lm_head.weight"] = x
        elif name == "output_norm.weight":
            state["model.norm.weight"] = x - 1
        else:
            _, layer, rest = name.split(".", 2)
            to, how = hf[rest] if rest in hf else (names[rest[:-7]] + ".weight", lambda x: x)
            x = how(x)
            x = x - 1 if "norm" in rest and rest != "ssm_norm.weight" else x
            state[f"model.layers.{layer}.{to}"] = x
    model.load_state_dict(state, strict=True)
    with torch.no_grad():
        far = (model(input_ids=ids, use_cache=False).logits - y).abs().max().item()
    print("qwen35 beside transformers:", far, "of", y.abs().max().item())
    assert far < 1e-4 * y.abs().max().item()


def make_qwen35(out_dir):
    torch.manual_seed(35)
    w = qwen35_weights()
    freq = 100.0 ** (-torch.arange(0, ROT, 2, dtype=torch.float64) / ROT)
    ids = torch.randint(0, V, (SEQS, LONG))
    target = torch.randint(0, V, (SEQS, LONG))
    ht = torch.randn(SEQS, LONG, D, dtype=torch.float64)
    hidden = qwen35(w, ids, freq)
    head = w["token_embd.weight"]
    y = rms(hidden, w["output_norm.weight"]) @ head.T
    check_qwen35(w, ids, freq, y)
    kl, ce = losses(y, (ht @ head.T).detach(), target)
    (kl + ce / 4).backward()
    out = {"hp": [1, 0, HEADS, KV, HEAD, HEAD ** -0.5, 0, 0, 1, TAPS, KH, VH, SIZE],
           "ids": ids, "target": target, "ht": ht.reshape(-1, D), "window": [0, 0],
           "freq": torch.stack([freq, freq]), "loss": [kl.item(), ce.item()],
           "hidden": hidden.reshape(-1, D)}
    for name, p in w.items():
        out[name] = p
        out["grad." + name] = p.grad
    save_file({k: torch.as_tensor(v).detach().float().contiguous() for k, v in out.items()},
              f"{out_dir}/qwen35.safetensors")
    print("qwen35", kl.item(), ce.item())


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
make_qwen35(sys.argv[1])
make_adam(sys.argv[1])
