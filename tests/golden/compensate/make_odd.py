#!/usr/bin/env python3
"""make_odd.py OUT.bin LEVELS - as make.py, for 4 or 8 odd levels (B2_Q2, B2_Q3).

Codes are odd numbers, -3 to 3 or -7 to 7. A group's first scale is the one of all 255 with
the least squared error.
"""
import sys

import numpy as np

import make


def main():
    top = int(sys.argv[2]) - 1

    def nearest(w, s):
        if s == 0:
            return 1  # whatever: the value is 0
        return int(2 * np.floor((np.clip(w / s, -top, top) + top) / 2 + 0.5) - top)

    def fit(w):
        levels = np.clip(2 * np.floor((w / make.LOG8[1:, None] + top) / 2 + 0.5) - top,
                         -top, top)
        errors = np.sum((w - make.LOG8[1:, None] * levels) ** 2, axis=1)
        return make.LOG8[1:][np.argmin(errors)]

    make.nearest, make.fit = nearest, fit
    make.main()


main()
