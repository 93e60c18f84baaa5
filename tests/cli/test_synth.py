"""bonsai2 synth from the outside: sizes, shapes, seeds, refusals, interruption.

    test_synth.py BONSAI2

The arithmetic of the sizes is done again here, from the shapes as they are published.
"""
import hashlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def run_json(*args):
    code, out, err = run(*args, "--json", "-q")
    check(" ".join(args), code == 0, err)
    return json.loads(out) if code == 0 else {}


def header(path):
    """Keys and tensors of a GGUF, read without any code of the program."""
    data = path.read_bytes()
    at = 0

    def take(fmt):
        nonlocal at
        v = struct.unpack_from("<" + fmt, data, at)
        at += struct.calcsize("<" + fmt)
        return v[0]

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    scalars = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q",
               11: "q", 12: "d"}

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            elem, n = take("I"), take("Q")
            return [value(elem) for _ in range(n)]
        return take(scalars[kind])

    check("magic and version", data[:8] == b"GGUF\3\0\0\0")
    at = 8
    n_tensors, n_keys = take("Q"), take("Q")
    keys = {}
    for _ in range(n_keys):
        name = text()
        keys[name] = value(take("I"))
    tensors = {}
    for _ in range(n_tensors):
        name = text()
        shape = [take("Q") for _ in range(take("I"))]
        tensors[name] = (shape, take("I"), take("Q"))
    return keys, tensors, len(data)


BPW = {"ptq1_0": 28 * 8 / 128, "pq2_0": 34 * 8 / 128, "tq1_0": 54 * 8 / 256,
       "tq2_0": 66 * 8 / 256, "q4_0": 4.5, "q8_0": 8.5, "q4_K": 4.5}


def test_sizes():
    # Weights and F32 values of the models: width, layers, ffn, q and kv width, heads.
    for name, (d, n, f, q, kv, vocab, tied) in {
            "S": (1024, 28, 3072, 2048, 1024, 151936, True),
            "M": (2560, 36, 9728, 4096, 1024, 151936, True),
            "L": (5120, 74, 17408, 5120, 1024, 248320, False)}.items():
        weights = n * (2 * d * q + 2 * d * kv + 3 * d * f) + (1 if tied else 2) * d * vocab
        floats = n * (2 * d + 2 * 128) + d
        for kind, bpw in BPW.items():
            r = run_json("synth", "--like", name, "--type", kind, "--dry-run")
            check(f"{name} {kind}: bytes of tensors",
                  r["tensor_bytes"] == weights * bpw / 8 + 4 * floats, r)
            check(f"{name} {kind}: the file is its tensors and a vocabulary",
                  0 < r["file_bytes"] - r["tensor_bytes"] < 15e6, r)
            check(f"{name} {kind}: parameters", r["n_params"] == weights + floats, r)
    for kind, real, n_keys in (("ptq1_0", 5946648928, 49), ("pq2_0", 7.21e9, 52)):
        r = run_json("synth", "--like", "bonsai2-27b", "--type", kind, "--dry-run")
        check(f"bonsai2-27b {kind}: within 1 % of the published file",
              abs(r["file_bytes"] / real - 1) < 0.01, r)
        check(f"bonsai2-27b {kind}: tensors and keys",
              r["n_tensors"] == 851 and r["n_keys"] == n_keys and r["vocab"] == 248320, r)
    listed = run_json("synth", "--list")["models"]
    check("--list", [m["like"] for m in listed] == ["S", "M", "L", "bonsai2-27b"], listed)


def test_file(folder):
    path = folder / "s.gguf"
    r = run_json("synth", "--like", "S", "--layers", "2", "-o", str(path), "--seed", "7")
    keys, tensors, size = header(path)
    check("size as said", size == r["file_bytes"], size, r)
    check("tensors as said", len(tensors) == r["n_tensors"] == 2 * 11 + 2)
    check("shapes", tensors["blk.1.ffn_down.weight"][:2] == ([3072, 1024], 143) and
          tensors["blk.0.attn_q_norm.weight"][:2] == ([128], 0) and
          tensors["token_embd.weight"][:2] == ([1024, 151936], 143))
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    check("vocabulary", len(tokens) == len(set(tokens)) == len(types) == 151936)
    check("special tokens stand at the family's ids",
          tokens[151644] == "<|im_start|>" and tokens[151667] == "<think>" and
          keys["tokenizer.ggml.eos_token_id"] == 151645 and types[151645] == 3)
    check("each merge makes the token at its place", all(
        m.replace(" ", "") == tokens[256 + i]
        for i, m in enumerate(keys["tokenizer.ggml.merges"])) and
        len(keys["tokenizer.ggml.merges"]) == 151387)
    code, out, _ = run("inspect", str(path), "--verify")
    check("inspect --verify", code == 0, out)

    def digest(*more):
        other = folder / "other.gguf"
        run("synth", "--like", "S", "--layers", "2", "-o", str(other), "--force", *more)
        return hashlib.sha256(other.read_bytes()).hexdigest()

    first = hashlib.sha256(path.read_bytes()).hexdigest()
    check("same seed, same file", digest("--seed", "7") == first)
    check("another seed, another file", digest("--seed", "8") != first)


def test_types(folder):
    """One seed's ternary and float files are one model, so in F32 arithmetic they give
    the same logits to the last bit; the text goes on and does not repeat itself."""
    first = None
    for kind in ("ptq1_0", "pq2_0", "tq1_0", "tq2_0", "q2_0", "bf16"):
        path = folder / (kind + ".gguf")
        run_json("synth", "--like", "S", "--layers", "2", "--type", kind, "-o", str(path))
        r = run_json("run", "-m", str(path), "-p", "the quick brown fox", "-n", "12",
                     "--exact", "--ignore-eos")
        path.unlink()
        shown = (r.get("tokens"), r.get("first_logits"))
        first = first or shown
        check(kind + ": the same tokens and logits", shown == first, shown, first)
    check("the text goes on", len(set(first[0])) > 8, first)
    check("logits are spread", 5 < first[1][0][1] < 40, first)


def test_refusals(folder):
    out = folder / "x.gguf"
    for words, *args in (
            ("known: S, M, L, bonsai2-27b", "--like", "XL", "-o", str(out)),
            ("S has 28 layers", "--like", "S", "--layers", "29", "-o", str(out)),
            ("unknown type", "--like", "S", "--type", "q9", "-o", str(out)),
            ("is not made", "--like", "S", "--type", "i8", "-o", str(out)),
            ("--like NAME is missing", "-o", str(out)),
            ("-o FILE is missing", "--like", "S")):
        code, _, err = run("synth", *args)
        check(" ".join(args), code in (1, 2) and words in err, code, err)
    out.write_text("precious")
    code, _, err = run("synth", "--like", "S", "--layers", "1", "-o", str(out))
    check("nothing is replaced without --force",
          code == 1 and "--force" in err and out.read_text() == "precious", code, err)
    out.unlink()


def test_interrupted(folder):
    """Ctrl-C leaves nothing, and a killed run nothing that has the file's name."""
    for sig, want in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        out = folder / "part" / "s.gguf"
        out.parent.mkdir(exist_ok=True)
        p = subprocess.Popen([PROGRAM, "synth", "--like", "S", "--layers", "8", "--type", "f32",
                              "-o", str(out), "-q"], stderr=subprocess.PIPE)  # 1.1 GB of disk
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and p.poll() is None and not any(
                f.stat().st_size > 1 << 20 for f in out.parent.iterdir()):
            time.sleep(0.005)
        p.send_signal(sig)
        _, err = p.communicate(timeout=30)
        check(f"signal {sig}: exit code", p.returncode == want, p.returncode, err)
        left = os.listdir(out.parent)
        check(f"signal {sig}: no file of that name", "s.gguf" not in left, left)
        if sig == signal.SIGINT:
            check("Ctrl-C leaves nothing", not left, left)
        for name in left:
            (out.parent / name).unlink()


with tempfile.TemporaryDirectory() as tmp:
    test_sizes()
    test_file(pathlib.Path(tmp))
    test_types(pathlib.Path(tmp))
    test_refusals(pathlib.Path(tmp))
    test_interrupted(pathlib.Path(tmp))
sys.exit(1 if failures else 0)
