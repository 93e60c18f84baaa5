#!/usr/bin/env python3
"""make.py BONSAI2 OUT.json - what `bonsai2 analyze` should find in tiny models, by torch.

Brute force from the definitions in docs/ANALYZE.md: hooks that zero a head's columns or a
block's output, weights replaced one at a time, every label's gradient for the Fisher
diagonal. BONSAI2 only makes the Q4_0 files whose weights (read by gguf-py) are put into the
torch model; nothing of analyze is used. SEQ, TOKENS and PROBE are the settings of
tests/e2e/test_analyze.py.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHS = ["llama-llama3", "qwen3", "qwen2", "gemma3"]
SEQ, TOKENS, PROBE = 32, 128, 16
SHARES = [0.05, 0.1, 0.2, 0.3, 0.5]
PARTS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def sequences(folder):
    """Windows at even distances; the middle one goes to the end, to be the probe."""
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    ids = tok.encode(open(os.path.join(HERE, "calib.txt"), encoding="utf-8").read(),
                     add_special_tokens=False).ids
    n = TOKENS // SEQ + 1
    seqs = [ids[(len(ids) - SEQ) * i // (n - 1):][:SEQ] for i in range(n)]
    bos = tok.encode("a").ids[0] != tok.encode("a", add_special_tokens=False).ids[0]
    if bos:
        for s in seqs:
            s[0] = tok.encode("a").ids[0]
    seqs.append(seqs.pop(n // 2))
    return torch.tensor(seqs)


def linears(layer):
    a, m = layer.self_attn, layer.mlp
    return [a.q_proj, a.k_proj, a.v_proj, a.o_proj, m.gate_proj, m.up_proj, m.down_proj]


def logits(model, ids):
    with torch.no_grad():
        return model(ids).logits.double()


def kld(teacher, changed):
    """Over the second half of the probe."""
    t = torch.log_softmax(teacher[0, PROBE // 2:], -1)
    c = torch.log_softmax(changed[0, PROBE // 2:], -1)
    return float((t.exp() * (t - c)).sum(-1).mean())


class hooked:
    def __init__(self, module, fn, before=False):
        self.handle = (module.register_forward_pre_hook(fn) if before
                       else module.register_forward_hook(fn))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.handle.remove()


def zero(*args):
    return torch.zeros_like(args[-1])


def local(model, seqs):
    """Inputs, influence and costs of hidden values on the calibration tokens."""
    out = []
    for layer in model.model.layers:
        seen = {}
        handles = [mod.register_forward_pre_hook(
            lambda m, x, k=k: seen.__setitem__(k, x[0].detach().double()))
            for k, mod in zip(["attn", "attn_output", "ffn", "ffn_down"],
                              [linears(layer)[i] for i in (0, 3, 4, 6)])]
        handles.append(layer.register_forward_hook(
            lambda m, x, y: seen.update(a=x[0].detach().double(), b=(
                y[0] if isinstance(y, tuple) else y).detach().double())))
        logits(model, seqs)
        for h in handles:
            h.remove()
        cos = torch.cosine_similarity(seen["a"], seen["b"], dim=-1)
        down = linears(layer)[6].weight.detach().double()
        hidden = seen["ffn_down"].reshape(-1, down.shape[1])
        out.append({
            "influence": 1 - float(cos.mean()),
            "inputs": {k: [float(seen[k].square().mean().sqrt()), float(seen[k].abs().max())]
                       for k in ("attn", "attn_output", "ffn", "ffn_down")},
            "cost": ((hidden ** 2).mean(0) * (down ** 2).sum(0)).tolist()})
    return out


def measured(model, probe, found):
    base = logits(model, probe)
    for layer, f in zip(model.model.layers, found):
        lin = linears(layer)
        dim = layer.self_attn.head_dim
        with hooked(lin[3], zero):
            f["no_attn"] = kld(base, logits(model, probe))
            with hooked(lin[6], zero):
                f["skip"] = kld(base, logits(model, probe))
        with hooked(lin[6], zero):
            f["no_ffn"] = kld(base, logits(model, probe))
        f["heads"] = []
        for h in range(lin[3].weight.shape[1] // dim):
            def drop(m, x, h=h):
                x = x[0].clone()
                x[..., h * dim:(h + 1) * dim] = 0
                return (x,)
            with hooked(lin[3], drop, before=True):
                f["heads"].append(kld(base, logits(model, probe)))
        order = np.argsort(np.float32(f["cost"]), kind="stable")
        keep = lin[6].weight.detach().clone()
        f["prune_kld"] = []
        for share in SHARES:
            lin[6].weight.data[:, order[:int(share * len(order))].copy()] = 0
            f["prune_kld"].append(kld(base, logits(model, probe)))
            lin[6].weight.data.copy_(keep)
    return base


def rounded(program, folder):
    """The matrices of layers as Q4_0, by name, as torch has them."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "q.gguf")
        subprocess.run([program, "compress", folder, "--rule", "*=keep", "--rule",
                        "blk.*=Q4_0", "--effort", "fast", "-o", path, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        return {t.name: gguf.quants.dequantize(t.data, t.tensor_type)
                for t in gguf.GGUFReader(path).tensors if t.name.startswith("blk.")}


def damage(model, probe, seqs, base, found, files):
    permute = model.config.model_type == "llama"
    other = []
    for i, (layer, f) in enumerate(zip(model.model.layers, found)):
        f["damage"], f["cosine"] = [], []
        for part, lin in zip(PARTS, linears(layer)):
            w = torch.tensor(np.array(files["blk.%d.%s.weight" % (i, part)]))
            if permute and part in ("attn_q", "attn_k"):  # GGUF has pairs side by side
                h = w.shape[0] // layer.self_attn.head_dim
                w = w.reshape(h, -1, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
            own = lin.weight.data.clone()
            seen = []
            with hooked(lin, lambda m, x: seen.append(x[0].double()), before=True):
                logits(model, seqs[:-1])
            x = seen[0].reshape(-1, w.shape[1])
            y, z = x @ own.double().T, x @ w.double().T
            f["cosine"].append(float((y * z).sum() / (y.norm() * z.norm())))
            lin.weight.data.copy_(w)
            f["damage"].append(kld(base, logits(model, probe)))
            lin.weight.data.copy_(own)
            other.append((lin, own, w))
    for lin, _, w in other:
        lin.weight.data.copy_(w)
    whole = kld(base, logits(model, probe))
    for n, (lin, own, w) in enumerate(other):
        lin.weight.data.copy_(own)
        found[n // 7].setdefault("restore", []).append(
            whole - kld(base, logits(model, probe)))
        lin.weight.data.copy_(w)
    for lin, own, _ in other:
        lin.weight.data.copy_(own)
    return whole


def fisher(model, seqs, n_tokens, found):
    """Means of the diagonal, and of the masks of heads, over every label."""
    names = [lin for layer in model.model.layers for lin in linears(layer)]
    sums = [0.0] * len(names)
    heads = [[0.0] * len(f["heads"]) for f in found]
    for lin in names:
        lin.weight.requires_grad_(True)
    done = 0
    for s in seqs[:-1]:
        if done == n_tokens:
            break
        logp = torch.log_softmax(model(s[None]).logits[0], -1)
        for t in range(SEQ):
            p = logp[t].detach().exp().double()
            for y in range(logp.shape[1]):
                grads = torch.autograd.grad(logp[t, y], [x.weight for x in names],
                                            retain_graph=True)
                for i, g in enumerate(grads):
                    sums[i] += float(p[y]) * float(g.double().square().sum())
                    if i % 7 == 3:
                        dim = model.model.layers[i // 7].self_attn.head_dim
                        m = (g * names[i].weight.detach()).sum(0).reshape(-1, dim).sum(1)
                        for h in range(len(m)):
                            heads[i // 7][h] += 0.5 * float(p[y]) * float(m[h]) ** 2
            done += 1
    for i, lin in enumerate(names):
        found[i // 7].setdefault("fisher", []).append(sums[i] / done / lin.weight.numel())
    for f, h in zip(found, heads):
        f["head_fisher"] = [v / done for v in h]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    result = {"seq": SEQ, "tokens": TOKENS, "probe": PROBE, "models": {}}
    for arch in ARCHS:
        folder = os.path.join(HERE, "..", "arch", arch)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                     attn_implementation="eager")
        model.eval().requires_grad_(False)
        seqs = sequences(folder)
        probe = seqs[-1:, :PROBE]
        found = local(model, seqs[:-1])
        base = measured(model, probe, found)
        whole = damage(model, probe, seqs, base, found, rounded(sys.argv[1], folder))
        entry = {"ids_sha256": hashlib.sha256(seqs.numpy().astype("<i4").tobytes()).hexdigest(),
                 "kld_all": whole, "layers": found}
        if arch == "llama-llama3":
            fisher(model, seqs, 32, found)
        result["models"][arch] = entry
        print(arch, entry["ids_sha256"][:8], "%.5f" % whole, flush=True)
    text = json.dumps(json.loads(json.dumps(result), parse_float=lambda v: float("%.6g" % float(v))),
                      indent=None, separators=(",", ":"))
    open(sys.argv[2], "w", encoding="ascii").write(text.replace('{"influence', '\n{"influence') + "\n")


main()
