"""Our F32 export of the real model, tensor by tensor, against gguf-py's decoding of the
original. The file is kept for the tests that feed it to llama.cpp. The model in several
files: gguf-py sees the same tensors, llama.cpp computes the same logits."""
import glob
import os

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

import common
from llama import opened

common.need_model()
check = common.Checks()
common.program("export", common.MODEL, "--format", "gguf-f32", "-o", common.F32,
               "--force", "--quiet")

theirs = {t.name: t for t in GGUFReader(common.MODEL).tensors}
ours = {t.name: t for t in GGUFReader(common.F32).tensors}
check.true("the same %d tensors" % len(theirs), list(theirs) == list(ours))
wrong = 0
for name, t in theirs.items():
    want = dequantize(t.data, t.tensor_type).astype(np.float32).reshape(-1)
    got = np.asarray(ours[name].data).view(np.float32).reshape(-1)
    same = want.size == got.size and bool(
        (want.view(np.uint32) == got.view(np.uint32)).all())
    if not same or list(t.shape) != list(ours[name].shape):
        print("tensor", name, "differs")
        wrong += 1
check.true("all values equal gguf-py's bit for bit", wrong == 0)

stem = os.path.join(common.WORK, "split")
for path in glob.glob(stem + "-*.gguf"):
    os.remove(path)
common.program("export", common.MODEL, "--format", "gguf", "--split", "30MB", "-o",
               stem + ".gguf", "--quiet")
parts = sorted(glob.glob(stem + "-*.gguf"))
tensors = [t for path in parts for t in GGUFReader(path).tensors]
check.true("%d files hold the tensors of the original" % len(parts),
           len(parts) > 2 and [t.name for t in tensors] == list(theirs) and
           all(t.tensor_type == theirs[t.name].tensor_type and
               (t.data == theirs[t.name].data).all() for t in tensors))
logits = []
for path in (common.MODEL, parts[0]):
    with opened(path) as model:
        logits.append(model.logits(model.tokenize("Once upon a time")))
check.true("llama.cpp's logits from the files are the same bits",
           (logits[0] == logits[1]).all())
for path in parts:
    os.remove(path)
check.done()
