"""test_contract.py BONSAI2 GOLDEN - rotated files keep the contract `prism.hadamard.*`.

A validator of its own, written from shared/FORMATS.md 1.3 and 1.5 alone (gguf_plain.py too): it
shares no code with the program. It passes the golden files that tests/golden/arch/make_rotated.py made with
PyTorch, refuses each of the faults that are put into them, and then judges what compress
writes: keys, names, widths, and that the stored codes, unfolded by plain arithmetic, are the
source's weights up to ternary rounding and are not without the unfolding.
"""
import copy, math, os, sys, tempfile

from gguf_plain import BOOL, I32, PTQ1_0, STR, U32, Gguf
from program import call, check

GOLDEN = sys.argv[2]
PREFIX = "prism.hadamard."
KEYS = {"version": U32, "block_size": U32, "transform": STR, "axis": STR, "sign_mode": STR,
        "sign_widths": [I32], "sign_values": [I32], "weight_names": [STR],
        "inverse_weight_names": [STR], "gdn_v_grouped": BOOL, "tied_output": BOOL}
ARCHS = {"llama", "qwen3", "qwen3moe", "qwen35", "qwen35moe", "qwen3next"}
KINDS = {"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up",
         "ffn_down", "ssm_out", "output"}


# ---- the contract ----

def faults(g):
    """What is wrong with the declaration, in words; [] where it keeps the contract."""
    key = {k[len(PREFIX):]: v for k, v in g.value.items() if k.startswith(PREFIX)}
    bad = [f"unknown key {k}" for k in key if k not in KEYS]
    bad += [f"{k} has another type" for k in key if k in KEYS and g.kind[PREFIX + k] != KEYS[k]]
    bad += [f"no {k}" for k in ("version", "block_size", "transform", "axis", "sign_mode", "weight_names")
            if k not in key]
    if bad:
        return bad
    tied = "output.weight" not in g.tensor
    if key["version"] not in (1, 2) or (key["version"] == 2) != bool(key.get("tied_output")):
        bad.append("version and tied_output")
    if key.get("tied_output") and not tied:
        bad.append("tied, with an output.weight")
    n = key["block_size"]
    if n < 1 or n & (n - 1):
        bad.append("block size")
    if key["transform"] != "normalized-sylvester-walsh-hadamard" or key["axis"] != "input-last-dimension":
        bad.append("transform or axis")
    widths, values = key.get("sign_widths", []), key.get("sign_values", [])
    if key["sign_mode"] == "explicit":
        if sum(widths) != len(values) or any(v not in (1, -1) for v in values):
            bad.append("signs")
    elif key["sign_mode"] != "identity":
        bad.append("sign mode")
    if g.value.get("general.architecture") not in ARCHS:
        bad.append("architecture")
    inverse = key.get("inverse_weight_names", [])
    for name in key["weight_names"] + inverse:
        if name not in g.tensor:
            bad.append(f"{name} does not exist")
            continue
        width, kind = g.tensor[name][0][0], name.split(".")[-2]
        if width % n:
            bad.append(f"{name}: {width} columns")
        if key["sign_mode"] == "explicit" and width not in widths:
            bad.append(f"{name}: no signs for {width}")
        if name in inverse and name != "token_embd.weight" or name not in inverse and kind not in KINDS:
            bad.append(f"{name} cannot be folded")
        if ".ssm_out." in name and not key.get("gdn_v_grouped"):
            bad.append(f"{name}: heads not grouped")
    if len(set(key["weight_names"])) != len(key["weight_names"]):
        bad.append("a weight twice")
    return bad


def unfold(g, name, row):
    """W = (W' H) diag(s), columns of ssm_out back in tiled order."""
    key = lambda k, other=None: g.value.get(PREFIX + k, other)
    n, width = key("block_size"), len(row)
    x = [v / math.sqrt(n) for v in row]
    for base in range(0, width, n):
        step = 1
        while step < n:
            for i in range(base, base + n, 2 * step):
                for j in range(i, i + step):
                    x[j], x[j + step] = x[j] + x[j + step], x[j] - x[j + step]
            step *= 2
    if key("sign_mode") == "explicit":
        widths = key("sign_widths")
        at = sum(widths[:widths.index(width)])
        x = [v * s for v, s in zip(x, key("sign_values")[at:at + width])]
    if ".ssm_out." not in name:
        return x
    heads, groups = g.value["qwen35.ssm.time_step_rank"], g.value["qwen35.ssm.group_count"]
    hd, rep, out = width // heads, heads // groups, [0.0] * width
    for k in range(groups):
        for r in range(rep):
            to, of = (groups * r + k) * hd, (rep * k + r) * hd
            out[to:to + hd] = x[of:of + hd]
    return out


def loss(source, g, unfolding):
    """Share of the source's energy that the file's weights miss, over some rows of each."""
    missed = energy = 0.0
    for name in g.value[PREFIX + "weight_names"]:
        for r in range(0, g.tensor[name][0][1], 16):
            want, got = source.row(name, r), g.row(name, r)
            got = unfold(g, name, got) if unfolding else got
            missed += sum((a - b) ** 2 for a, b in zip(want, got))
            energy += sum(a * a for a in want)
    return missed / energy


# ---- the validator itself ----

for name in ("rotated-ptq1_0.gguf", "rotated-pq2_0.gguf", "rotated-tied.gguf"):
    found = faults(Gguf(os.path.join(GOLDEN, name)))
    check(found == [], f"{name}: {found}")

good = Gguf(os.path.join(GOLDEN, "rotated-ptq1_0.gguf"))


def planted(change):
    g = copy.copy(good)
    g.value, g.kind, g.tensor = dict(g.value), dict(g.kind), dict(g.tensor)
    change(g)
    check(faults(g) != [], "a planted fault is not seen")


def put(k, v):
    return lambda g: g.value.__setitem__(PREFIX + k, v)


names, signs = good.value[PREFIX + "weight_names"], good.value[PREFIX + "sign_values"]
for change in (put("version", 3), put("version", 2), put("block_size", 48), put("block_size", 512),
               put("transform", "sylvester"), put("axis", "output"), put("sign_mode", "none"),
               put("sign_values", signs[1:]), put("sign_values", [0] + signs[1:]),
               put("sign_widths", [128, 64]), put("weight_names", names + ["blk.9.attn_q.weight"]),
               put("weight_names", names + ["blk.0.ssm_alpha.weight"]), put("weight_names", names + names[:1]),
               put("inverse_weight_names", ["output.weight"]), put("gdn_v_grouped", False),
               put("strange", 1), lambda g: g.value.pop(PREFIX + "axis"),
               lambda g: g.kind.__setitem__(PREFIX + "version", 10),
               lambda g: g.value.__setitem__("general.architecture", "gemma3")):
    planted(change)

# ---- what compress writes ----

with tempfile.TemporaryDirectory() as tmp:
    path = lambda name: os.path.join(tmp, name)
    call("export", os.path.join(GOLDEN, "rotated-ptq1_0.gguf"), "--unrotate", "--format", "gguf-f32", "-o",
         path("source.gguf"), "--quiet")
    source = Gguf(path("source.gguf"))
    check(not any(k.startswith(PREFIX) for k in source.value), "the source is rotated")
    for rotate in ("32", "128", "auto"):
        call("compress", path("source.gguf"), "--rule", "*=PTQ1_0", "--rule", "*.ssm_[cab]*=keep", "--rule",
             "token_embd.weight=keep", "--rotate", rotate, "-o", path("o.gguf"), "--force", "--quiet")
        g = Gguf(path("o.gguf"))
        check(faults(g) == [], f"--rotate {rotate}: {faults(g)}")
        named = g.value[PREFIX + "weight_names"]
        check(len(named) >= 25 and all(g.tensor[n][1] == PTQ1_0 for n in named), f"names: {named}")
        right, wrong = loss(source, g, True), loss(source, g, False)
        check(right < 0.25, f"--rotate {rotate}: {right:.3f} of the energy is lost")
        check(wrong > 0.9, f"--rotate {rotate}: {wrong:.3f} without the unfolding")
print("ok")
