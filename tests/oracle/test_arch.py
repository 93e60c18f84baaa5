"""Our GGUF of the folders in tests/golden/arch in llama.cpp: the most likely token after
each of 200 must be the one that transformers finds (logits.bin, see make.py there).

llama.cpp knows no window for `llama`, so that Mistral is compared up to its window; it
has no key for the scale of Gemma's queries, so that gemma3-cap, which sets it, is left out.
"""
import os
import shutil

import numpy as np

import common
from llama import opened

FOLDERS = {"llama-linear": 200, "llama-yarn": 200, "llama-llama3": 200,
           "llama-dynamic": 200, "mistral": 48, "phi3": 48, "phi3-long": 200,
           "qwen2": 200, "qwen3": 200, "gemma3": 200, "qwen35": 200, "qwen35-vl": 200}
GOLDEN = os.path.join(common.ROOT, "tests", "golden", "arch")
work = os.path.join(common.WORK, "arch-%d" % os.getpid())
os.makedirs(work)
check = common.Checks()
try:
    for name, n in FOLDERS.items():
        data = np.fromfile(os.path.join(GOLDEN, name, "logits.bin"), "<i4")
        ids, top1 = data[:200], data[200:400]
        gguf = os.path.join(work, name + ".gguf")
        # A folder's name is the model's, and llama.cpp wants the tokens of Phi 3 in
        # any model that is called so.
        folder = os.path.join(work, "model")
        os.symlink(os.path.join(GOLDEN, name), folder)
        common.program("export", folder, "--format", "gguf-f32", "-o", gguf, "--quiet")
        os.remove(folder)
        with opened(gguf, ctx=256, threads=1) as theirs:
            logits = theirs.logits(ids.tolist())
        rows = data[400:].view("<f4").reshape(20, -1)
        worst = max(np.linalg.norm(logits[10 * r + 9] - rows[r]) / np.linalg.norm(rows[r])
                    for r in range(20) if 10 * r + 9 < n)
        check.true("%s: llama.cpp on our GGUF, most likely tokens of %d" % (name, n),
                   np.array_equal(logits[:n].argmax(1), top1[:n]))
        check.less("%s: its logits against transformers', relative" % name, worst, 5e-3)
finally:
    shutil.rmtree(work)
check.done()
