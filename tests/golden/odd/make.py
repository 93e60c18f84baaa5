#!/usr/bin/env python3
"""make.py OUT.bin - blocks of B2_Q2 and B2_Q3 as src/format/private.h describes them.

Written from that text alone, one bit at a time. OUT.bin, little-endian: i32 blocks; per
block u8 levels (4 or 8), the block's bytes (17 or 25), f32 values[64], then
f32 weights[64] and f64 error: random weights and the least squared error that any scale of
the byte leaves.
"""
import struct
import sys

import numpy as np

SCALES = np.array([0.0] + [np.float32(2.0 ** ((q - 1) / 8 - 24)) for q in range(1, 256)])


def block_of(rng, levels):
    c = rng.integers(0, levels, size=64)
    scale = int(rng.integers(0, 256))
    out = [0] * (16 if levels == 4 else 24) + [scale]
    for i, v in enumerate(c):
        for bit in range(2):
            if v >> bit & 1:
                out[i % 16] |= 1 << (2 * (i // 16) + bit)
        if v & 4:
            out[16 + i % 8] |= 1 << (i // 8)
    values = np.float32(SCALES[scale]) * (2 * c - (levels - 1)).astype(np.float32)
    return bytes(out), values.astype(np.float32)


def least(w, levels):
    top = levels - 1
    best = np.sum(w ** 2)
    for d in SCALES[1:]:
        c = np.clip(2 * np.floor((w / d + top) / 2 + 0.5) - top, -top, top)
        best = min(best, np.sum((w - d * c) ** 2))
    return best


def main():
    rng = np.random.default_rng(11)
    n = 24
    out = struct.pack("<i", n)
    for i in range(n):
        levels = 4 if i % 2 else 8
        data, values = block_of(rng, levels)
        w = (rng.standard_t(4, size=64) * 10.0 ** rng.integers(-4, 2)).astype(np.float32)
        out += struct.pack("<B", levels) + data + values.tobytes() + w.tobytes()
        out += struct.pack("<d", least(w.astype(np.float64), levels))
    with open(sys.argv[1], "wb") as f:
        f.write(out)


main()
