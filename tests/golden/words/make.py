#!/usr/bin/env python3
"""make.py OUT.bin - words of four ternary codes by brute force from their description.

Nothing of the program is used: 64 words, the bytes of blocks, the nearest words.

OUT.bin, little-endian:
  int8 word[64][4]                        codes by index
  per type (128 weights, then 64): i32 n; n times
      int8 code[weights], f32 scale, u8 block[bytes], f32 value[weights]
  i32 n; n times int8 t[4] (24ths), u8 imp[4] (8ths), i32 cost of the nearest word in
      units of 1/(24 * 24 * 8), with these importances and with equal ones of 1
  i32 n; n times f32 w[64], f64 error of the best scale and words by search over scales
"""
import itertools
import struct
import sys

import numpy as np


def words():
    """By value, from the largest down; the zero word in place of the first."""
    four = [w for w in itertools.product((-1, 0, 1), repeat=4) if w.count(0) >= 1]
    value = {w: sum(c * 4 ** k for k, c in enumerate(w)) for w in four}
    plus = sorted((w for w in four if value[w] > 0), key=lambda w: -value[w])
    minus = [tuple(-c for c in w) for w in plus]
    assert len(plus) == 32 and plus[0] == (0, 1, 1, 1)
    return [(0, 0, 0, 0)] + plus[1:] + minus


WORDS = words()


def block(index, scale_byte):
    """Low halves of indices, two a byte; high quarters, four a byte; the scale."""
    n = len(index)
    out = bytearray(n // 2 + n // 4)
    for w, i in enumerate(index):
        out[w % (n // 2)] |= (i & 15) << (4 if w >= n // 2 else 0)
        out[n // 2 + w % (n // 4)] |= (i >> 4) << 2 * (w // (n // 4))
    return bytes(out) + bytes([scale_byte])


def scale_of(byte):
    return np.float32(0 if byte == 0 else 2.0 ** ((byte - 1) / 8 - 24))


def best_error(w):
    """Over scales that a fine ladder and every threshold give: the least squared error."""
    best = float(np.sum(w ** 2))
    table = np.array(WORDS, float)
    quads = w.reshape(-1, 4)
    top = np.abs(w).max()
    ladder = np.concatenate([np.linspace(.02, 1.2, 400) * top, 2 * np.abs(w[w != 0])])
    for s in ladder:
        for _ in range(3):
            cost = ((quads[:, None, :] - s * table[None]) ** 2).sum(2)
            code = table[cost.argmin(1)]
            best = min(best, cost.min(1).sum())
            if not code.any():
                break
            s = (code * quads).sum() / (code ** 2).sum()
    return best


def main():
    rng = np.random.default_rng(11)
    out = np.array(WORDS, np.int8).tobytes()
    for weights in (128, 64):
        out += struct.pack("<i", 12)
        for k in range(12):
            n = weights // 4
            index = (np.arange(n) + k * n) % 64 if k < 4 else rng.integers(0, 64, n)
            byte = int(rng.integers(1, 256)) if k else 0
            code = np.array([WORDS[i] for i in index], np.int8).reshape(-1)
            out += code.tobytes() + scale_of(byte).tobytes() + block(index, byte)
            out += (code.astype(np.float32) * scale_of(byte)).astype("<f4").tobytes()
    table = np.array(WORDS, int)
    out += struct.pack("<i", 2000)
    for _ in range(2000):
        t = np.clip(np.round(24 * rng.normal(0, 1.0, 4)), -127, 127).astype(int)
        imp = rng.integers(0, 25, 4)
        cost = lambda a: int((a * (t - 24 * table) ** 2).sum(1).min())
        out += t.astype(np.int8).tobytes() + imp.astype(np.uint8).tobytes()
        out += struct.pack("<2i", cost(imp), cost(np.array([8] * 4)))
    out += struct.pack("<i", 40)
    for k in range(40):
        w = rng.normal(0, 0.02, 64) if k % 2 else rng.laplace(0, 0.02, 64)
        w = w.astype(np.float32)
        out += w.tobytes() + struct.pack("<d", best_error(w.astype(float)))
    open(sys.argv[1], "wb").write(out)


if __name__ == "__main__":
    main()
