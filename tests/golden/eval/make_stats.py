#!/usr/bin/env python3
"""Writes stats.inc: exact binomial rules by rational arithmetic, and quantiles of the
exact bootstrap distribution of a share. Run in this folder: python3 make_stats.py"""
from fractions import Fraction
from math import comb


def at_most(k, n, p):
    return sum(comb(n, i) * p**i * (1 - p)**(n - i) for i in range(k + 1))


def mcnemar(up, down):
    n = up + down
    return 1.0 if n == 0 else float(min(Fraction(1), 2 * at_most(min(up, down), n, Fraction(1, 2))))


def bisect(f, want):
    low, high = 0.0, 1.0
    for _ in range(80):
        mid = (low + high) / 2
        low, high = (mid, high) if f(mid) > want else (low, mid)
    return (low + high) / 2


def clopper_pearson(k, n):
    return (0.0 if k == 0 else bisect(lambda p: at_most(k - 1, n, p), 0.975),
            1.0 if k == n else bisect(lambda p: at_most(k, n, p), 0.025))


def binomial_quantile(q, n, p):
    """The smallest k with P(X <= k) >= q: what resampling n items of share p must give."""
    total = 0.0
    for k in range(n + 1):
        total += comb(n, k) * p**k * (1 - p)**(n - k)
        if total >= q:
            return k


with open("stats.inc", "w") as f:
    f.write("/* up, down, McNemar p; by exact fractions */\n")
    f.write("#ifdef WANT_MCNEMAR\n")
    for up, down in [(0, 0), (1, 0), (5, 5), (3, 11), (20, 41), (150, 98), (0, 30), (400, 455)]:
        f.write("{%d, %d, %.17g},\n" % (up, down, mcnemar(up, down)))
    f.write("#endif\n/* hits, n, low, high; Clopper and Pearson */\n#ifdef WANT_SHARE\n")
    for k, n in [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (48, 100), (199, 200), (613, 1000)]:
        f.write("{%d, %d, %.15g, %.15g},\n" % (k, n, *clopper_pearson(k, n)))
    f.write("#endif\n/* hits, n, quantiles of the exact bootstrap distribution, in hits */\n"
            "#ifdef WANT_BOOTSTRAP\n")
    for k, n in [(50, 100), (90, 100), (12, 200), (150, 200), (300, 500)]:
        f.write("{%d, %d, %d, %d},\n" % (k, n, binomial_quantile(0.025, n, k / n),
                                          binomial_quantile(0.975, n, k / n)))
    f.write("#endif\n")

# teacher.inc: rows cut to k tokens and a tail, by NumPy on the logits of make_eval.py.
if __name__ == "__main__":
    import numpy as np
    from make_eval import log_softmax, rows
    with open("teacher.inc", "w") as f:
        f.write("/* row, k, log of the tail, divergence with the tail as one token */\n")
        for r, b, c in rows():
            for k in (1, 8, 49):
                lb, lc = log_softmax(b), log_softmax(c)
                top = np.lexsort((np.arange(50), -b))[:k]
                rest = np.setdiff1d(np.arange(50), top)
                tail_b, tail_c = np.exp(lb[rest]).sum(), np.exp(lc[rest]).sum()
                kld = (np.exp(lb[top]) * (lb[top] - lc[top])).sum()
                kld += tail_b * np.log(tail_b / tail_c)
                f.write("{%d, %d, %.12g, %.12g},\n" % (r, k, np.log(tail_b), max(kld, 0)))
