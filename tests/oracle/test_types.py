"""Files that compress writes in stock types load in llama.cpp and give our logits.

Theirs runs with its 8-bit activations, so the bound is on the mean divergence. A type
needs rows that its block divides: 576 = 9 * 64 takes Q8_0, Q4_0 and Q2_0 everywhere,
1536 = 6 * 256 (ffn_down) also TQ1_0 and TQ2_0. The ternary types go into three layers:
enough that a single wrong value shows, while the model still talks. (With all layers
ternary in one shot the network is chaotic and multiplies any rounding of activations.)
"""
import os

import common
from llama import opened

common.need_model()
check = common.Checks()
START, CTX = 1000, 256  # mid-text: the first tokens of a text are the noisiest
DOWN = "blk.1[4-6].ffn_down.weight="
FILES = [
    ("Q8_0", ["*=Q8_0"]),
    ("Q4_0", ["*=Q4_0"]),
    ("Q2_0", ["*=keep", DOWN + "Q2_0"]),
    ("TQ2_0", ["*=keep", DOWN + "TQ2_0"]),
    ("TQ1_0", ["*=keep", DOWN + "TQ1_0"]),
]

with open(common.TEXT, "rb") as f:
    text = f.read()
for name, rules in FILES:
    path = os.path.join(common.WORK, name + ".gguf")
    args = [x for r in rules for x in ("--rule", r)]
    common.program("compress", common.MODEL, "-o", path, *args, "--force", "--quiet")
    types = {t["type"] for t in common.program_json("inspect", path)["tensors"]}
    check.true("%s: the file holds the type" % name, name in types)
    with opened(path, ctx=CTX, threads=common.THREADS, cache="f16") as theirs:
        ids = theirs.tokenize(text)[START:START + CTX]
        want = theirs.logits(ids)
    ours = common.our_logits(path, [ids], exact=True)[0]
    kl, same = common.mean_kl(ours, want)
    check.less("%s: mean KL to llama.cpp (same top token %.3f)" % (name, same), kl, 5e-3)
    os.remove(path)
check.done()
