#!/usr/bin/env python3
"""make.py OUT.bin - columns taken away and the others restored, by numpy in F64.

Written from the definitions alone (docs/ANALYZE.md). Restoring is solved as an ordinary
least-squares problem over the tokens, damping as further rows of it; losses are counted
token by token. Inputs are multiples of 1/16 and 1/32, so that a byte holds each.

OUT.bin, little-endian: i32 sets; per set: i32 d, fit tokens, held tokens, rows; int8
x[tokens][d], z[tokens][d] (sixteenths; fit tokens first), w[rows][d] (32nds); u8 gone[d];
i32 cases; per case f64 eta, damp, lost, out[rows][d] of the fit tokens; then for each eta of
0, 0.5, 1: f64 left, and of each damping f64 loss, both on the held tokens.
"""
import struct
import sys

import numpy as np

DAMPS = [100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3]


def restored(w, x, z, keep, eta, damp):
    """argmin over v of mean |t - v x_keep|^2 + l |v - w_keep|^2, a row at a time."""
    n = len(x)
    lam = damp * np.mean(np.mean(x ** 2, axis=0))
    t = (1 - eta) * x @ w.T + eta * z @ w.T
    a = np.vstack([x[:, keep] / np.sqrt(n), np.sqrt(lam) * np.eye(keep.sum())])
    out = np.zeros_like(w)
    for r in range(len(w)):
        b = np.concatenate([t[:, r] / np.sqrt(n), np.sqrt(lam) * w[r, keep]])
        out[r, keep] = np.linalg.lstsq(a, b, rcond=None)[0]
    return out


def judged(out, w, x, z, eta):
    """Mean |t - out x|^2 less mean |t|^2, as a share of mean |w x|^2."""
    t = (1 - eta) * x @ w.T + eta * z @ w.T
    loss = np.sum((t - x @ out.T) ** 2) - np.sum(t ** 2)
    return loss / np.sum((x @ w.T) ** 2)


def make_set(rng, d, fit, held, rows, mixing):
    """Inputs that depend on each other through `mixing` hidden values; 0: on nothing."""
    n = fit + held
    x = rng.normal(size=(n, d))
    if mixing:
        x = 0.6 * x + rng.normal(size=(n, mixing)) @ rng.normal(size=(mixing, d))
    x *= rng.uniform(0.3, 1.5, size=d)
    x = np.clip(np.round(16 * x), -127, 127)
    z = np.clip(x + np.round(4 * rng.normal(size=x.shape)), -127, 127)
    w = np.clip(np.round(32 * rng.normal(size=(rows, d))), -127, 127)
    return x, z, w, rng.permutation(d) < d // 5


def main():
    rng = np.random.default_rng(7)
    sets = [make_set(rng, 40, 120, 120, 7, 12), make_set(rng, 40, 60, 90, 40, 0)]
    out = struct.pack("<i", len(sets))
    for (xi, zi, wi, gone), fit in zip(sets, (120, 60)):
        d, held = xi.shape[1], len(xi) - fit
        out += struct.pack("<4i", d, fit, held, len(wi))
        for m in xi, zi, wi:
            out += m.astype(np.int8).tobytes()
        out += gone.astype(np.uint8).tobytes()
        x, z, w = xi / 16, zi / 16, wi / 32
        cases = [(0.0, 1e-4), (0.5, 0.01), (1.0, 0.3)]
        out += struct.pack("<i", len(cases))
        for eta, damp in cases:
            v = restored(w, x[:fit], z[:fit], ~gone, eta, damp)
            lost = np.sum((x[:fit] @ (w - v).T) ** 2) / np.sum((x[:fit] @ w.T) ** 2)
            out += struct.pack("<3d", eta, damp, lost) + v.tobytes()
        for eta in 0.0, 0.5, 1.0:
            out += struct.pack("<d", judged(w * ~gone, w, x[fit:], z[fit:], eta))
            for damp in DAMPS:
                v = restored(w, x[:fit], z[:fit], ~gone, eta, damp)
                out += struct.pack("<d", judged(v, w, x[fit:], z[fit:], eta))
    with open(sys.argv[1], "wb") as f:
        f.write(out)


main()
