"""Files of `bonsai2 synth` in other programs: gguf-py reads their keys and shapes, and
llama.cpp cuts text and computes logits as we do.

A random network of many layers multiplies the rounding of 8-bit activations, so that
one layer is compared, ours in F32, theirs with its own activations.
"""
import os

import numpy as np
from gguf import GGUFReader

import common
from llama import opened

os.makedirs(common.WORK, exist_ok=True)
path = os.path.join(common.WORK, "synth-%d.gguf" % os.getpid())
check = common.Checks()
TEXT = "the quick brown fox jumps over the lazy dog, 1234 times\n\nÄ 世界 <|im_end|> ok"
try:
    for kind in ("TQ1_0", "TQ2_0", "Q4_0", "Q8_0", "Q4_K"):
        common.program("synth", "--like", "S", "--layers", "1", "--type", kind, "-o", path,
                       "--force", "--quiet")
        if kind == "TQ1_0":  # its Python takes seconds for the vocabulary
            reader = GGUFReader(path)
            kinds = {t.tensor_type.name for t in reader.tensors if len(t.shape) == 2}
            check.true("%s: gguf-py reads %d tensors of that type"
                       % (kind, len(reader.tensors)), kinds == {kind})
            del reader
        with opened(path, ctx=64, threads=common.THREADS) as theirs:
            ids = theirs.tokenize(TEXT, special=True)
            want = theirs.logits(ids)
        if kind == "TQ1_0":
            ours = common.program_json("tokenize", "-m", path, TEXT)["ids"]
            check.true("%d tokens of a text as ours" % len(ids), ours == ids)
        got = common.our_logits(path, [ids], exact=True)[0]
        kl, same = common.mean_kl(want, got)
        check.true("%s: logits are finite" % kind, bool(np.isfinite(want).all()))
        check.less("%s: mean KL (same top token %.2f)" % (kind, same), kl, 0.02)
finally:
    if os.path.exists(path):
        os.remove(path)
check.done()
