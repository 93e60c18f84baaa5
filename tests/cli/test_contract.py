#!/usr/bin/env python3
"""test_contract.py BONSAI2 TINY_MODEL - the rotation contract (prism.hadamard, version 1) on
what compress writes, plain and with compensation: keys, types and rules as their
description has them, and the weights, decoded and rotated back here, are the source's
up to ternary rounding. Nothing of the program judges its own output."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_small as gguf

BIN, TINY = sys.argv[1:3]
U32, I32, STR, BOOL = 4, (9, 5), 8, 7
FOLDABLE = ("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate",
            "ffn_up", "ffn_down", "ssm_out")
KEYS = {"version": (U32,), "block_size": (U32,), "transform": (STR,), "axis": (STR,), "sign_mode": (STR,),
        "sign_widths": (I32,), "sign_values": (I32,), "weight_names": ((9, 8),),
        "inverse_weight_names": ((9, 8),), "gdn_v_grouped": (BOOL,), "tied_output": (BOOL,)}


def declaration(f):
    """The keys, checked; {} when there are none."""
    h = {}
    for name, (kind, v) in f.keys.items():
        if not name.startswith("prism.hadamard."):
            continue
        short = name[len("prism.hadamard."):]
        assert short in KEYS, "unknown key " + name
        assert kind in KEYS[short], "%s has type %s" % (name, kind)
        h[short] = v
    if not h:
        return h
    assert h["version"] == 1 and not h.get("tied_output", False)
    block = h["block_size"]
    assert block > 1 and block & (block - 1) == 0
    assert h["transform"] == "normalized-sylvester-walsh-hadamard"
    assert h["axis"] == "input-last-dimension"
    assert h["sign_mode"] in ("explicit", "identity")
    widths, signs = h.get("sign_widths", []), h.get("sign_values", [])
    assert len(set(widths)) == len(widths) and sum(widths) == len(signs)
    assert all(s in (1, -1) for s in signs)
    assert len(set(signs)) == 2, "signs that are no signs"
    names = h["weight_names"]
    assert names and len(set(names)) == len(names)
    for name in names:
        assert name in f.tensors, name + " is not there"
        kind = name.removeprefix("blk.").lstrip("0123456789").strip(".").removesuffix(".weight")
        assert kind in FOLDABLE or name == "output.weight", name + " must not be folded"
        ne0 = f.tensors[name][1][0]
        assert ne0 % block == 0 and ne0 in widths, name
    used = {f.tensors[n][1][0] for n in names}
    assert used == set(widths), "signs for a width that nothing has"
    assert set(h.get("inverse_weight_names", [])) <= {"token_embd.weight"}
    assert not h.get("gdn_v_grouped", False), "there is no gated delta net here"
    return h


def digits(byte, n):
    """The first n base-3 digits of a byte, -1 to 1."""
    return [((byte * 3 ** k % 256) * 3 >> 8) - 1 for k in range(n)]


def decode_block(b):
    w = [0] * 128
    for m in range(16):
        for n, t in enumerate(digits(b[m], 5)):
            w[m + 16 * n] = t
    for m in range(8):
        for n, t in enumerate(digits(b[16 + m], 5)):
            w[80 + m + 8 * n] = t
    for h in range(2):
        for n, t in enumerate(digits(b[24 + h], 4)):
            w[120 + h + 2 * n] = t
    d, = struct.unpack("<e", bytes(b[26:28]))
    return [d * t for t in w]


def hadamard(x):
    n, step = len(x), 1
    x = [v / math.sqrt(n) for v in x]
    while step < n:
        for at in range(0, n, 2 * step):
            for i in range(at, at + step):
                x[i], x[i + step] = x[i] + x[i + step], x[i] - x[i + step]
        step *= 2
    return x


def unfold(row, h, width):
    """W = (W' H) diag(s)."""
    block, at = h["block_size"], 0
    for w in h["sign_widths"]:
        if w == width:
            break
        at += w
    signs = h["sign_values"][at:at + width]
    out = []
    for i in range(0, width, block):
        out += hadamard(row[i:i + block])
    return [v * s for v, s in zip(out, signs)]


def check_weights(f, source, h, limit):
    """Every PTQ1_0 matrix against the source; the worst relative squared error."""
    worst = 0.0
    for name, (kind, ne, data) in f.tensors.items():
        if kind != 143:
            continue
        assert name in h["weight_names"], name + " is not declared: garbage for every reader"
        width, want = ne[0], struct.unpack("<%df" % (ne[0] * ne[1]), source.tensors[name][2])
        err = energy = plain = 0.0
        for r in range(0, ne[1], 7):
            at = r * width // 128 * 28
            row = sum((decode_block(data[at + b:at + b + 28]) for b in range(0, width // 128 * 28, 28)), [])
            back, w = unfold(row, h, width), want[r * width:(r + 1) * width]
            err += sum((a - b) ** 2 for a, b in zip(back, w))
            plain += sum((a - b) ** 2 for a, b in zip(row, w))
            energy += sum(b * b for b in w)
        assert plain > energy, name + " looks right without its rotation"
        worst = max(worst, err / energy)
    assert 0.05 < worst < limit, "relative error %g" % worst
    return worst


def main():
    golden = bytes.fromhex("96c143c85706103296c247d58182879620212fa2b451d2605fe4003e")
    want = [((j * j + 3 * j + 7) // 5 % 3 - 1) * 1.5 for j in range(128)]
    assert decode_block(golden) == want, "this test's own decoder"
    with tempfile.TemporaryDirectory() as dir:
        at = lambda name: os.path.join(dir, name)
        subprocess.run([TINY, at("tiny.gguf"), "7", "2"], check=True)
        source = gguf.llama(gguf.File(at("tiny.gguf")), 256, 384, 4, 2, random.Random(3))
        source.write(at("source.gguf"))
        gguf.words(at("calib.txt"), 900, 5)
        calib = ["--calib", at("calib.txt"), "--calib-tokens", "2048", "--calib-ctx", "64"]
        for effort, options, limit in (("fast", [], 0.25), ("normal", calib, 0.75)):
            run = subprocess.run([BIN, "compress", at("source.gguf"), "-o", at("out.gguf"), "--force", "--rule",
                                  "blk.*=PTQ1_0", "--rule", "token_embd.weight=Q8_0", "--rotate", "auto", "--quiet",
                                  *options], capture_output=True, text=True)
            if "OpenBLAS" in run.stderr and run.returncode:
                print("skipped: no OpenBLAS for effort normal")
                sys.exit(77)
            assert run.returncode == 0, run.stderr
            f = gguf.File(at("out.gguf"))
            h = declaration(f)
            assert h and h["block_size"] == 128, "256 and 384 have 128 in common"
            assert len(h["weight_names"]) == 14
            check_weights(f, source, h, limit)
            assert json.loads(f.keys["bonsai2.recipe"][1])["effort"] == effort
    print("ok")


main()
