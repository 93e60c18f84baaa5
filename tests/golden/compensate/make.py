#!/usr/bin/env python3
"""make.py OUT.bin - error compensation of a small matrix, by numpy in F64.

Written from the definitions alone (docs/COMPRESS.md): dense inverses, one column and one
code at a time, no blocks. Inputs are multiples of 1/16 and 1/32 so that a byte holds each.

OUT.bin, little-endian: i32 d, tokens, rows, cases; int8 x[tokens][d] and z[tokens][d]
(sixteenths; student's and teacher's inputs), w[rows][d] (32nds); per case f64 eta, i32
passes, int8 codes[rows][d], f32 scales[rows][d/64], f64 loss (sum of e H e over rows,
against the target).
"""
import struct
import sys

import numpy as np

GROUP, DAMP = 64, 0.01
LOG8 = np.array([0.0] + [np.float32(2.0 ** ((q - 1) / 8 - 24)) for q in range(1, 256)])


def stored(s):
    """The nearest scale that B2_T64 has, 0 for none."""
    return 0.0 if s <= 2.0 ** -25 else LOG8[1:][np.argmin(np.abs(LOG8[1:] - s))]


def fit(w):
    """The scale of the best codes: keep the k largest, for the best k."""
    a = np.sort(np.abs(w))[::-1]
    sums = np.cumsum(a)
    k = np.argmax(sums ** 2 / np.arange(1, len(a) + 1))
    return stored(sums[k] / (k + 1))


def nearest(w, s):
    return 0 if s == 0 else int(np.clip(np.floor(w / s + 0.5) if w >= 0 else
                                        np.ceil(w / s - 0.5), -1, 1))


def solve(w, x, z, eta, passes):
    n, d = x.shape
    h, c = x.T @ x / n, z.T @ x / n
    lam = DAMP * np.mean(np.diag(h))
    eye = np.eye(d)
    goal = (1 - eta) * w + eta * w @ (c + lam * eye) @ np.linalg.inv(h + lam * eye)

    diag = np.diag(h)
    groups = sorted(range(d // GROUP),
                    key=lambda g: (-diag[g * GROUP:(g + 1) * GROUP].sum(), g))
    perm = np.array([j for g in groups
                     for j in sorted(range(g * GROUP, (g + 1) * GROUP),
                                     key=lambda j: (-diag[j], j))])
    a = (h + lam * eye)[np.ix_(perm, perm)]
    u = np.linalg.cholesky(np.linalg.inv(a)).T
    t = goal[:, perm]
    codes = np.zeros(t.shape, int)
    scale = np.zeros((len(w), len(groups)))
    for r in range(len(w)):
        now = t[r].copy()
        for g in range(len(groups)):
            scale[r, g] = fit(now[g * GROUP:(g + 1) * GROUP])
            for j in range(g * GROUP, (g + 1) * GROUP):
                codes[r, j] = nearest(now[j], scale[r, g])
                e = (now[j] - scale[r, g] * codes[r, j]) / u[j, j]
                now[j + 1:] -= e * u[j, j + 1:]
        for turn in range(passes + 1 if passes else 0):
            if turn:
                for j in range(d):
                    g = j // GROUP
                    rest = t[r] - scale[r].repeat(GROUP) * codes[r]
                    best = scale[r, g] * codes[r, j] + rest @ a[:, j] / a[j, j]
                    codes[r, j] = nearest(best, scale[r, g])
            m = np.zeros((d, len(groups)))  # columns: codes of one group
            for g in range(len(groups)):
                m[g * GROUP:(g + 1) * GROUP, g] = codes[r, g * GROUP:(g + 1) * GROUP]
            normal, right = m.T @ a @ m, m.T @ a @ t[r]
            real = np.linalg.solve(normal, right)
            for g in range(len(groups)):
                scale[r, g] = stored(real[g]) or scale[r, g]
            for _ in range(2):
                for g in range(len(groups)):
                    others = right[g] - normal[g] @ scale[r] + normal[g, g] * scale[r, g]
                    scale[r, g] = stored(others / normal[g, g]) or scale[r, g]
    e = t - scale.repeat(GROUP, axis=1) * codes
    loss = np.einsum("ri,ij,rj->", e, a, e)
    back_codes, back_scale = np.zeros_like(codes), np.zeros_like(scale)
    back_codes[:, perm] = codes
    for at, g in enumerate(groups):
        back_scale[:, g] = scale[:, at]
    return back_codes, back_scale, loss


def main():
    rng = np.random.default_rng(7)
    d, n, rows = 192, 260, 6
    mix = rng.normal(size=(d, d)) / d ** .5 + .5 * np.eye(d)
    x = rng.normal(size=(n, d)) @ mix * rng.lognormal(0, .5, d)
    z = x + .3 * rng.normal(size=(n, d))
    x, z = (np.clip(np.round(16 * v), -127, 127).astype(np.int8) for v in (x, z))
    w = np.clip(np.round(32 * rng.normal(size=(rows, d))), -127, 127).astype(np.int8)
    cases = [(0.0, 0), (0.5, 0), (0.0, 1), (0.5, 4)]
    out = struct.pack("<4i", d, n, rows, len(cases)) + x.tobytes() + z.tobytes() + w.tobytes()
    for eta, passes in cases:
        codes, scale, loss = solve(w / 32.0, x / 16.0, z / 16.0, eta, passes)
        out += struct.pack("<di", eta, passes) + codes.astype(np.int8).tobytes()
        out += scale.astype("<f4").tobytes() + struct.pack("<d", loss)
    open(sys.argv[1], "wb").write(out)


if __name__ == "__main__":
    main()
