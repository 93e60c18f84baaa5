"""llama_types.py MODEL TRAIN TEXT [TYPE...] - llama.cpp's own small types, as rows of
llama_types.csv beside ours of ternary.csv and mixed.csv.

Each TYPE (default: IQ1_S IQ1_M IQ2_XXS IQ2_XS Q2_K IQ3_XXS Q3_K TQ1_0) is that of every
linear layer, the embedding stays as in MODEL. llama.cpp's ggml_quantize_chunk makes the
blocks and llama.cpp turns them back into F32, which is what is scored: the loss of the
weights, by the evaluator that scores ours. Rows that 256 does not divide are taken several
at once, so that the type has its nominal bits. The importance matrix is the mean square of
each input, over B2_TOKENS (default 65536) tokens of the first four fifths of TRAIN, by
transformers. Scored: the first B2_CHUNKS (32) windows of 512 of TEXT, its second half
each; B2_EXACT=0: activations in 8 bits.

Needs gguf, numpy, torch, transformers and xllamacpp (tests/oracle/requirements.txt has
the last). A type whose row is there is not measured again.
"""
import concurrent.futures
import csv
import ctypes
import datetime
import importlib.metadata
import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import gguf
import numpy as np

TYPES = "IQ1_S IQ1_M IQ2_XXS IQ2_XS Q2_K IQ3_XXS Q3_K TQ1_0"
HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE.parent / "build" / "quality"
ROWS = HERE / "llama_types.csv"
COLUMNS = ("date,model,type,importance_tokens,bpw_linear,kld,kld_stderr,same_top1,ppl,ppl_ratio,"
           "ctx,chunks,text,text_sha256,exact,llama_cpp,kernel,version")
PROGRAM = os.environ.get("B2_PROGRAM", str(HERE.parent / "build" / "release" / "bonsai2"))
TOKENS = int(os.environ.get("B2_TOKENS", "65536"))
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


class Traits(ctypes.Structure):
    """The head of llama.cpp's struct ggml_type_traits."""
    _fields_ = [("name", ctypes.c_char_p), ("block", ctypes.c_int64),
                ("block_interleave", ctypes.c_int64), ("bytes", ctypes.c_size_t),
                ("quantized", ctypes.c_bool),
                ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                                              ctypes.c_int64))]


def ggml():
    folder = pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent
    lib = ctypes.CDLL(str(next(folder.glob("xllamacpp*.so"))))  # llama.cpp is linked into it
    lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                        ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_void_p]
    lib.ggml_quantize_init.argtypes = [ctypes.c_int]
    return lib


def importance(model, train):
    """Mean square of each input of each linear layer: name -> F32 [columns]."""
    keep = WORK / f"importance-{pathlib.Path(model).stem}-{TOKENS}.npz"
    if keep.exists():
        return dict(np.load(keep))
    import torch
    import transformers
    folder, name = os.path.split(os.path.abspath(model))
    load = {"pretrained_model_name_or_path": folder, "gguf_file": name}
    words = transformers.AutoTokenizer.from_pretrained(**load)
    net = transformers.AutoModelForCausalLM.from_pretrained(**load, dtype=torch.float32).eval()
    sums, seen = {}, {}

    def listen(tensor):
        def hook(_, inputs):
            x = inputs[0].reshape(-1, inputs[0].shape[-1]).double()
            sums[tensor] = sums.get(tensor, 0) + (x * x).sum(0)
            seen[tensor] = seen.get(tensor, 0) + len(x)
        return hook

    for path, module in net.named_modules():
        m = re.search(r"layers\.(\d+)\.(.*)", path)
        if m and m.group(2) in NAMES:
            module.register_forward_pre_hook(listen(f"blk.{m.group(1)}.{NAMES[m.group(2)]}.weight"))
    text = pathlib.Path(train).read_bytes()
    ids = words(text[:len(text) * 4 // 5].decode(errors="ignore"))["input_ids"]
    windows = max(1, TOKENS // 512)
    with torch.no_grad():
        for i in range(windows):  # at even distances, as our calibration takes them
            at = i * (len(ids) - 512) // windows
            net(torch.tensor([ids[at:at + 512]]), logits_to_keep=1)
    found = {k: (v / seen[k]).float().numpy() for k, v in sums.items()}
    np.savez(keep, **found)
    return found


def as_type(lib, kind, x, weights):
    """x [rows, columns] F32 through llama.cpp's type and back."""
    traits = lib.ggml_get_type_traits(kind).contents
    rows, cols = x.shape
    together = math.lcm(cols, traits.block) // cols
    if rows % together:
        raise SystemExit(f"llama_types: {rows} rows of {cols} do not fill blocks of {traits.block}")
    x = np.ascontiguousarray(x, np.float32)
    weights = np.ascontiguousarray(np.tile(weights, together), np.float32)
    blocks = np.zeros(x.size // traits.block * traits.bytes, np.uint8)
    lib.ggml_quantize_chunk(kind, x.ctypes.data, blocks.ctypes.data, 0, rows // together,
                            cols * together, weights.ctypes.data)
    out = np.empty_like(x)
    traits.to_float(blocks.ctypes.data, out.ctypes.data, x.size)
    return out


def measure(name, kind, lib, teacher, base, weights):
    """Puts the type's values into the F32 file; bits of a weight."""
    lib.ggml_quantize_init(kind)
    file = gguf.GGUFReader(str(base), "r+")
    places = {t.name: t for t in file.tensors}

    def one(t):
        x = gguf.quants.dequantize(t.data, t.tensor_type)
        places[t.name].data[:] = as_type(lib, kind, x, weights[t.name])

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(one, [t for t in teacher.tensors if t.name in weights]))
    file.data.flush()
    traits = lib.ggml_get_type_traits(kind).contents
    return 8 * traits.bytes / traits.block


def main():
    if len(sys.argv) < 4:
        raise SystemExit("usage: llama_types.py MODEL TRAIN TEXT [TYPE...]")
    model, train, text = sys.argv[1:4]
    stem = pathlib.Path(model).stem
    WORK.mkdir(parents=True, exist_ok=True)
    done = set()
    if ROWS.exists():
        with open(ROWS, encoding="utf-8") as f:
            done = {(r["model"], r["type"], r["text"]) for r in csv.DictReader(f)}
    else:
        ROWS.write_text(COLUMNS + "\n")
    base = WORK / f"llama-{stem}.gguf"
    subprocess.run([PROGRAM, "compress", model, "-o", str(base), "--force", "--quiet",
                    "--rule", "*=keep", "--rule", "blk.*=F32"],
                   check=True, stdout=subprocess.DEVNULL)
    lib, teacher, weights = ggml(), gguf.GGUFReader(model), importance(model, train)
    exact = ["--exact"] if os.environ.get("B2_EXACT", "1") == "1" else []
    for name in sys.argv[4:] or TYPES.split():
        if (stem, name, os.path.basename(text)) in done:
            continue
        bits = measure(name, gguf.GGMLQuantizationType[name].value, lib, teacher, base, weights)
        out = subprocess.run([PROGRAM, "eval", "kld", "-m", str(base), "--baseline", model,
                              "--text", text, "--ctx", "512", "--chunks",
                              os.environ.get("B2_CHUNKS", "32"), *exact, "--json"],
                             check=True, capture_output=True, text=True).stdout
        k = json.loads(out)
        with open(ROWS, "a", newline="", encoding="utf-8") as f:
            csv.writer(f, lineterminator="\n").writerow([
                datetime.date.today().isoformat(), stem, name, TOKENS, "%.4f" % bits,
                "%.4f" % k["mean_kld"], "%.4f" % k["kld_stderr"], "%.4f" % k["same_top1"],
                "%.4g" % k["ppl"], "%.4g" % k["ppl_ratio"], k["ctx"], k["chunks"],
                os.path.basename(text), k["text_sha256"][:16], int(k["exact"]),
                importlib.metadata.version("xllamacpp"), k["kernel"], k["version"]])
        print(name, "%.4f bits:" % bits, "KL %.4f," % k["mean_kld"], "ratio %.4g" % k["ppl_ratio"],
              flush=True)
    base.unlink()


main()
