"""Our F32 export of the real model, tensor by tensor, against gguf-py's decoding of the
original. The file is kept for the tests that feed it to llama.cpp."""
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

import common

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
check.done()
