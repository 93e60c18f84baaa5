#!/usr/bin/env python3
"""Writes the golden vectors of this folder from independent programs.

Needs PyPI numpy, gguf (gguf-py) and xllamacpp (whose library exports ggml's
quantize_row_*_ref and dequantize_row_*). PQ2_0 and PTQ1_0, which neither knows, are
computed here by brute force from the formulas of FORMATS.md 1.2 and 1.3.

NAME.bin: four u32 (decode blocks, encode blocks, weights and bytes per block), then the
bytes to decode, their F32 values, the F32 values to encode, their bytes.
"""
import ctypes
import pathlib
import struct

import gguf
import numpy as np
import xllamacpp
from gguf import quants

HERE = pathlib.Path(__file__).parent
GGML = ctypes.CDLL(str(next(pathlib.Path(xllamacpp.__path__[0]).glob("xllamacpp*.so"))))
READ_ONLY = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}
SCALE_AT = {  # byte offsets of FP16 fields, kept finite in the random blocks
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "TQ1_0": [52], "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0], "PQ2_0": [0], "PTQ1_0": [26],
}
SIZES = {"Q2_0": (64, 18), "PQ2_0": (128, 34), "PTQ1_0": (128, 28)}
for q, size in gguf.GGML_QUANT_SIZES.items():
    if q.name in SCALE_AT:
        SIZES[q.name] = size


def ptr(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def ggml(kind, name, src, dst, n):
    low = name.lower().replace("_k", "_K")
    fn = f"quantize_row_{low}_ref" if kind == "enc" else f"dequantize_row_{low}"
    getattr(GGML, fn)(ptr(src), ptr(dst), ctypes.c_int64(n))


# PTQ1_0: which weight digit n of byte m is, as FORMATS.md 1.3 lists it.
PTQ_MAP = ([(m, [m + 16 * n for n in range(5)]) for m in range(16)]
           + [(16 + m, [80 + m + 8 * n for n in range(5)]) for m in range(8)]
           + [(24 + h, [120 + h + 2 * n for n in range(4)]) for h in range(2)])


def prism_encode(name, x):
    d = np.float32(np.abs(x).max())
    inv = np.float32(1) / d if d else np.float32(0)
    r = x * inv
    t = (np.sign(r) * np.floor(np.abs(r) + np.float32(0.5))).astype(int)
    half = np.float16(d).tobytes()
    if name == "PQ2_0":
        q = bytearray(32)
        for j in range(128):
            q[j // 4] |= (t[j] + 1) << 2 * (j % 4)
        return half + bytes(q)
    q = bytearray(26)
    for byte, digits in PTQ_MAP:
        v = sum((t[j] + 1) * 3 ** (4 - n) for n, j in enumerate(digits))
        q[byte] = -(-256 * v // 243)
    return bytes(q) + half


def prism_decode(name, b):
    at = SCALE_AT[name][0]
    d = np.float32(np.frombuffer(b[at:at + 2], np.float16)[0])
    t = np.zeros(128, np.float32)
    if name == "PQ2_0":
        for j in range(128):
            t[j] = (b[2 + j // 4] >> 2 * (j % 4) & 3) - 1
    else:
        for byte, digits in PTQ_MAP:
            for n, j in enumerate(digits):
                w = b[byte] * 3 ** n % 256
                t[j] = (w >= 86) + (w >= 171) - 1
    return t * d


def encode_inputs(n, rng):
    """Rows of one block each: plain, wide, ternary, ties, and the special groups."""
    alt = np.where(np.arange(n) % 2 == 0, 1, -1).astype(np.float32)
    tiny = np.zeros(n, np.float32)
    tiny[n // 3] = 1e-30
    ties = (np.arange(n) % 9 - 4).astype(np.float32) / 8
    rows = [rng.standard_normal(n), rng.standard_normal(n) * 10.0 ** rng.integers(-9, 4, n),
            rng.integers(-1, 2, n) * 0.75, ties, -ties, np.zeros(n), tiny,
            np.full(n, 0.5), alt, np.full(n, -3e4)]
    return np.array(rows, np.float32)


def vectors(name, rng):
    n, size = SIZES[name]
    raw = rng.integers(0, 256, (5, size), dtype=np.uint8)
    for at in SCALE_AT[name]:  # finite halves: one negative, one subnormal, one zero
        halves = np.array([0x3C01, 0xB5A7, 0x0123, 0x0000, 0x7BFF], np.uint16)
        raw[:, at:at + 2] = halves.view(np.uint8).reshape(5, 2)
    prism = name in ("PQ2_0", "PTQ1_0")
    if prism:
        floats = np.array([prism_decode(name, r.tobytes()) for r in raw], np.float32)
    else:
        floats = np.empty((5, n), np.float32)
        ggml("dec", name, raw, floats, floats.size)
        kind = getattr(gguf.GGMLQuantizationType, name, None)
        if kind in quants._type_traits and name != "Q1_0":  # both oracles must agree
            other = quants.dequantize(raw, kind).astype(np.float32)
            assert np.array_equal(other.view(np.uint32), floats.view(np.uint32)), name
    src = encode_inputs(n, rng) if name not in READ_ONLY else np.empty((0, n), np.float32)
    out = np.zeros((len(src), size), np.uint8)
    if prism:
        for i, row in enumerate(src):
            out[i] = np.frombuffer(prism_encode(name, row), np.uint8)
    elif len(src):
        ggml("enc", name, src, out, src.size)
    head = struct.pack("<4I", len(raw), len(src), n, size)
    return head + raw.tobytes() + floats.tobytes() + src.tobytes() + out.tobytes()


def half_lines(rng):
    """F32 bits, F16 and BF16 as numpy and gguf-py round them."""
    special = [0, 0x80000000, 0x3F800000, 0x33000000, 0x33000001, 0x387FE000, 0x387FF000,
               0x477FE000, 0x477FEFFF, 0x477FF000, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
               0x3F808000, 0x3F818000, 0x7F7F8000, 0x00000001, 0x007FFFFF]
    bits = np.concatenate([np.array(special, np.uint32),
                           rng.integers(0x32000000, 0x48000000, 120, dtype=np.uint32)])
    f = bits.view(np.float32)
    with np.errstate(over="ignore"):
        h = f.astype(np.float16).view(np.uint16)
    b = quants.quantize(f.reshape(1, -1), gguf.GGMLQuantizationType.BF16)
    return [f"{{0x{x:08x}, 0x{y:04x}, 0x{z:04x}}},"
            for x, y, z in zip(bits, h, b.reshape(-1).view(np.uint16))]


def main():
    rng = np.random.default_rng(20261)
    for name in SCALE_AT:
        (HERE / f"{name}.bin").write_bytes(vectors(name, rng))
    (HERE / "half.inc").write_text("\n".join(half_lines(rng)) + "\n")
    lines = [f'{{"{q.name}", {q.value}, {s[0]}, {s[1]}}},'
             for q, s in gguf.GGML_QUANT_SIZES.items()]
    (HERE / "types.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
