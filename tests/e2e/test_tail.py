"""test_tail.py BONSAI2 MODEL - padded rows (--tail pad) from the outside.

A file with padded rows must be the same model as its F32 export, whose rows have none:
with --exact both give the same logits to the bit, at every kernel level and batch shape,
rotated or not. Stock readers (gguf-py, when it is there) see the stored shape. MODEL
"real": SmolLM2 from the cache, skipped (77) without it.
"""
import os, sys, tempfile

from program import call, check, js

MODEL = sys.argv[2]

if MODEL == "real":
    cache = os.environ.get("B2_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "bonsai2")
    MODEL = os.path.join(cache, "SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.exists(MODEL):
        print("skipped: the model is not in the cache: run tools/fetch_model.sh")
        sys.exit(77)
real = "SmolLM2" in MODEL
prompt = ["-p", "Once upon a time", "-n", "6", "--temp", "0"]

with tempfile.TemporaryDirectory() as tmp:
    pad, f32, same, q = (os.path.join(tmp, n) for n in ("p.gguf", "f.gguf", "s.gguf", "q.gguf"))
    source = js("inspect", MODEL)
    for rotate in ("none",) if real else ("none", "auto"):
        rep = js("compress", MODEL, "--rule", "*=PTQ1_0", "--tail", "pad", "--rotate", rotate,
                 "-o", pad, "--force")
        look = js("inspect", pad)
        check(look["n_params"] == source["n_params"], "padding is counted as parameters")
        check(look["file_bytes"] == rep["output_bytes"], "bytes of the report")
        check(abs(look["bits_per_weight"] - rep["bits_per_weight"]) < 1e-9, "bits per weight")
        tensors = {t["name"]: t for t in look["tensors"]}
        wide = [t for t in look["tensors"] if t["padding"]]
        check(len(wide) == look["padded_tensors"] == rep["padded_tensors"] > 0, "padded tensors")
        width = {t["name"]: t["shape"][0] for t in source["tensors"]}
        for t in wide:
            stored = -(-width[t["name"]] // 128) * 128
            check(t["type"] == "PTQ1_0" and t["shape"][0] == stored, f"shape of {t['name']}")
            check(t["padding"] == stored - width[t["name"]], f"padding of {t['name']}")
        if real and rotate == "none":
            check(tensors["blk.0.attn_q.weight"]["shape"] == [640, 576], "576 is stored as 640")
            print(f"SmolLM2, all matrices PTQ1_0, padded: {look['file_bytes']} bytes, "
                  f"{look['bits_per_weight']:.4f} bits per weight")
        call("export", pad, "--format", "gguf-f32", "-o", f32, "--force", "--quiet")
        call("export", pad, "--format", "gguf", "-o", same, "--force", "--quiet")
        check(js("inspect", f32)["padded_tensors"] == 0, "the F32 export has padding")
        want = js("run", "-m", f32, "--exact", *prompt)
        for args, env in (([], {}), ([], {"B2_CPU": "scalar"}), (["--batch", "1"], {}),
                          (["--threads", "1"], {})):
            got = js("run", "-m", pad, "--exact", *prompt, *args, **env)
            check(got["tokens"] == want["tokens"] and
                  got["logits_sha256"] == want["logits_sha256"],
                  f"logits differ from the F32 export (rotate {rotate}, {args}, {env})")
        fast = js("run", "-m", pad, *prompt)["logits_sha256"]
        for args, env in ((["--batch", "1"], {}), ([], {"B2_CPU": "scalar"})):
            check(js("run", "-m", pad, *prompt, *args, **env)["logits_sha256"] == fast,
                  f"8-bit logits differ (rotate {rotate}, {args}, {env})")
        check(js("run", "-m", same, *prompt)["logits_sha256"] == fast, "export --format gguf")

    call("compress", pad, "--rule", "*=keep", "-o", q, "--force", "--quiet")
    check(js("run", "-m", q, *prompt)["logits_sha256"] == fast, "a kept padded file")
    p = call("compress", MODEL, "--rule", "*=PTQ1_0", "-o", q, "--force", ok=False)
    check("--tail pad" in p.stderr and "remainder" in p.stderr, "the refusal names no way out")
    if real:  # below what unpadded types can do
        rep = js("compress", MODEL, "--budget", "36MB", "--tail", "pad", "--dry-run")
        check(rep["padded_tensors"] > 0 and rep["output_bytes"] <= 36000000, "a budget with padding")
        p = call("compress", MODEL, "--budget", "36MB", "--dry-run", ok=False)
        check("too small" in p.stderr, "36 MB without padding")
    folder = os.path.join(tmp, "hf")
    if not real:  # its folder would lie on the disk in F32 once more
        call("compress", MODEL, "--rule", "*=PTQ1_0", "--tail", "pad", "-o", pad, "--force",
             "--quiet")
        call("export", pad, "--format", "hf-f32", "-o", folder, "--quiet")
        got = js("run", "-m", folder, "--exact", *prompt)
        want = js("run", "-m", pad, "--exact", *prompt)
        check(got["logits_sha256"] == want["logits_sha256"], "the folder's logits")
        text = os.path.join(tmp, "text")
        with open(text, "w") as f:
            f.write("Once upon a time there was a little girl who had a red ball. " * 60)
        k = js("eval", "kld", "-m", pad, "--baseline", f32, "--text", text, "--ctx", "128",
               "--chunks", "2", "--exact")
        check(k["mean_kld"] > 0, "eval kld")  # f32 is the rotated one
    try:
        from gguf import GGUFReader
        g = {t.name: t for t in GGUFReader(pad).tensors}
        check(all(g[t["name"]].shape[0] == t["shape"][0] for t in wide), "gguf-py's shapes")
    except (ImportError, ValueError):  # not there, or older than type 143
        pass
print("ok")
