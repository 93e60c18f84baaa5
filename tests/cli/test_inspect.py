#!/usr/bin/env python3
"""bonsai2 inspect on good and hostile files: exit code, words, time, memory.

Usage: test_inspect.py PROGRAM GOLDEN_DIR     prints only what fails
A refusal is one line on stderr, exit 1, under 0.1 s of processor time and 32 MB
(USERS.md, section 3). Sanitized builds are too slow and large for the last two.
"""
import json
import math
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile

PROGRAM, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)


def text(b):
    return struct.pack("<Q", len(b)) + b


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def words(*items):
    return struct.pack("<IQ", 8, len(items)) + b"".join(text(i) for i in items)


def ints(items, kind=5, code="i"):
    return struct.pack("<IQ", kind, len(items)) + struct.pack(f"<{len(items)}{code}", *items)


def tensor(name, dims, kind, offset):
    return (text(name) + struct.pack("<I", len(dims)) +
            b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset))


def gguf(tensors, keys, data):
    b = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
    return b + b"\0" * (-len(b) % 32) + data


def limit_memory():
    """In the child: heap and other private memory; the mapped file does not count."""
    resource.setrlimit(resource.RLIMIT_DATA, (32_000_000, 32_000_000))


def run(*args, limited=False):
    """Exit code, stdout, stderr, processor seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen([PROGRAM, "inspect", *map(str, args)], stdout=out, stderr=err,
                             preexec_fn=limit_memory if limited else None)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return (p.returncode, out.read().decode(), err.read().decode(),
                usage.ru_utime + usage.ru_stime)


ARCH = key(b"general.architecture", 8, text(b"llama"))
BLOCK = b"\x00\x3e" + bytes(32)  # 128 weights of type 142: codes 0, scale 1.5


def rotation(**more):
    """The declaration of FORMATS.md, 1.5, with one thing wrong."""
    keys = {
        "version": (4, struct.pack("<I", 1)), "block_size": (4, struct.pack("<I", 128)),
        "transform": (8, text(b"normalized-sylvester-walsh-hadamard")),
        "axis": (8, text(b"input-last-dimension")), "sign_mode": (8, text(b"explicit")),
        "sign_widths": (9, ints([128])), "sign_values": (9, ints([1, -1] * 64)),
        "weight_names": (9, words(b"blk.0.ffn_up.weight")),
        "inverse_weight_names": (9, words()), "gdn_v_grouped": (7, b"\0"), **more}
    return gguf([tensor(b"blk.0.ffn_up.weight", [128, 2], 142, 0)],
                [ARCH] + [key(b"prism.hadamard." + k.encode(), t, v)
                          for k, (t, v) in keys.items()], BLOCK * 2)


def many_keys():
    return gguf([tensor(b"t", [4], 999, 0)],
                [key(b"%06x" % i, 0, b"\1") for i in range(60000)], b"")


REFUSED = {
    "T01 counts": (b"GGUF\3\0\0\0" + struct.pack("<QQ", 1 << 63, 0), ["tensor count"]),
    "T01 2^40": (b"GGUF\3\0\0\0" + struct.pack("<QQ", 1 << 40, 0), ["tensor count"]),
    "T01 empty": (b"", ["empty"]),
    "T02 cut": (gguf([tensor(b"t", [0, 0], 0, 0)], [], b"")[:65], ["tensor t", "65"]),
    "T04 c": (gguf([tensor(b"t", [128, 1], 142, 0)], [], bytes(10)),
              ["tensor t", "needed 34", "present 10"]),
    "T07 999": (gguf([tensor(b"t", [128], 999, 0)], [], bytes(256)),
                ["tensor t", "999", "PTQ1_0"]),
    "T07 sign mode": (rotation(sign_mode=(8, text(b"foo"))), ["sign_mode", "foo"]),
    "T07 version": (rotation(version=(4, struct.pack("<I", 9))), ["version", "9"]),
    "T07 short": (rotation(sign_values=(9, ints([1] * 127))), ["sign_values", "127"]),
    "T07 half": (rotation(sign_values=(9, ints([0.5] * 128, 6, "f"))), ["sign_values"]),
    "LFS": (b"version https://git-lfs.github.com/spec/v1\n", ["Git LFS pointer"]),
    "page": (b"<!DOCTYPE html><html>", ["looks like a web page"]),
    "many keys": (many_keys(), ["999"]),
    "many strings": (gguf([tensor(b"t", [4], 999, 0)],
                          [key(b"s", 9, struct.pack("<IQ", 8, 400000) + bytes(3200000))],
                          b""), ["999"]),
}
HEADERS = {
    "T09 length": (struct.pack("<Q", 1000000) + b"{}", ["1000000"]),
    "T09 deep": (struct.pack("<Q", 3000000) + b"[" * 3000000, ["deeper than 128"]),
    "T09 LFS": (b"version https://git-lfs.github.com/spec/v1\n", ["Git LFS pointer"]),
    "T09 page": (b"<html>  <body>", ["looks like a web page"]),
}


def test_refused(folder, sanitized):
    for suffix, cases in ((".gguf", REFUSED), (".safetensors", HEADERS)):
        for what, (data, want) in cases.items():
            path = folder / (what.replace(" ", "-").replace("^", "") + suffix)
            path.write_bytes(data)
            code, out, err, seconds = run(path, limited=not sanitized)
            check(code == 1 and out == "", f"{what}: exit {code}, stdout {out!r}")
            check(err.count("\n") == 1, f"{what}: not one line: {err!r}")
            for word in want:
                check(word in err, f"{what}: no {word!r} in {err!r}")
            check(sanitized or seconds < 0.1, f"{what}: {seconds:.3f} s")


def test_good(folder):
    code, out, _, _ = run(GOLDEN / "kinds.gguf", "--json")
    j = json.loads(out)
    size = (GOLDEN / "kinds.gguf").stat().st_size
    check(code == 0 and j["arch"] == "llama" and j["file_bytes"] == size, f"kinds: {j}")
    check(j["rotation"] is None and len(j["sha256"]) == 64, "kinds: rotation, sha256")
    dump = [line.split() for line in (GOLDEN / "kinds.gguf.dump").read_text().splitlines()]
    want = [{"name": d[1], "type": d[2], "shape": [int(n) for n in d[3:-2]],
             "bytes": int(d[-2]), "padding": 0} for d in dump if d[0] == "T"]
    check(j["tensors"] == want, "kinds: tensors")
    n = sum(math.prod(t["shape"]) for t in want)
    bits = sum(t["bytes"] for t in want) * 8 / n
    check(j["n_params"] == n and abs(j["bits_per_weight"] - bits) < 1e-9, "kinds: sums")

    for what in ("llama", "llama-sharded", "llama.gguf"):
        code, out, err, _ = run(GOLDEN / what, "--verify", "--json", "--quiet")
        j = json.loads(out)
        check(code == 0 and j["n_params"] == 4562 and j["verify"]["n_faults"] == 0,
              f"{what}: {code} {j['n_params']} {err}")
    code, out, _, _ = run(GOLDEN / "kinds.safetensors")
    check(code == 0 and "F8_E4M3" in out and "safetensors" in out, "safetensors text")
    code, out, _, _ = run(GOLDEN / "split-00002-of-00003.gguf")
    check(code == 0 and "in 5 tensors" in out, "split text")

    path = folder / "none.gguf"
    path.write_bytes(gguf([], [ARCH], b""))
    code, out, _, _ = run(path)
    check(code == 0 and "0 in 0 tensors" in out, "no tensors")
    path.write_bytes(rotation())
    code, out, _, _ = run(path, "--json")
    check(code == 0 and json.loads(out)["rotation"]["block_size"] == 128, "rotation")
    path.write_bytes(gguf([tensor(b"a", [128, 32], 42, 0), tensor(b"b", [64], 0, 1088)], [],
                          bytes(1344)))
    code, out, err, _ = run(path)
    check(code == 0 and "group-128 legacy layout" in out + err and "142" in out, "T06")


def test_verify(folder):
    """T07 d: a 2-bit code that no encoder writes."""
    path = folder / "code3.gguf"
    path.write_bytes(gguf([tensor(b"a.weight", [256, 2], 142, 0)], [ARCH],
                          BLOCK * 3 + BLOCK[:-1] + b"\xc0"))
    code, out, err, _ = run(path)
    check(code == 0, "code 3 is fine without --verify")
    code, out, err, _ = run(path, "--verify", "--quiet")
    check(code == 1 and "tensor a.weight, row 1, block 1" in out, f"verify: {out}")
    code, out, err, _ = run(path, "--verify", "--json", "--quiet")
    faults = json.loads(out)["verify"]["faults"]
    check(code == 1 and faults[0]["row"] == 1 and faults[0]["block"] == 1, f"{faults}")


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sanitized = b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()
    with tempfile.TemporaryDirectory() as name:
        test_refused(pathlib.Path(name), sanitized)
        test_good(pathlib.Path(name))
        test_verify(pathlib.Path(name))
    for f in failures:
        print(f)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
