#!/usr/bin/env python3
"""test_compress_edges.py BONSAI2 TINY_MODEL - what effort normal makes of broken and odd
sources: NaN, layers and inputs that are dead, rows of zeros, widths that no group
divides."""
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


def compress(dir, source, *options):
    """(exit status, report or None, stderr, output)."""
    path, out = os.path.join(dir, "source.gguf"), os.path.join(dir, "out.gguf")
    if os.path.exists(out):
        os.remove(out)
    source.write(path)
    r = subprocess.run([BIN, "compress", path, "-o", out, "--calib", os.path.join(dir, "calib.txt"), "--calib-tokens",
                        "1024", "--calib-ctx", "32", "--rule", "token_embd.weight=keep", "--json", "--quiet", "--refine",
                        "1", *options], capture_output=True, text=True)
    if "OpenBLAS" in r.stderr and r.returncode:
        print("skipped: no OpenBLAS for effort normal")
        sys.exit(77)
    return r.returncode, json.loads(r.stdout) if r.returncode == 0 else None, r.stderr, out


def divergence(report):
    return [s["kld"] for s in report["stages"] if s["name"] == "round"][0]


def edit(where):
    """A change() that sets rows: where maps a tensor's name to f(row number, values)."""
    def change(name, r, values):
        if name in where:
            where[name](r, values)
    return change


def zero(r, values):
    values[:] = [0.0] * len(values)


def main():
    with tempfile.TemporaryDirectory() as dir:
        subprocess.run([TINY, os.path.join(dir, "tiny.gguf"), "7", "2"], check=True)
        tiny = gguf.File(os.path.join(dir, "tiny.gguf"))
        gguf.words(os.path.join(dir, "calib.txt"), 600, 5)
        make = lambda d, f, where: gguf.llama(tiny, d, f, 4, 2, random.Random(3), edit(where))

        def put(r0, c, v):
            def f(r, values):
                if r == r0:
                    values[c] = v
            return f

        for value in (math.nan, math.inf):
            code, _, err, out = compress(dir, make(128, 192, {"blk.1.ffn_up.weight": put(5, 70, value)}), "--rule",
                                         "blk.*=B2_T64")
            assert code != 0 and "blk.1.ffn_up.weight" in err and "row 5" in err and "column 70" in err, err
            assert not os.path.exists(out)

        # A layer of zeros adds nothing; its groups are zero and counted.
        dead = {"blk.1.%s.weight" % n: zero for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate",
                                                       "ffn_up", "ffn_down")}
        code, rep, err, out = compress(dir, make(128, 192, dead), "--rule", "blk.*=B2_T64")
        assert code == 0, err
        assert math.isfinite(divergence(rep))
        t = {x["name"]: x for x in rep["tensors"]}
        for name in dead:
            assert t[name]["zero_share"] == 1.0 and t[name]["zero_groups"] > 0 == t[name]["underflow_groups"], name
        assert t["blk.0.ffn_up.weight"]["zero_share"] < 0.7

        # Inputs that are always zero, and only some that are.
        def half(r, values):
            values[::2] = [0.0] * len(values[::2])
        for kill in (zero, half):
            code, rep, err, out = compress(dir, make(128, 192, {"blk.0.attn_norm.weight": kill,
                                                                "blk.1.ffn_norm.weight": kill}), "--rule",
                                           "blk.*=B2_T64")
            assert code == 0 and math.isfinite(divergence(rep)), err

        # Rows of zeros stay zeros, with every correction there is.
        def rows(r, values):
            if r % 3 == 0:
                zero(r, values)
        code, rep, err, out = compress(dir, make(128, 192, {"blk.1.ffn_up.weight": rows}), "--rule", "blk.*=Q8_0",
                                       "--mismatch", "1", "--rotate", "none")
        assert code == 0, err
        _, ne, data = gguf.File(out).tensors["blk.1.ffn_up.weight"]
        size = ne[0] // 32 * 34
        for r in range(ne[1]):
            codes = b"".join(data[r * size + b + 2:r * size + b + 34] for b in range(0, size, 34))
            assert (not any(codes)) == (r % 3 == 0), r

        # 160 has no group of 64, 100 none of 32.
        odd = make(160, 100, {})
        code, _, err, _ = compress(dir, odd, "--rule", "blk.*=B2_T64", "--rotate", "none")
        assert code != 0 and "160" in err and "remainder 32" in err, err
        for tail in ("keep", "pad"):
            code, rep, err, _ = compress(dir, odd, "--rule", "blk.*=B2_T64", "--rotate", "none", "--tail", tail)
            assert code == 0 and math.isfinite(divergence(rep)), err
            t = {x["name"]: x for x in rep["tensors"]}
            up, down = t["blk.0.ffn_up.weight"], t["blk.0.ffn_down.weight"]
            if tail == "keep":
                assert (up["type"], down["type"]) == ("Q8_0", "F16"), (up, down)
                assert divergence(rep) < 0.01
            else:
                assert (up["type"], up["padding"], down["padding"]) == ("B2_T64", 32, 28), (up, down)
    print("ok")


main()
