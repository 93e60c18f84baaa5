"""Our Hugging Face folders: weights against gguf-py's decoding with the rows of q and k
turned back as transformers wants them, tokenizer.json in the `tokenizers` library
against llama.cpp on the GGUF."""
import json
import os
import shutil

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer

import common
from llama import opened

common.need_model()
check = common.Checks()
TEXTS = ["", " ", "Hello world", "  two  spaces\n\n\ttabs 12345 it's I'LL", "\r\n \r\n x",
         "\u00dcn\u00efc\u00f6d\u00e9 \u00bd \u00b2 \u5317\u4eac \U0001F642\u200d\ufeff",
         "\u00a0nbsp \u3000 wide", "def f(x):\n    return x**2  # done", "a" * 60,
         "<|im_start|>user\nHi<|im_end|>\n", "</s><s> x <unk>"]
HEADS = {"q_proj": "head_count", "k_proj": "head_count_kv"}
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def folder_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, kind, _ = name.split(".")
    return "model.layers.%s.%s.weight" % (layer, NAMES[kind])


def read_folder(path):
    """{name: F32 array} of a BF16 or F32 model.safetensors, by the format's own rules."""
    with open(os.path.join(path, "model.safetensors"), "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        a, b = (8 + size + x for x in t["data_offsets"])
        if t["dtype"] == "BF16":
            values = (np.frombuffer(data[a:b], np.uint16).astype(np.uint32) << 16)
            values = values.view(np.float32)
        else:
            values = np.frombuffer(data[a:b], np.float32)
        out[name] = values.reshape(t["shape"])
    return out


def to_bf16(x):
    bits = x.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return bits.astype(np.uint32).view(np.float32)


def check_folder(label, gguf, fmt):
    path = os.path.join(common.WORK, "folder-" + label)
    shutil.rmtree(path, ignore_errors=True)
    common.program("export", gguf, "--format", fmt, "-o", path, "--quiet")
    reader, ours, wrong = GGUFReader(gguf), read_folder(path), 0
    for t in reader.tensors:
        want = dequantize(t.data, t.tensor_type).astype(np.float32)
        want = want.reshape([int(n) for n in reversed(t.shape)])
        name = folder_name(t.name)
        kind = HEADS.get(name.split(".")[-2])
        if kind:
            n = int(reader.fields["llama.attention." + kind].contents())
            rows, cols = want.shape
            want = want.reshape(n, rows // n // 2, 2, cols).swapaxes(1, 2)
            want = want.reshape(rows, cols)
        if fmt == "hf-bf16":
            want = to_bf16(np.ascontiguousarray(want))
        wrong += not np.array_equal(want, ours.pop(name))
    check.true("%s: %d tensors, all values as they should be" % (label, len(reader.tensors)),
               wrong == 0 and not ours)
    with open(common.TEXT, encoding="utf-8") as f:
        texts = TEXTS + f.read().split("\n")[:300]
    tok = Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    with opened(gguf, ctx=32, threads=1) as theirs:
        wrong = [t for t in texts
                 if tok.encode(t).ids != theirs.tokenize(t, special=True)]
    check.true("%s: tokenizer.json gives llama.cpp's ids on %d texts" % (label, len(texts)),
               not wrong)
    shutil.rmtree(path)


check_folder("smollm2", common.MODEL, "hf-bf16")
check_folder("stories", os.environ["B2_STORIES"], "hf-f32")
check.done()
