"""A folder of every architecture, through our GGUF and back into a folder: the tensors
have the bytes that transformers stored, and config.json says the same.

    test_folder_arch.py BONSAI2 GOLDEN_DIR

That transformers loads our folders and computes the stored logits to the last bit was
seen with transformers 5.24 when this was written; here it is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2]) / "arch"
# What says nothing of the arithmetic, or is what its absence means. transformers 5
# joins the rotary settings, version 4 has them apart; both read ours.
SILENT = {"transformers_version", "max_window_layers", "initializer_range", "use_cache",
          "attention_dropout", "pretraining_tp", "_sliding_window_pattern", "layer_types",
          "use_bidirectional_attention", "use_sliding_window", "mlp_bias", "dtype",
          "torch_dtype", "rope_parameters", "rope_theta", "rope_scaling", "head_dim",
          "rope_local_base_freq", "attention_bias", "original_max_position_embeddings",
          "resid_pdrop", "embd_pdrop", "attn_output_gate", "mamba_ssm_dtype", "partial_rotary_factor"}
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def export(source, fmt, out):
    done = subprocess.run([PROGRAM, "export", source, "--format", fmt, "-o", out, "-q"],
                          capture_output=True, text=True, check=False, timeout=60)
    check("export of %s as %s" % (source.name, fmt), done.returncode == 0, done.stderr)


def tensors(folder):
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return {name: (t["dtype"], t["shape"],
                   data[start + t["data_offsets"][0]:start + t["data_offsets"][1]])
            for name, t in json.loads(data[8:start]).items() if name != "__metadata__"}


def rope(config):
    """Rotary settings in one form: {kind of layer: {theta, and the scaling}}."""
    group = config.get("rope_parameters") or config.get("rope_scaling") or {}
    parts = group if "full_attention" in group else {"full_attention": group}
    out = {}
    for kind, p in parts.items():
        if "type" in p:
            p = {**p, "rope_type": p["type"]}
            del p["type"]
        p = {k: float(v) if isinstance(v, (int, float)) else v for k, v in p.items()
             if v is not None}
        p.setdefault("rope_theta", float(config.get("rope_theta", 0)))
        p.setdefault("rope_type", "default")
        p.setdefault("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
        if p["rope_type"] == "longrope":
            p.setdefault("original_max_position_embeddings",
                         float(config["original_max_position_embeddings"]))
        if p["rope_type"] == "dynamic":  # nothing, up to the context
            p = {**p, "rope_type": "default"}
            p.pop("factor")
        check("YaRN's ramp", p.pop("truncate", True) is True, p)
        for neutral, v in (("beta_fast", 32), ("beta_slow", 1)):
            if p.get(neutral) == v:
                del p[neutral]
        out[kind] = p
    if "rope_local_base_freq" in config:
        out["sliding_attention"] = {"rope_type": "default", "partial_rotary_factor": 1.0,
                                    "rope_theta": float(config["rope_local_base_freq"])}
    return out


def layer_types(config):
    return config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]


with tempfile.TemporaryDirectory() as tmp:
    for folder in sorted(p for p in GOLDEN.iterdir() if (p / "config.json").exists()):
        if folder.name == "qwen35-vl":
            continue  # the folder that is written has the text model alone
        gguf, ours = pathlib.Path(tmp) / (folder.name + ".gguf"), pathlib.Path(tmp) / folder.name
        export(folder, "gguf", gguf)
        export(gguf, "hf-bf16", ours)
        a, b = tensors(folder), tensors(ours)
        check(folder.name + ": the same tensors", a.keys() == b.keys(), set(a) ^ set(b))
        for name in a:
            check(folder.name + ": " + name, a[name] == b.get(name))
        ca, cb = (json.loads((f / "config.json").read_text()) for f in (folder, ours))
        for key in (ca.keys() | cb.keys()) - SILENT:
            check("%s: config.json, %s" % (folder.name, key), ca.get(key) == cb.get(key),
                  ca.get(key), cb.get(key))
        check(folder.name + ": rotary settings", rope(ca) == rope(cb), rope(ca), rope(cb))
        if "layer_types" in cb:
            check(folder.name + ": layers", layer_types(ca) == layer_types(cb))
        gguf.unlink()
sys.exit(1 if failures else 0)
