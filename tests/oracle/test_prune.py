"""Files of `bonsai2 prune` in llama.cpp: smaller shapes, fewer layers, and layers of
different sizes (`deci`), with the logits that we compute.

The model is stories260K, which is pruned in a second.
"""
import os

import common
from llama import opened

os.makedirs(common.WORK, exist_ok=True)
source = os.environ["B2_STORIES"]
stem = os.path.join(common.WORK, "prune-%d" % os.getpid())
out, text = stem + ".gguf", stem + ".txt"
check = common.Checks()
CASES = {
    "even": ["--ffn", "0.2", "--kv", "0.25", "--heads", "0.5"],
    "layers": ["--layers", "2", "--ffn", "0.1"],
    "uneven": ["--rule", "blk.1.ffn_*=0.3", "--rule", "blk.2.attn_k=0.5", "--rule",
               "blk.3.attn_q=0.5"],
}
try:
    with open(common.TEXT, encoding="utf-8") as f, open(text, "w", encoding="utf-8") as g:
        g.write(f.read(60000))
    for name, options in CASES.items():
        report = common.program_json("prune", source, *options, "--multiple", "4", "--calib",
                                     text, "--calib-ctx", "128", "--calib-tokens", "2048", "-o",
                                     out, "--force")
        check.true("%s: written as %s" % (name, report["arch"]),
                   report["arch"] == ("deci" if name == "uneven" else "llama"))
        with opened(out, ctx=128, threads=common.THREADS) as theirs:
            ids = theirs.tokenize("Once upon a time there was a little girl who", special=True)
            want = theirs.logits(ids)
        kl, same = common.mean_kl(want, common.our_logits(out, [ids], exact=True)[0])
        check.less("%s: mean KL (same top token %.2f)" % (name, same), kl, 1e-4)
finally:
    for path in out, text:
        if os.path.exists(path):
            os.remove(path)
check.done()
