"""I2_S (GGUF type 36) in the packing of the published BitNet files.

    test_i2_s.py BONSAI2

The files are made here, by a packer and a container writer that share no code with the
program: one with I2_S matrices, one with the same values in F32. Both must give the same
text, exports of the first must hold the values of the second, and damage must be found.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
D, F, LAYERS, HEADS, KV = 256, 384, 2, 4, 2
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args):
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, check=False,
                          timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def pack(codes, scale):
    """Runs of 128 weights in 32 bytes, the first of a byte on top; then the scale."""
    out = bytearray()
    for at in range(0, len(codes), 128):
        c = codes[at:at + 128]
        for m in range(32):
            out.append((c[m] + 1) << 6 | (c[32 + m] + 1) << 4 | (c[64 + m] + 1) << 2 |
                       (c[96 + m] + 1))
    return bytes(out) + struct.pack("<f", scale) + bytes(28)


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def key(name, kind, fmt, v):
    return text(name) + struct.pack("<I" + fmt, kind, v)


def keys(arch):
    """Keys of a tiny model whose tokens are the 256 bytes of GPT-2's alphabet."""
    printable = [b for b in range(256) if 33 <= b < 127 or 161 <= b and b != 173]
    tokens = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    strings = b"".join(text(t) for t in tokens)
    out = [text("general.architecture") + struct.pack("<I", 8) + text(arch)]
    for name, v in (("block_count", LAYERS), ("context_length", 128),
                    ("embedding_length", D), ("feed_forward_length", F),
                    ("attention.head_count", HEADS), ("attention.head_count_kv", KV)):
        out.append(key(arch + "." + name, 4, "I", v))
    out.append(key(arch + ".attention.layer_norm_rms_epsilon", 6, "f", 1e-5))
    for name, v in (("model", "gpt2"), ("pre", "gpt-2")):
        out.append(text("tokenizer.ggml." + name) + struct.pack("<I", 8) + text(v))
    out.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 256) + strings)
    out.append(text("tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 0))
    return out


def model(arch, scale_bits):
    """{name: (ne, codes and scale, or floats)}; scale_bits: of a scale's significand."""
    rng = random.Random(5)
    kv = D // HEADS * KV
    tensors = {}

    def floats(name, n, rows=1, dev=0.1, mid=0.0):
        tensors[name] = ([n, rows] if rows > 1 else [n],
                         [rng.gauss(mid, dev) for _ in range(n * rows)])

    def ternary(name, n, rows):
        codes = [rng.randrange(3) - 1 for _ in range(n * rows)]
        scale = 1.5 / n ** 0.5 * rng.uniform(0.8, 1.2)
        unit = 2.0 ** -(scale_bits + 3)
        tensors[name] = ([n, rows], codes, struct.unpack(
            "<f", struct.pack("<f", round(scale / unit) * unit))[0])

    floats("token_embd.weight", D, 256, 1.0)
    for i in range(LAYERS):
        b = "blk.%d." % i
        for name, n, rows in (("attn_q", D, D), ("attn_k", D, kv), ("attn_v", D, kv),
                              ("attn_output", D, D), ("ffn_gate", D, F),
                              ("ffn_up", D, F), ("ffn_down", F, D)):
            ternary(b + name + ".weight", n, rows)
        for name, n in (("attn_norm", D), ("ffn_norm", D)) + (
                (("attn_sub_norm", D), ("ffn_sub_norm", F)) if "bitnet" in arch else ()):
            floats(b + name + ".weight", n, mid=1.0)
    floats("output_norm.weight", D, mid=1.0)
    return tensors


def write(path, arch, tensors, plain):
    head, data = b"", b""
    for name, (ne, values, *scale) in tensors.items():
        if scale and not plain:
            kind, raw = 36, pack(values, scale[0])
        else:
            raw = struct.pack("<%df" % len(values),
                              *([v * scale[0] for v in values] if scale else values))
            kind = 0
        head += text(name) + struct.pack("<I%dQIQ" % len(ne), len(ne), *ne, kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    k = keys(arch)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(k)) + b"".join(k) + head
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return len(head) + -len(head) % 32


def first(path, *more):
    code, out, err = run("run", "-m", path, "-p", "some text", "-n", 8, "--ignore-eos",
                         "--json", "-q", *more)
    check("run " + path.name, code == 0, err)
    r = json.loads(out) if code == 0 else {"tokens": [], "first_logits": []}
    return r["tokens"], r["first_logits"]


def test_runs(folder, arch):
    tensors = model(arch, 20)
    packed, plain = folder / "i2_s.gguf", folder / "f32.gguf"
    write(packed, arch, tensors, False)
    write(plain, arch, tensors, True)
    got, want = first(packed, "--exact"), first(plain, "--exact")
    check(arch + ": the text of the values in F32", got[0] == want[0] and want[0], got, want)
    for (_, a), (_, b) in zip(got[1], want[1]):
        check(arch + ": logits", abs(a - b) < 1e-4 * abs(b) + 1e-4, got[1], want[1])
    for (_, a), (_, b) in zip(first(packed)[1], want[1]):
        check(arch + ": logits with 8-bit activations", abs(a - b) < 2, a, b)
    again = first(packed, "--repack", "fast")
    check(arch + ": repacked, the same bits", again == first(packed), again)
    code, out, _ = run("inspect", packed, "--verify")
    check(arch + ": inspect --verify", code == 0 and "I2_S" in out, out)
    out = folder / "out.gguf"
    run("export", packed, "--format", "gguf-f32", "-o", out, "--force")
    check(arch + ": export to F32 holds the values",
          out.read_bytes()[-plain.stat().st_size // 2:] ==
          plain.read_bytes()[-plain.stat().st_size // 2:])


def test_exports(folder):
    """A scale that a half holds goes over into every ternary type without loss."""
    arch = "bitnet-b1.58"
    packed, plain, out = (folder / n for n in ("i2_s.gguf", "f32.gguf", "out.gguf"))
    tensors = model(arch, 8)
    write(packed, arch, tensors, False)
    write(plain, arch, tensors, True)
    back = folder / "back.gguf"
    code, _, err = run("export", plain, "--format", "gguf-f32", "-o", back, "--force")
    check("export of F32", code == 0, err)
    want = back.read_bytes()
    for kind in ("gguf", "gguf-q2_0", "gguf-pq2_0", "gguf-ptq1_0"):
        code, text_out, err = run("export", packed, "--format", kind, "-o", out, "--force",
                                  "--only", "blk.*")
        check(kind + ": no value changed", code == 0 and "no value changed" in text_out,
              text_out, err)
        code, _, err = run("export", out, "--format", "gguf-f32", "-o", back, "--force")
        check(kind + ": back", code == 0, err)
        start = len(want) // 2  # behind the keys, of which one tells the type
        check(kind + ": the same values", back.read_bytes()[-start:] == want[-start:])
    write(packed, arch, model(arch, 20), False)
    code, _, err = run("export", packed, "--format", "gguf-pq2_0", "-o", out, "--force",
                       "--only", "blk.*")
    check("a finer scale is refused", code == 1 and "--lossy" in err, err)
    code, _, err = run("compress", packed, "--rule", "*=keep", "-o", out, "--force")
    check("compress cannot keep it", code == 1 and "I2_S" in err, err)
    code, _, err = run("compress", packed, "--rule", "*=keep", "--rule", "blk.*=ternary",
                       "-o", out, "--force", "-q")
    check("compress takes it as a source", code == 0, err)


def test_damage(folder):
    arch = "llama"
    path = folder / "bad.gguf"
    tensors = model(arch, 20)
    name, entry = next((n, t) for n, t in tensors.items() if len(t) == 3)
    last = {**tensors, "output_norm.weight": tensors["output_norm.weight"]}
    last[name] = last.pop(name)  # to the end of the file
    write(path, arch, last, False)
    good = path.read_bytes()
    path.write_bytes(good[:-31])
    code, _, err = run("inspect", path)
    check("a cut scale", code == 1 and "cut" in err and name in err, err)
    path.write_bytes(good[:-32] + struct.pack("<f", float("nan")) + good[-28:])
    code, _, err = run("inspect", path)
    check("a scale that is no number", code == 1 and "not a number" in err, err)
    path.write_bytes(good[:-33] + b"\xff" + good[-32:])
    code, out, err = run("inspect", path, "--verify")
    check("code 3", code == 1 and "code 3" in out + err, out, err)
    assert entry


with tempfile.TemporaryDirectory() as tmp:
    for architecture in ("llama", "bitnet-b1.58"):
        test_runs(pathlib.Path(tmp), architecture)
    test_exports(pathlib.Path(tmp))
    test_damage(pathlib.Path(tmp))
sys.exit(1 if failures else 0)
