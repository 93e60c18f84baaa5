"""arms.py MODEL TRAIN TEST - choices of ternarisation tried on single matrices, as arms.csv.

Nine matrices of MODEL (layers 3, 12 and 20: q/k/v as one, gate/up as one, down), ternary in
groups of 64 with error compensation, in numpy alone: what is tried here need not exist in
the program. The metric comes from 4,096 tokens of TRAIN; the figure is the lost share of
the outputs' energy on 2,048 tokens of TEST, of each matrix, as a ratio to the first arm
(block rotation, columns in groups by falling diagonal). The columns: mean of the ratios,
least, greatest, entropy of the codes in bits a weight, share of zeros. docs/COMPRESS.md has
the decisions. ARM: the beginnings of those
to try again or anew, their rows added to the file (all, a new file). Needs gguf, numpy, torch, transformers, accelerate.
"""
import csv
import os
import pathlib
import sys

import numpy as np

GROUP = 64
LAYERS = (3, 12, 20)


def matrices(model, train, test):
    """[(name, W [rows, columns], metric of TRAIN, metric of TEST)], F64."""
    import torch
    import transformers
    folder, name = os.path.split(os.path.abspath(model))
    load = {"pretrained_model_name_or_path": folder, "gguf_file": name}
    words = transformers.AutoTokenizer.from_pretrained(**load)
    net = transformers.AutoModelForCausalLM.from_pretrained(**load, dtype=torch.float32).eval()
    seen, hooks = {}, {}
    for n in LAYERS:
        layer = net.model.layers[n]
        att, mlp = layer.self_attn, layer.mlp
        hooks[n, "qkv"] = (att.q_proj, (att.q_proj, att.k_proj, att.v_proj))
        hooks[n, "gate_up"] = (mlp.gate_proj, (mlp.gate_proj, mlp.up_proj))
        hooks[n, "down"] = (mlp.down_proj, (mlp.down_proj,))
    for key, (module, _) in hooks.items():
        module.register_forward_pre_hook(
            lambda _, x, key=key: seen.setdefault(key, []).append(x[0][0].double().numpy()))
    with torch.no_grad():
        for path, n in ((train, 8), (test, 4)):
            text = pathlib.Path(path).read_text(encoding="utf-8")
            for i in range(n):
                at = int(len(text) * (i + .5) / n)
                net.model(torch.tensor([words(text[at:at + 4000])["input_ids"][:512]]))
    out = []
    for key, (_, parts) in hooks.items():
        w = torch.cat([p.weight for p in parts]).detach().double().numpy()
        a, b = np.concatenate(seen[key][:8]), np.concatenate(seen[key][8:])
        out.append((key, w, a.T @ a / len(a), b.T @ b / len(b)))
    return out


def hadamard(n):
    """Sylvester's, times Paley's of order 12 as often as 3 divides n."""
    h = np.ones((1, 1))
    squares = {x * x % 11 for x in range(1, 11)}
    q = np.array([[0 if i == j else 1 if (i - j) % 11 in squares else -1 for j in range(11)]
                  for i in range(11)])
    twelve = np.eye(12)
    twelve[0, 1:], twelve[1:, 0], twelve[1:, 1:] = 1, -1, twelve[1:, 1:] + q
    while n % 3 == 0:
        h, n = np.kron(h, twelve), n // 12
    while n > 1:
        h, n = np.kron(h, [[1, 1], [1, -1]]), n // 2
    return h


def rotation(width, block):
    h = hadamard(block) / np.sqrt(block)
    assert np.allclose(h @ h.T, np.eye(block))
    sign = np.random.default_rng(0).choice([-1, 1], width)
    return sign[:, None] * np.kron(np.eye(width // block), h)


def group_scale(w):
    """Least squares over all sets of largest magnitudes."""
    a = -np.sort(-np.abs(w), 1)
    c, n = np.cumsum(a, 1), np.arange(1, w.shape[1] + 1)
    k = np.argmax(c * c / n, 1)
    return np.maximum(c[np.arange(len(w)), k] / (k + 1), 1e-9)


def even_scale(w, levels):
    """The step of so many even levels with the least error, of 60 steps for each row."""
    most, best = np.abs(w).max(1, keepdims=True), None
    for part in np.linspace(.25, 1.2, 60):
        step = np.maximum(most * part * 2 / levels, 1e-9)
        error = ((w - even_round(w / step, levels) * step) ** 2).sum(1)
        if best is None:
            best, scale = error, step[:, 0].copy()
        better = error < best
        best, scale = np.where(better, error, best), np.where(better, step[:, 0], scale)
    return scale


def even_round(r, levels):
    """Odd numbers of levels: whole steps; even ones: halves."""
    half = 0. if levels % 2 else .5
    return np.clip(np.round(r - half) + half, -(levels - 1) / 2, (levels - 1) / 2)


def compensate(w, metric, threshold=.5, escapes=0., order="diagonal", scales="entry", damp=.01,
               decay=0., solve=False, zeros=0., levels=3):
    """(weights as rounded, codes): rounds column by column, what is lost goes on (GPTQ)."""
    width = w.shape[1]
    diag = np.diag(metric)
    places = np.arange(width).reshape(-1, GROUP)
    if order == "diagonal":
        places = places[np.argsort(-diag.reshape(-1, GROUP).mean(1))]
        places = np.stack([g[np.argsort(-diag[g])] for g in places])
    p = places.ravel()
    h = metric[np.ix_(p, p)]
    u = np.linalg.cholesky(np.linalg.inv(h + damp * np.mean(diag) * np.eye(width))).T
    first, w, pivots = w[:, p].copy(), w[:, p].copy(), np.mean(np.diag(u))
    out, codes = np.zeros_like(w), np.zeros(w.shape, int)
    # Whole groups that count as zero: those of the least energy, which pass it on.
    energy = np.add.reduceat(w * w * np.diag(h), np.arange(0, width, GROUP), axis=1)
    empty = energy <= np.quantile(energy, zeros) if zeros else np.zeros(energy.shape, bool)
    for g in range(0, width, GROUP):
        end = g + GROUP
        now = (w if scales == "entry" else first)[:, g:end]
        s = group_scale(now) if levels == 3 else even_scale(now, levels)
        far = np.inf
        if escapes:
            far = max(1.5, np.quantile(np.abs(w[:, g:end]) / s[:, None], 1 - escapes))
        for j in range(g, end):
            r = w[:, j] / s
            c = np.sign(r) * ((np.abs(r) >= threshold) + (np.abs(r) > far).astype(int))
            c = c if levels == 3 else even_round(r, levels)
            c = np.where(empty[:, g // GROUP], 0, c)
            codes[:, j], out[:, j] = np.floor(c), c * s
            w[:, j] = (w[:, j] - out[:, j]) / u[j, j]
            less = np.exp(-decay * np.clip(u[j, j] / pivots, .3, 3) * (j - g) / GROUP)
            w[:, j + 1:end] -= less * np.outer(w[:, j], u[j, j + 1:end])
        w[:, end:] -= w[:, g:end] @ u[g:end, end:]
    for g in range(0, width if solve else 0, GROUP):  # scales again, in the metric
        t, part = codes[:, g:g + GROUP], slice(g, g + GROUP)
        gain = ((first - out) @ h[:, part] * t).sum(1)
        out[:, part] += (gain / np.maximum((t @ h[part, part] * t).sum(1), 1e-30))[:, None] * t
    back = np.argsort(p)
    return out[:, back], codes[:, back]


def lost(w, out, metric):
    e = w - out
    return np.sum((e @ metric) * e) / np.sum((w @ metric) * w)


def try_arm(item, block="each", fold=0., **how):
    _, w, metric, test = item
    width = w.shape[1]
    if fold:
        rms = np.sqrt(np.diag(metric) + 1e-12)
        s = (rms / np.exp(np.mean(np.log(rms)))) ** fold
        w, metric, test = w * s, metric / np.outer(s, s), test / np.outer(s, s)
    if block != "none":
        size = {"each": min(width & -width, 1024), "one": 64, "full": width}[block]
        r = rotation(width, size)
        w, metric, test = w @ r, r.T @ metric @ r, r.T @ test @ r
    out, codes = compensate(w, metric, **how)
    p = np.bincount((codes + 5).ravel()) / codes.size
    p = p[p > 0]
    return lost(w, out, test), -(p * np.log2(p)).sum(), (codes == 0).mean()


ARMS = (
    ("block rotation (64, 512)", {}),
    ("no rotation", {"block": "none"}),
    ("one block (64)", {"block": "one"}),
    ("full width (order 12 Kronecker)", {"block": "full"}),
    ("no rotation, fold .25", {"block": "none", "fold": .25}),
    ("no rotation, fold .5", {"block": "none", "fold": .5}),
    ("no rotation, fold .75", {"block": "none", "fold": .75}),
    ("fold .25", {"fold": .25}),
    ("fold .5", {"fold": .5}),
    ("fold .75", {"fold": .75}),
    ("columns in natural order", {"order": "natural"}),
    ("scales of the weights as they came", {"scales": "first"}),
    ("scales solved again in the metric", {"solve": True}),
    ("decay inside a group", {"decay": 1.}),
    ("damping .001", {"damp": .001}),
    ("damping .1", {"damp": .1}),
    ("threshold .55", {"threshold": .55}),
    ("threshold .6", {"threshold": .6}),
    ("threshold .7", {"threshold": .7}),
    ("escapes 1 %", {"escapes": .01}),
    ("escapes 3 %", {"escapes": .03}),
    ("escapes 10 %", {"escapes": .1}),
    ("groups of zeros 1 %", {"zeros": .01}),
    ("groups of zeros 5 %", {"zeros": .05}),
    ("groups of zeros 10 %", {"zeros": .1}),
    ("two planes, scales 3 : 1 (9 levels)", {"levels": 9}),
    ("8 levels (B2_Q3)", {"levels": 8}),
    ("4 levels (B2_Q2)", {"levels": 4}),
)


def main():
    if len(sys.argv) < 4:
        raise SystemExit("usage: arms.py MODEL TRAIN TEST [ARM...]")
    items, wanted = matrices(*sys.argv[1:4]), sys.argv[4:]
    arms = [a for a in ARMS if not wanted or a is ARMS[0] or any(a[0].startswith(w) for w in wanted)]
    path = pathlib.Path(__file__).with_suffix(".csv")
    with open(path, "a" if wanted else "w", newline="", encoding="utf-8") as f:
        rows = csv.writer(f, lineterminator="\n")
        if not wanted:
            rows.writerow("model,arm,ratio,least,greatest,entropy_bits,zeros".split(","))
        base = None
        for name, how in arms:
            found = np.array([try_arm(item, **how) for item in items])
            base = found[:, 0] if base is None else base
            r = found[:, 0] / base
            if wanted and how is ARMS[0][1]:
                continue  # it is there
            rows.writerow([pathlib.Path(sys.argv[1]).stem, name, *("%.3f" % x for x in (
                r.mean(), r.min(), r.max(), found[:, 1].mean(), found[:, 2].mean()))])
            f.flush()
            print(name, "%.3f" % r.mean(), flush=True)


main()
