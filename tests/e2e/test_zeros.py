"""test_zeros.py BONSAI2 TINY_MODEL - groups of zeros that a file leaves out.

What is left out comes back: the file and its copy with every group in it say the same, to
the bit. Bytes are as the keys promise (a reader of its own, gguf_plain.py), budgets hold,
dry runs are right, threads and kills change nothing, and marks that lie are refused.
"""
import os, random, re, struct, subprocess, sys, tempfile

from gguf_plain import Gguf
from program import call, check, data, js, killed, write_words

TINY = sys.argv[2]
GROUP, BYTES = 64, 14  # B2_T64
NAMES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def marks_at(raw):
    """Where the marks lie in a file, and how many."""
    at = raw.index(b"bonsai2.zeros.marks") + len(b"bonsai2.zeros.marks") + 8
    return at + 8, struct.unpack_from("<Q", raw, at)[0]


def check_file(path, share, shapes):
    g, raw = Gguf(path), data(path)
    key = lambda k: g.value["bonsai2.zeros." + k]
    check(sorted(key("names")) == sorted(n for n in shapes if int(share * (shapes[n][0] // GROUP))), f"{key('names')}")
    at, n_marks = marks_at(raw)
    for name, width in zip(key("names"), key("widths")):
        blocks, rows = width // GROUP, shapes[name][1]
        stored = blocks - int(share * blocks)
        check(width == shapes[name][0] and g.tensor[name][0] == (stored * GROUP, rows), f"{name}: {g.tensor[name]}")
        for r in range(rows):
            bits = int.from_bytes(raw[at:at + (blocks + 7) // 8], "little")
            check(bin(bits).count("1") == stored and bits < 1 << blocks, f"{name}, row {r}: marks {bits:b}")
            at += (blocks + 7) // 8
    check(at == marks_at(raw)[0] + n_marks, "marks of nothing")


with tempfile.TemporaryDirectory() as tmp:
    path = lambda name: os.path.join(tmp, name)
    src, text, out, other = path("s.gguf"), path("t.txt"), path("o.gguf"), path("p.gguf")
    subprocess.run([TINY, src, "7", "3"], check=True)
    write_words(text, 1200, 997)
    base = ["compress", src, "--calib", text, "--calib-tokens", "512", "--calib-ctx", "64"]
    t64 = ["--rule", "*=B2_T64", "--rule", "token_embd*=keep"]
    shapes = {f"blk.{i}.{n}.weight": {"ffn_down": (256, 192)}.get(n, (192, {"attn_k": 64, "attn_v": 64, "ffn_gate": 256,
                                                                           "ffn_up": 256}.get(n, 192)))
              for i in range(3) for n in NAMES}
    kld = lambda model: js("eval", "kld", "-m", model, "--baseline", src, "--text", text, "--ctx", "64", "--chunks", "6",
                           "--exact")

    call(*base, *t64, "-o", path("whole.gguf"), "--quiet")
    for share in (0.26, 0.34, 0.7):
        plan = js(*base, *t64, "--zero-groups", str(share), "--dry-run")
        rep = js(*base, *t64, "--zero-groups", str(share), "-o", out, "--force")
        check(rep["output_bytes"] == plan["output_bytes"] == os.path.getsize(out), "dry run")
        check_file(out, share, shapes)
        left = sum(t["groups_left_out"] for t in rep["tensors"])
        check(left == sum(int(share * (w // GROUP)) * r for w, r in shapes.values()), f"{left} groups")
        check(all(t["underflow_groups"] == 0 for t in rep["tensors"]), "told of as an accident")
        # Whole again: the same answers, and every value as it was.
        call("export", out, "--format", "gguf", "-o", other, "--force", "--quiet")
        check(b"bonsai2.zeros" not in data(other), "an export still leaves out")
        a, b = kld(out), kld(other)
        check(a["mean_kld"] == b["mean_kld"] and a["ppl"] == b["ppl"], f"{a} {b}")
        x, y = (js("run", "-m", m, "-p", "ab", "-n", "4") for m in (out, other))
        check(x["logits_sha256"] == y["logits_sha256"], "other logits")
        look = js("inspect", out, "--verify")
        check(sum(t.get("groups_left_out", 0) for t in look["tensors"]) == left, "inspect counts others")
        check(f"{left} groups of zeros" in call("inspect", out).stdout, "inspect does not tell")
        shape = {t["name"]: t["shape"] for t in look["tensors"]}
        check(tuple(shape["blk.0.ffn_down.weight"]) == (256, 192), f"{shape}")
    check(kld(path("whole.gguf"))["mean_kld"] < a["mean_kld"], "7 of 10 groups cost nothing")

    # Not rotated, the zeros can be seen; what is left makes up for them.
    call(*base, *t64, "--rotate", "none", "--zero-groups", "0.34", "-o", out, "--force", "--quiet")
    call("export", out, "--format", "gguf-f32", "-o", path("f.gguf"), "--force", "--quiet")
    whole = Gguf(path("f.gguf"))
    for name, (width, rows) in shapes.items():
        for r in range(0, rows, 13):
            row = whole.row(name, r)
            empty = sum(not any(row[i:i + GROUP]) for i in range(0, width, GROUP))
            check(empty >= int(0.34 * (width // GROUP)), f"{name}, row {r}: {empty} empty groups")

    # Threads, kills, wide inputs in parts, budgets.
    args = [*base, *t64, "--zero-groups", "0.34", "--quiet"]
    call(*args, "-o", out, "--force", "--threads", "1")
    raw = data(out)
    call(*args, "-o", other, "--force", "--threads", "3")
    check(data(other) == raw, "other bytes with 3 threads")
    for seconds in (0.05, 0.15, 0.3):
        os.remove(out)
        killed([*args, "-o", out], out, seconds)
        check(data(out) == raw, f"other bytes after a kill at {seconds} s")
    call(*base, *t64, "--zero-groups", "0.5", "--metric-width", "128", "-o", other, "--force", "--quiet")
    check_file(other, 0.5, shapes)
    for budget in ("390000", "420000"):
        words = [*base, "--rule", "token_embd*=keep", "--budget", budget, "--zero-groups", "0.34", "--refine", "0"]
        plan = js(*words, "--dry-run", "--types", "ternary,B2_Q2,Q8_0")
        rep = js(*words, "-o", other, "--force", "--types", "ternary,B2_Q2,Q8_0")
        check(rep["output_bytes"] == plan["output_bytes"] == os.path.getsize(other), "dry run of a budget")
        check(0.97 * int(budget) <= rep["output_bytes"] <= int(budget), f"{rep['output_bytes']} of {budget}")

    words = [*base, "--rule", "token_embd*=keep", "--types", "Q2_0,B2_T64", "--zero-groups", "0.7", "--refine", "0"]
    least = int(call(*words, "--budget", "2000", "--dry-run", code=1).stderr.split("types give has ")[1].split()[0])
    rep = js(*words, "--budget", str(least), "-o", other, "--force")
    check(rep["output_bytes"] == least, "the smallest file is not what it is said to be")
    p = call(*base, "--rule", "*=Q4_0", "--rule", "token_embd*=keep", "--zero-groups", "0.5", "-o", other, "--force")
    check("nothing is left out" in p.stderr, p.stderr)

    # Memory: that of whole matrices, once; and what inspect says of the file.
    call("export", out, "--format", "gguf", "-o", other, "--force", "--quiet")
    a, b = (js("plan", m, "--ctx", "64") for m in (out, other))
    check(a["total_bytes"] == b["total_bytes"], f"{a['total_bytes']} {b['total_bytes']}")
    look = js("inspect", out)
    check(sum(t["bytes"] for t in look["tensors"]) <= os.path.getsize(out), "more bytes than the file has")
    student = ["--teacher", src, "--student", out, "--calib", text, "--ctx", "32", "--batch", "2", "--steps", "2",
               "--eval-every", "1", "--held-tokens", "128", "--gemm", "f32"]
    p = call("distill", *student, "-o", other, "--force")
    check("has them all" in p.stderr and b"bonsai2.zeros" not in data(other), p.stderr)

    # Compressing and pruning such a file: it is whole.
    call("compress", out, "--rule", "*=keep", "-o", other, "--force", "--quiet")
    check(kld(other)["ppl"] == kld(out)["ppl"] and b"bonsai2.zeros" not in data(other), "kept")

    # Lies.
    def refused(change, word):
        lie = bytearray(raw)
        change(lie)
        with open(other, "wb") as f:
            f.write(lie)
        p = call("run", "-m", other, "-p", "ab", "-n", "1", ok=False)
        check(re.search(word, p.stderr), f"{word}: {p.stderr}")

    at, n_marks = marks_at(raw)
    width_at = raw.index(b"bonsai2.zeros.widths") + len(b"bonsai2.zeros.widths") + 16

    def put(where, value):
        return lambda lie: lie.__setitem__(slice(where, where + len(value)), value)

    refused(put(at, b"\x07"), "marks")
    refused(put(at, b"\x01"), "marks")
    refused(put(at, b"\x83"), "marks")
    refused(put(at + n_marks - 1, b"\x0f"), "marks")
    refused(put(width_at, struct.pack("<I", 128)), "widths")
    refused(put(width_at, struct.pack("<I", 200)), "widths")
    refused(put(width_at, struct.pack("<I", 256)), "marks|shape|expected")
    refused(put(width_at, struct.pack("<I", 1 << 30)), "marks|widths")
    refused(put(raw.index(b"bonsai2.zeros.marks") + 14, b"marky"), "not known here")
    name_at = raw.index(b"blk.0.attn_q", raw.index(b"bonsai2.zeros.names"))
    refused(put(name_at, b"blk.9"), "no such tensor")
    rng = random.Random(5)
    begin = raw.index(b"bonsai2.zeros.names")
    for _ in range(150):
        lie = bytearray(raw)
        for _ in range(rng.randint(1, 3)):
            lie[rng.randrange(begin, at + n_marks)] = rng.randrange(256)
        with open(other, "wb") as f:
            f.write(lie)
        p = subprocess.run([sys.argv[1], "inspect", other, "--verify"], capture_output=True)
        check(p.returncode in (0, 1), f"inspect of a damaged file: {p.returncode} {p.stderr[-300:]}")

    # What cannot be.
    check("--effort normal" in call("compress", src, *t64, "--zero-groups", "0.2", "-o", other, code=2).stderr, "fast")
    call(*base, *t64, "--zero-groups", "1", "-o", other, code=2)
    p = call(*base, *t64, "--zero-groups", "0.2", "--effort", "best", "-o", other, code=2)
    check("--effort normal" in p.stderr, p.stderr)
print("ok")
