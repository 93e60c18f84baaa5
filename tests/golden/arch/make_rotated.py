#!/usr/bin/env python3
"""make_rotated.py - tiny Qwen 3.5 models with rotated ternary weights, as GGUF files.

The weights of the file are made first: random trits and scales in groups of 128, packed by
the code below. What they mean is then unfolded with plain matrices (no fast transform),
put into a transformers model in its own order of heads, and run by it in F32: the logits
of the unrotated self. Nothing here shares code with the program.

    rotated-ptq1_0.gguf   version 1: explicit signs in blocks of 32, grouped columns of
    rotated-pq2_0.gguf    ssm_out, folded token table and head; the same weights in two types
    rotated-tied.gguf     version 2: identity signs in blocks of 128, tied table, PQ2_0
    rotated.bin, rotated-tied.bin   logits, laid out as make.py says

Needs torch 2.15 and transformers 5.24.
"""
import os
import struct

import numpy as np
import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

HERE = os.path.dirname(os.path.abspath(__file__))
V, T, EVERY, TRIES = 320, 200, 10, 32
D, F, LAYERS, HEADS, KV, HEAD, TAPS = 128, 256, 4, 4, 2, 32, 4
F32, BF16, PQ2_0, PTQ1_0 = 0, 30, 142, 143


# ---- packing: FORMATS.md 1.2 and 1.3 ----

def pack_pq2_0(trits, scale):
    out = bytearray(np.float16(scale).tobytes())
    for i in range(0, 128, 4):
        out.append(sum((int(trits[i + k]) + 1) << (2 * k) for k in range(4)))
    return bytes(out)


def pack_ptq1_0(trits, scale):
    x = [int(t) + 1 for t in trits]

    def byte(digits):  # most significant first; four digits stand three times as high
        v = 0
        for k, d in enumerate(digits):
            v += d * 3 ** (4 - k)
        return (256 * v + 242) // 243

    out = bytearray()
    for m in range(16):
        out.append(byte([x[m + 16 * n] for n in range(5)]))
    for m in range(8):
        out.append(byte([x[80 + m + 8 * n] for n in range(5)]))
    for h in range(2):
        out.append(byte([x[120 + h + 2 * n] for n in range(4)]))
    return bytes(out) + np.float16(scale).tobytes()


GOLDEN_TRITS = [((j * j + 3 * j + 7) // 5) % 3 - 1 for j in range(128)]
assert pack_ptq1_0(GOLDEN_TRITS, 1.5).hex() == (
    "96c143c85706103296c247d58182879620212fa2b451d2605fe4003e")
assert pack_pq2_0(GOLDEN_TRITS, 1.5).hex() == (
    "003e8901895562406295189058250624568901895562406295189058250624568901")


class Ternary:
    """A folded weight [rows, cols] as trits and one FP16 scale per 128 columns."""

    def __init__(self, rng, rows, cols, gain=1.0):
        self.trits = rng.integers(-1, 2, (rows, cols))
        self.scales = np.float16(gain * (1.5 / cols) ** 0.5
                                 * rng.uniform(0.7, 1.3, (rows, cols // 128)))
        self.values = self.trits * np.repeat(self.scales.astype(np.float64), 128, 1)

    def packed(self, kind):
        pack = pack_pq2_0 if kind == PQ2_0 else pack_ptq1_0
        return b"".join(pack(self.trits[r, 128 * g:128 * (g + 1)], self.scales[r, g])
                        for r in range(len(self.trits)) for g in range(self.scales.shape[1]))


# ---- the rotation: FORMATS.md 1.5 ----

def hadamard(n):
    bits = np.arange(n)[:, None] & np.arange(n)[None, :]
    odd = np.zeros((n, n), int)
    while bits.any():
        odd ^= bits & 1
        bits >>= 1
    return np.where(odd, -1.0, 1.0) / n ** 0.5


def unfold(w, signs, block):
    """W = (W' H) diag(s), block by block; also what a folded table's rows mean."""
    h = hadamard(block)
    out = np.concatenate([w[:, c:c + block] @ h for c in range(0, w.shape[1], block)], 1)
    return out * signs[w.shape[1]]


# ---- GGUF ----

def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def value(v):
    if isinstance(v, bool):
        return 7, struct.pack("<B", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, int):
        return 4, struct.pack("<I", v)
    if isinstance(v, str):
        return 8, text(v)
    if all(isinstance(e, str) for e in v):
        return 9, struct.pack("<IQ", 8, len(v)) + b"".join(map(text, v))
    return 9, struct.pack("<IQ", 5, len(v)) + np.asarray(v, "<i4").tobytes()


def write_gguf(path, keys, tensors):
    """tensors: name -> (dimensions, the row's length first; type; bytes)"""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, v in keys.items():
        kind, data = value(v)
        head += text(key) + struct.pack("<I", kind) + data
    body = b""
    for name, (dims, kind, data) in tensors.items():
        head += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind,
                                         len(body))
        body += data + bytes(-len(data) % 32)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + body)


# ---- the model ----

class Maker:
    def __init__(self, seed, k_heads, v_heads, dim, block, explicit, tied):
        self.rng = np.random.default_rng(seed)
        self.k_heads, self.v_heads, self.dim = k_heads, v_heads, dim
        self.values, self.keys = v_heads * dim, k_heads * dim
        self.block, self.explicit, self.tied = block, explicit, tied
        self.signs = {w: self.rng.choice([-1, 1], w) if explicit else np.ones(w, int)
                      for w in sorted({D, F, self.values})}
        self.weights = {}  # GGUF name -> Ternary
        self.rest = {}     # GGUF name -> array, F32 or BF16
        self.hf = {}       # transformers' name -> array
        self.folded = []

    def grouped(self, w, axis=0, dim=None):
        """Value heads along an axis from tiled to grouped."""
        dim = dim or self.dim
        reps = self.v_heads // self.k_heads
        w = np.moveaxis(w, axis, 0)
        cut = w.reshape((reps, self.k_heads, dim) + w.shape[1:])
        w = np.swapaxes(cut, 0, 1).reshape(w.shape)
        return np.moveaxis(w, 0, axis)

    def ternary(self, gguf, hf, rows, cols, order=None, gain=1.0):
        w = self.weights[gguf] = Ternary(self.rng, rows, cols, gain)
        if gguf != "token_embd.weight":
            self.folded.append(gguf)
        plain = unfold(w.values, self.signs, self.block)
        self.hf[hf] = order(plain) if order else plain

    def plain(self, gguf, hf, v, order=None, to_hf=lambda x: x):
        self.rest[gguf] = v
        v = order(v) if order else v
        self.hf[hf] = to_hf(v)

    def norm(self, gguf, hf, n, plus_one=True):
        v = self.rng.normal(1.0, 0.2, n).astype(np.float32)
        self.plain(gguf, hf, v, to_hf=(lambda x: x.astype(np.float64) - 1) if plus_one
                   else lambda x: x)

    def bf16(self, v):
        bits = np.asarray(v, np.float32).view(np.uint32) >> 16 << 16
        return bits.view(np.float32)

    def delta(self, b, h):
        rng, n = self.rng, self.v_heads
        behind = lambda w: np.concatenate([w[:2 * self.keys],
                                           self.grouped(w[2 * self.keys:])])
        ones = lambda w: self.grouped(w, dim=1)
        channels = 2 * self.keys + self.values
        self.ternary(b + "attn_qkv.weight", h + "in_proj_qkv.weight", channels, D, behind)
        self.ternary(b + "attn_gate.weight", h + "in_proj_z.weight", self.values, D,
                     self.grouped)
        for gguf, hf in ("ssm_alpha", "in_proj_a"), ("ssm_beta", "in_proj_b"):
            self.plain(b + gguf + ".weight", h + hf + ".weight",
                       self.bf16(rng.normal(0, D ** -0.5, (n, D))), ones)
        self.plain(b + "ssm_a", h + "A_log",
                   -np.exp(rng.uniform(-5, 1, n)).astype(np.float32), ones,
                   lambda a: np.log(-a.astype(np.float64)))
        self.plain(b + "ssm_dt.bias", h + "dt_bias",
                   rng.normal(0, .5, n).astype(np.float32), ones)
        self.plain(b + "ssm_conv1d.weight", h + "conv1d.weight",
                   rng.normal(0, .5, (channels, TAPS)).astype(np.float32), behind,
                   lambda w: w[:, None, :])
        self.norm(b + "ssm_norm.weight", h + "norm.weight", self.dim, False)
        # The file's columns are grouped already, as transformers has them.
        self.ternary(b + "ssm_out.weight", h + "out_proj.weight", D, self.values)

    def attention(self, b, h):
        self.ternary(b + "attn_q.weight", h + "q_proj.weight", 2 * HEADS * HEAD, D,
                     gain=2.0)
        self.ternary(b + "attn_k.weight", h + "k_proj.weight", KV * HEAD, D)
        self.ternary(b + "attn_v.weight", h + "v_proj.weight", KV * HEAD, D)
        self.norm(b + "attn_q_norm.weight", h + "q_norm.weight", HEAD)
        self.norm(b + "attn_k_norm.weight", h + "k_norm.weight", HEAD)
        self.ternary(b + "attn_output.weight", h + "o_proj.weight", D, HEADS * HEAD)

    def make(self):
        self.ternary("token_embd.weight", "model.embed_tokens.weight", V, D, gain=3.0)
        if self.tied:
            self.hf["lm_head.weight"] = self.hf["model.embed_tokens.weight"]
        else:
            self.ternary("output.weight", "lm_head.weight", V, D, gain=2.0)
        self.norm("output_norm.weight", "model.norm.weight", D)
        for i in range(LAYERS):
            b, h = "blk.%d." % i, "model.layers.%d." % i
            self.norm(b + "attn_norm.weight", h + "input_layernorm.weight", D)
            if i % 4 == 3:
                self.attention(b, h + "self_attn.")
            else:
                self.delta(b, h + "linear_attn.")
            self.norm(b + "post_attention_norm.weight", h + "post_attention_layernorm.weight",
                      D)
            self.ternary(b + "ffn_gate.weight", h + "mlp.gate_proj.weight", F, D)
            self.ternary(b + "ffn_up.weight", h + "mlp.up_proj.weight", F, D)
            self.ternary(b + "ffn_down.weight", h + "mlp.down_proj.weight", D, F)

    def metadata(self):
        keys = {
            "general.architecture": "qwen35", "qwen35.block_count": LAYERS,
            "qwen35.context_length": 512, "qwen35.embedding_length": D,
            "qwen35.feed_forward_length": F, "qwen35.attention.head_count": HEADS,
            "qwen35.attention.head_count_kv": KV, "qwen35.attention.key_length": HEAD,
            "qwen35.attention.value_length": HEAD,
            "qwen35.attention.layer_norm_rms_epsilon": 1e-6,
            "qwen35.rope.dimension_count": HEAD // 4,
            "qwen35.rope.dimension_sections": [2, 1, 1, 0],
            "qwen35.rope.freq_base": 1e7, "qwen35.ssm.conv_kernel": TAPS,
            "qwen35.ssm.state_size": self.dim, "qwen35.ssm.group_count": self.k_heads,
            "qwen35.ssm.time_step_rank": self.v_heads,
            "qwen35.ssm.inner_size": self.values,
            "qwen35.full_attention_interval": 4, "qwen35.vocab_size": V}
        p = "prism.hadamard."
        keys.update({
            p + "version": 2 if self.tied else 1, p + "block_size": self.block,
            p + "transform": "normalized-sylvester-walsh-hadamard",
            p + "axis": "input-last-dimension",
            p + "sign_mode": "explicit" if self.explicit else "identity"})
        if self.explicit:
            keys[p + "sign_widths"] = sorted(self.signs)
            keys[p + "sign_values"] = np.concatenate(
                [self.signs[w] for w in sorted(self.signs)]).tolist()
        keys[p + "weight_names"] = self.folded
        keys[p + "inverse_weight_names"] = ["token_embd.weight"]
        keys[p + "gdn_v_grouped"] = True
        if self.tied:
            keys[p + "tied_output"] = True
        return keys

    def write(self, name, kind):
        tensors = {n: ((w.trits.shape[1], w.trits.shape[0]), kind, w.packed(kind))
                   for n, w in self.weights.items()}
        for n, v in self.rest.items():
            if "alpha" in n or "beta" in n:
                data = (v.view(np.uint32) >> 16).astype("<u2").tobytes()
                tensors[n] = v.shape[::-1], BF16, data
            else:
                tensors[n] = v.shape[::-1], F32, v.astype("<f4").tobytes()
        write_gguf(os.path.join(HERE, name), self.metadata(), tensors)

    def golden(self, name):
        model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(
            vocab_size=V, hidden_size=D, intermediate_size=F, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV, head_dim=HEAD,
            max_position_embeddings=512, linear_conv_kernel_dim=TAPS,
            linear_key_head_dim=self.dim, linear_value_head_dim=self.dim,
            linear_num_key_heads=self.k_heads, linear_num_value_heads=self.v_heads,
            rope_parameters={"rope_type": "default", "rope_theta": 1e7,
                             "partial_rotary_factor": .25, "mrope_section": [2, 1, 1],
                             "mrope_interleaved": True}))
        model.set_attn_implementation("eager")
        state = {k: torch.tensor(np.ascontiguousarray(v), dtype=torch.float32)
                 for k, v in self.hf.items()}
        model.load_state_dict(state, strict=True)
        model.eval()
        best = None
        for seed in range(TRIES):
            ids = np.random.default_rng(seed).integers(2, V, T)
            with torch.no_grad():
                rows = model(torch.tensor([ids.tolist()])).logits[0].numpy()
            two = np.sort(rows, axis=1)[:, -2:]
            gap = float((two[:, 1] - two[:, 0]).min())
            if best is None or gap > best[0]:
                best = gap, ids, rows
        gap, ids, rows = best
        with open(os.path.join(HERE, name), "wb") as f:
            f.write(ids.astype("<i4").tobytes())
            f.write(rows.argmax(1).astype("<i4").tobytes())
            f.write(rows[EVERY - 1::EVERY].astype("<f4").tobytes())
        print("%s: logits up to %.3g, spread %.3g, smallest gap %.3g"
              % (name, np.abs(rows).max(), rows.std(), gap))


maker = Maker(1, k_heads=2, v_heads=4, dim=32, block=32, explicit=True, tied=False)
maker.make()
maker.write("rotated-ptq1_0.gguf", PTQ1_0)
maker.write("rotated-pq2_0.gguf", PQ2_0)
maker.golden("rotated.bin")
maker = Maker(2, k_heads=2, v_heads=6, dim=64, block=128, explicit=False, tied=True)
maker.make()
maker.write("rotated-tied.gguf", PQ2_0)
maker.golden("rotated-tied.bin")
