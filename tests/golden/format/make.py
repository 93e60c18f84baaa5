#!/usr/bin/env python3
"""Makes the files of this folder with gguf-py, safetensors and numpy.

Usage: make.py OUT_DIR     needs: pip install numpy gguf==0.19.0 safetensors==0.8.0

Writes model files and, beside each, NAME.dump: what an independent reader sees in it.
    K key type count sha256         of the values as the file stores them
    T name type dims... bytes sha256
The random numbers have fixed seeds, so a second run gives the same bytes.
"""
import hashlib
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
from safetensors import TensorSpec, deserialize, serialize_file

TYPES = {0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool",
         8: "string", 9: "array", 10: "u64", 11: "i64", 12: "f64"}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def dump_keys(reader):
    lines = []
    for name, field in reader.fields.items():
        if name.startswith("GGUF."):
            continue
        kinds = [TYPES[int(t)] for t in field.types]
        parts = [field.parts[i].tobytes() for i in field.data]
        if kinds[-1] == "string":
            parts = [len(p).to_bytes(8, "little") + p for p in parts]
        lines.append(f"K {name} {':'.join(kinds)} {len(parts)} {sha(b''.join(parts))}")
    return lines


def dump_tensors(reader):
    lines = []
    for t in reader.tensors:
        dims = " ".join(str(int(n)) for n in t.shape)
        lines.append(f"T {t.name} {t.tensor_type.name} {dims} {t.n_bytes} "
                     f"{sha(t.data.tobytes())}")
    return lines


def write_dump(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def bf16(x):
    """Rounds to nearest even, as 16-bit integers."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_kinds(path):
    """Every key type, tensors of several types and ranks."""
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(path, "llama")
    w.add_uint8("k.u8", 200)
    w.add_int8("k.i8", -100)
    w.add_uint16("k.u16", 60000)
    w.add_int16("k.i16", -30000)
    w.add_uint32("k.u32", 4000000000)
    w.add_int32("k.i32", -2000000000)
    w.add_float32("k.f32", 0.1)
    w.add_uint64("k.u64", 2**63 + 5)
    w.add_int64("k.i64", -2**62)
    w.add_float64("k.f64", 0.1)
    w.add_bool("k.yes", True)
    w.add_bool("k.no", False)
    w.add_string("k.text", "naïve — 木\n")
    w.add_array("k.ints", [1, -2, 3])
    w.add_array("k.floats", [0.5, -1.5])
    w.add_array("k.bools", [True, False, True])
    w.add_array("k.words", ["a", "", "木木"])
    w.add_tensor("one", rng.standard_normal(7, dtype=np.float32))
    w.add_tensor("four", rng.standard_normal((2, 3, 4, 5), dtype=np.float32))
    w.add_tensor("half", rng.standard_normal((3, 6), dtype=np.float32).astype(np.float16))
    w.add_tensor("bf", bf16(rng.standard_normal((2, 10))).view(np.uint8),
                 raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.add_tensor("ids", np.arange(9, dtype=np.int32))
    for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "TQ1_0", "TQ2_0"):
        kind = getattr(gguf.GGMLQuantizationType, name)
        x = rng.standard_normal((3, 256), dtype=np.float32)
        w.add_tensor("w." + name, gguf.quants.quantize(x, kind), raw_dtype=kind)
    finish(w)


def make_align(path):
    rng = np.random.default_rng(2)
    w = gguf.GGUFWriter(path, "llama")
    w.add_custom_alignment(128)
    w.add_tensor("a", rng.standard_normal(3, dtype=np.float32))
    w.add_tensor("b", rng.standard_normal((2, 40), dtype=np.float32))
    finish(w)


def make_split(path):
    rng = np.random.default_rng(3)
    w = gguf.GGUFWriter(path, "llama", split_max_tensors=2)
    w.add_string("general.name", "split")
    for i in range(5):
        w.add_tensor(f"t{i}", rng.standard_normal((2, 8), dtype=np.float32))
    finish(w)


# ---- safetensors ----

ST_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
            "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}
ST_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
            "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
            "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def st_write(path, items, metadata):
    """items: name to (kind, shape, bytes)."""
    alive = [np.frombuffer(data, dtype=np.uint8) for _, _, data in items.values()]
    serialize_file({name: TensorSpec(dtype=ST_NAMES[kind], shape=list(shape),
                                     data_ptr=a.ctypes.data, data_len=a.nbytes)
                    for (name, (kind, shape, _)), a in zip(items.items(), alive)},
                   path, metadata)


def st_dump(path, metadata):
    """What the library reads, in the order of the bytes."""
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    begin = {k: v["data_offsets"] for k, v in json.loads(raw[8:8 + n]).items()
             if k != "__metadata__"}
    lines = [f"M {key} {value}" for key, value in sorted(metadata.items())]
    for name, e in sorted(deserialize(raw), key=lambda kv: begin[kv[0]]):
        dims = "".join(f"{d} " for d in reversed(e["shape"]))
        lines.append(f"T {name} {e['dtype']} {dims}{len(e['data'])} "
                     f"{sha(bytes(e['data']))}")
    write_dump(path.with_suffix(path.suffix + ".dump"), lines)


def make_st_kinds(path):
    rng = np.random.default_rng(4)
    items = {}
    for i, (kind, width) in enumerate(ST_BYTES.items()):
        shape = (2, 3 + i)
        n = 2 * (3 + i)
        data = (rng.integers(0, 2, n) if kind == "BOOL"
                else rng.integers(0, 256, n * width)).astype(np.uint8)
        items["t." + kind] = (kind, shape, data.tobytes())
    items["scalar"] = ("F32", (), np.float32(1.5).tobytes())
    items["nothing"] = ("F32", (0, 4), b"")
    items["deep"] = ("I16", (2, 1, 3, 2), bytes(24))
    metadata = {"who": "golden — 木"}  # one entry: the library has no order for more
    st_write(path, items, metadata)
    st_dump(path, metadata)


# ---- a tiny Llama folder, and what a converter makes of it ----

D, F, H, K, HEAD, V, LAYERS = 16, 24, 4, 2, 4, 20, 2

LAYER = {
    "input_layernorm": ((D,), "attn_norm"),
    "self_attn.q_proj": ((H * HEAD, D), "attn_q"),
    "self_attn.k_proj": ((K * HEAD, D), "attn_k"),
    "self_attn.v_proj": ((K * HEAD, D), "attn_v"),
    "self_attn.o_proj": ((D, H * HEAD), "attn_output"),
    "post_attention_layernorm": ((D,), "ffn_norm"),
    "mlp.gate_proj": ((F, D), "ffn_gate"),
    "mlp.up_proj": ((F, D), "ffn_up"),
    "mlp.down_proj": ((D, F), "ffn_down"),
}


def names():
    yield "model.embed_tokens.weight", (V, D), "token_embd.weight"
    for i in range(LAYERS):
        for hf, (shape, there) in LAYER.items():
            yield f"model.layers.{i}.{hf}.weight", shape, f"blk.{i}.{there}.weight"
    yield "model.norm.weight", (D,), "output_norm.weight"
    yield "lm_head.weight", (V, D), "output.weight"


def permute(w, n_head):
    """llama.cpp, convert_hf_to_gguf.py, LlamaModel.permute."""
    return (w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:])
            .swapaxes(1, 2).reshape(w.shape))


def rope_factors(theta, dim, rope):
    """llama.cpp, convert_hf_to_gguf.py, LlamaModel.generate_extra_tensors (float32)."""
    f32 = np.float32
    freqs = f32(1) / (f32(theta) ** (np.arange(0, dim, 2, dtype=f32) / f32(dim)))
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    old, factor = rope["original_max_position_embeddings"], rope["factor"]
    out = []
    for freq in freqs:
        wave = f32(2 * np.pi) / freq
        if wave < old / high:
            out.append(1.0)
        elif wave > old / low:
            out.append(factor)
        else:
            smooth = (f32(old) / wave - f32(low)) / f32(high - low)
            out.append(1 / ((1 - smooth) / f32(factor) + smooth))
    return np.array(out, dtype=f32)


def config(**more):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "num_hidden_layers": LAYERS, "hidden_size": D, "intermediate_size": F,
            "num_attention_heads": H, "num_key_value_heads": K, "vocab_size": V,
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu",
            "rope_theta": 500000.0, "torch_dtype": "bfloat16", "bos_token_id": 1,
            "eos_token_id": [2, 3], "attention_bias": False,
            "tie_word_embeddings": False, **more}


ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def make_folder(out):
    rng = np.random.default_rng(5)
    weights = {hf: bf16(rng.standard_normal(shape)) for hf, shape, _ in names()}

    one = out / "llama"
    one.mkdir()
    (one / "config.json").write_text(json.dumps(config(rope_scaling=ROPE), indent=1))
    (one / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 3]}))
    (one / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# Tiny\n")
    st_write(one / "model.safetensors",
             {n: ("BF16", w.shape, w.tobytes()) for n, w in weights.items()},
             {"format": "pt"})

    two = out / "llama-sharded"
    two.mkdir()
    (two / "config.json").write_text(json.dumps(config(rope_scaling=ROPE), indent=1))
    listed = sorted(weights)
    where = {}
    for i in range(2):
        file = f"model-{i + 1:05d}-of-00002.safetensors"
        part = listed[i::2]
        st_write(two / file, {n: ("BF16", weights[n].shape, weights[n].tobytes())
                              for n in part}, {"format": "pt"})
        where.update({n: file for n in part})
    (two / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": where}, indent=1))

    w = gguf.GGUFWriter(out / "llama.gguf", "llama")
    w.add_tensor("rope_freqs.weight", rope_factors(500000.0, HEAD, ROPE))
    for hf, _, there in names():
        x = weights[hf]
        if "q_proj" in hf:
            x = permute(x, H)
        elif "k_proj" in hf:
            x = permute(x, K)
        w.add_tensor(there, np.ascontiguousarray(x).view(np.uint8),
                     raw_dtype=gguf.GGMLQuantizationType.BF16)
    finish(w)


def make_rope(path):
    """Divisors for real models' numbers: theta, head size, and the four settings."""
    rows = [(500000.0, 128, dict(ROPE)),                        # Llama 3.1 8B
            (500000.0, 64, dict(ROPE, factor=32.0)),            # Llama 3.2 1B
            (10000.0, 96, dict(ROPE, factor=4.0, low_freq_factor=2.0,
                               original_max_position_embeddings=2048))]
    with path.open("w", encoding="utf-8") as f:
        for theta, dim, rope in rows:
            values = ", ".join(f"{v:.9g}" for v in rope_factors(theta, dim, rope))
            f.write("{%s, %d, %s, %s, %s, %s, {%s}},\n" % (
                theta, dim, rope["factor"], rope["low_freq_factor"],
                rope["high_freq_factor"], rope["original_max_position_embeddings"],
                values))


def main():
    out = pathlib.Path(sys.argv[1])
    for name in ("llama", "llama-sharded"):
        shutil.rmtree(out / name, ignore_errors=True)
    make_kinds(out / "kinds.gguf")
    make_align(out / "align.gguf")
    make_split(out / "split.gguf")
    make_folder(out)
    make_rope(out / "rope_llama3.inc")
    for name in ("kinds.gguf", "align.gguf", "llama.gguf", "split-00001-of-00003.gguf",
                 "split-00002-of-00003.gguf", "split-00003-of-00003.gguf"):
        reader = gguf.GGUFReader(out / name)
        write_dump(out / (name + ".dump"), dump_keys(reader) + dump_tensors(reader))
    make_st_kinds(out / "kinds.safetensors")


if __name__ == "__main__":
    main()
