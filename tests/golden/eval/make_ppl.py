"""make_ppl.py MODEL.gguf TEXT WINDOWS - mean loss of llama.cpp on the first windows.

MODEL has F32 weights (bonsai2 export FILE --format gguf-f32; tests/oracle proves such
files equal to the original). The convention of llama-perplexity: the text is tokenised
once and cut into windows of 512; the first token of each becomes the begin token where
the model adds one; positions 256 to 510 are scored against the token that follows. Cache
F16, flash attention off. Prints perplexity after each window. Needs build/venv.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "oracle"))
from llama import lib, opened  # noqa: E402

CTX = 512
path, text, windows = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(text, "rb") as f:
    data = f.read()
total, n = 0.0, 0
with opened(path, ctx=CTX, threads=2, cache="f16") as model:
    ids = model.tokenize(data)
    for w in range(windows):
        window = ids[w * CTX:(w + 1) * CTX]
        if lib.llama_vocab_get_add_bos(model.vocab):
            window[0] = lib.llama_vocab_bos(model.vocab)
        rows = model.logits(window)
        for p in range(CTX // 2, CTX - 1):
            row = rows[p].astype(np.float64)
            row -= row.max()
            total -= row[window[p + 1]] - np.log(np.exp(row).sum())
            n += 1
        print("%d windows, %d tokens: perplexity %.4f" % (w + 1, n, np.exp(total / n)),
              flush=True)
