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
    # lm-evaluation-harness's rolling windows of 64, the first behind the begin token.
    begin, plain = 1, theirs.tokenize(text, special=True, add_special=False)
    rolling = [([begin] + plain[:63], plain[:64]), (plain[63:127], plain[64:128])]
    nll_rolling = [-common.log_softmax(row)[t] for inputs, targets in rolling
                   for row, t in zip(theirs.logits(inputs), targets)]

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
check.perplexity("llama.cpp's convention", got, nll)
got = common.program_json("eval", "ppl", "-m", common.MODEL, "--text", common.TEXT,
                          "--ctx", "64", "--chunks", "2", "--convention", "rolling",
                          "--exact")
check.perplexity("rolling windows", got, nll_rolling)
check.done()
