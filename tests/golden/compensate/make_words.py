#!/usr/bin/env python3
"""make_words.py OUT.bin - as make.py for B2_C64: four columns side by side make a word.

Dense algebra: the four codes of a word are the best of all 64 when the later columns make
up for them in the best way (by a linear solve, not by the factor's rows).
"""
import importlib.util
import os
import sys

import numpy as np

sys.dont_write_bytecode = True


def load(name, *path):
    at = os.path.join(os.path.dirname(os.path.abspath(__file__)), *path)
    spec = importlib.util.spec_from_file_location(name, at)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load("make", "make.py")
GROUP, DAMP = make.GROUP, make.DAMP
TABLE = np.array(load("words", "..", "words", "make.py").WORDS, float)


def fit(w):
    """As make.fit, without the smallest of each four."""
    a = np.abs(w).reshape(-1, 4).copy()
    a[np.arange(len(a)), a.argmin(1)] = 0
    return make.fit(a.reshape(-1))


def nearest(w, metric, s):
    """The word c that minimises (w - s c) metric (w - s c)."""
    if s == 0:
        return np.zeros(4, int)
    e = w - s * TABLE
    return TABLE[np.einsum("wi,ij,wj->w", e, metric, e).argmin()].astype(int)


def solve(w, x, z, eta, passes):
    n, d = x.shape
    h, c = x.T @ x / n, z.T @ x / n
    lam = DAMP * np.mean(np.diag(h))
    eye = np.eye(d)
    goal = (1 - eta) * w + eta * w @ (c + lam * eye) @ np.linalg.inv(h + lam * eye)

    diag = np.diag(h)
    order = lambda first, count, size: sorted(
        (first + k * size for k in range(count)),
        key=lambda at: (-diag[at:at + size].sum(), at))
    groups = order(0, d // GROUP, GROUP)
    perm = np.array([at + k for g in groups for at in order(g, GROUP // 4, 4)
                     for k in range(4)])
    a = (h + lam * eye)[np.ix_(perm, perm)]
    t = goal[:, perm]
    codes = np.zeros(t.shape, int)
    scale = np.zeros((len(w), len(groups)))
    for r in range(len(w)):
        now = t[r].copy()
        for j in range(0, d, 4):
            g = j // GROUP
            if j % GROUP == 0:
                scale[r, g] = fit(now[j:j + GROUP])
            quad, rest = slice(j, j + 4), slice(j + 4, d)
            metric, best = a[quad, quad], None
            if j + 4 < d:  # what remains when the rest moves to its optimum
                best = np.linalg.solve(a[rest, rest], a[rest, quad])
                metric = metric - a[quad, rest] @ best
            codes[r, quad] = nearest(now[quad], metric, scale[r, g])
            e = now[quad] - scale[r, g] * codes[r, quad]
            if best is not None:
                now[rest] += best @ e
        for turn in range(passes + 1 if passes else 0):
            if turn:
                for j in range(0, d, 4):
                    g, quad = j // GROUP, slice(j, j + 4)
                    other = scale[r].repeat(GROUP) * codes[r]
                    other[quad] = 0
                    metric = a[quad, quad]
                    best = np.linalg.solve(metric, a[quad] @ (t[r] - other))
                    codes[r, quad] = nearest(best, metric, scale[r, g])
            m = np.zeros((d, len(groups)))  # columns: codes of one group
            for g in range(len(groups)):
                m[g * GROUP:(g + 1) * GROUP, g] = codes[r, g * GROUP:(g + 1) * GROUP]
            normal, right = m.T @ a @ m, m.T @ a @ t[r]
            real = np.linalg.solve(normal, right)
            for g in range(len(groups)):
                scale[r, g] = make.stored(real[g]) or scale[r, g]
            for _ in range(2):
                for g in range(len(groups)):
                    others = right[g] - normal[g] @ scale[r] + normal[g, g] * scale[r, g]
                    scale[r, g] = make.stored(others / normal[g, g]) or scale[r, g]
    e = t - scale.repeat(GROUP, axis=1) * codes
    loss = np.einsum("ri,ij,rj->", e, a, e)
    back_codes, back_scale = np.zeros_like(codes), np.zeros_like(scale)
    back_codes[:, perm] = codes
    for at, g in enumerate(groups):
        back_scale[:, g // GROUP] = scale[:, at]
    return back_codes, back_scale, loss


if __name__ == "__main__":
    make.solve = solve
    make.main()
