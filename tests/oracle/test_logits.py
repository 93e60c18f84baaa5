"""Logits of every position, and a perplexity, against llama.cpp with F32 weights.

Ours: the original file with --exact (activations in F32, cache F16). Theirs: the F32
export (proven equal to the original's values by test_export.py), cache F16."""
import numpy as np

import common
from llama import opened

common.need_model()
check = common.Checks()
CTX, CHUNKS = 256, 2

with open(common.TEXT, "rb") as f:
    text = f.read()
with opened(common.F32, ctx=CTX, threads=common.THREADS, cache="f16") as theirs:
    ids = theirs.tokenize(text)
    chunks = [ids[i * CTX:(i + 1) * CTX] for i in range(CHUNKS)]
    want = [theirs.logits(c) for c in chunks]

exact = common.our_logits(common.MODEL, chunks, exact=True)
export = common.our_logits(common.F32, chunks[:1], exact=True)
for i, (o, w) in enumerate(zip(exact, want)):
    check.near("chunk %d, --exact against llama.cpp" % i, o, w, 0.1)
check.near("our F32 export against llama.cpp", export[0], want[0], 0.1)

# llama.cpp's convention: the second half of each chunk is scored (no begin token here).
nll = [-common.log_softmax(w[p])[c[p + 1]]
       for c, w in zip(chunks, want) for p in range(CTX // 2, CTX - 1)]
got = common.program_json("eval", "ppl", "-m", common.MODEL, "--text", common.TEXT,
                          "--ctx", str(CTX), "--chunks", str(CHUNKS), "--exact")
check.true("as many tokens scored", got["n_tokens"] == len(nll))
check.less("perplexity %.4f against %.4f, relative difference"
           % (got["ppl"], np.exp(np.mean(nll))),
           abs(got["ppl"] / np.exp(np.mean(nll)) - 1), 5e-3)
check.done()
