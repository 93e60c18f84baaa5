"""Writes rope.inc: logits of stories260K under every stretching of positions.

    python make_rope.py STORIES.gguf OUT.inc

STORIES.gguf is what tools/llama2c_to_gguf.py makes from tests/golden/stories260K. Each
variant changes keys (or adds the tensor rope_freqs.weight) and is run by llama.cpp
through tests/oracle/llama.py: F32 weights, cache F16, one batch of N tokens.
"""
import os
import sys
import tempfile

import gguf
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "oracle"))
import llama  # noqa: E402

N, FIRST, SHOWN = 300, 300, 8
POSITIONS = (7, 64, 299)
# name: (keys of rope.*, factors)
VARIANTS = {
    "plain": ({}, None),
    "base": ({"freq_base": 500000.0}, None),
    "linear": ({"scaling.type": "linear", "scaling.factor": 4.0}, None),
    "old_linear": ({"scale_linear": 4.0}, None),
    "yarn": ({"scaling.type": "yarn", "scaling.factor": 4.0,
              "scaling.original_context_length": 128}, None),
    "yarn_attn": ({"scaling.type": "yarn", "scaling.factor": 2.0,
                   "scaling.attn_factor": 0.8}, None),
    "factors": ({}, [1.0, 1.5, 4.0, 8.0]),
}


def ids():
    return [(7 * i * i + 3 * i) % 509 + 3 for i in range(N)]


def write_variant(reader, path, keys, factors):
    w = gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name.startswith("llama.rope.") and name[len("llama.rope."):] in keys:
            continue
        value = field.contents()
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            w.add_key_value(name, value, field.types[0], sub_type=field.types[1])
        else:
            w.add_key_value(name, value, field.types[0])
    for key, value in keys.items():
        kind = (gguf.GGUFValueType.STRING if isinstance(value, str) else
                gguf.GGUFValueType.UINT32 if isinstance(value, int) else
                gguf.GGUFValueType.FLOAT32)
        w.add_key_value("llama.rope." + key, value, kind)
    if factors:
        w.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    for t in reader.tensors:
        w.add_tensor(t.name, np.array(t.data))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    with open(sys.argv[2], "w", encoding="ascii") as out:
        for name, (keys, factors) in VARIANTS.items():
            path = os.path.join(tempfile.mkdtemp(), name + ".gguf")
            write_variant(reader, path, keys, factors)
            with llama.opened(path, ctx=512, cache="f16") as m:
                logits = m.logits(ids())
            os.remove(path)
            out.write('{"%s",\n {' % name)
            for p in POSITIONS:
                row = ", ".join("%.5ff" % v for v in logits[p][FIRST:FIRST + SHOWN])
                out.write("{%s},\n  " % row)
            out.write("}},\n")


main()
