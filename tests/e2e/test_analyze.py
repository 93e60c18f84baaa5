#!/usr/bin/env python3
"""test_analyze.py BONSAI2 GOLDEN - analyze and prune from outside, on tiny models.

Every statistic against tests/golden/analyze/expected.json, which torch made by brute force;
the same bytes for any number of threads and after a kill; a pruned file against the whole
model with the same columns set to zero (made here, byte by byte, in a copy of the folder).
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

BIN, GOLDEN = sys.argv[1:]
TEXT = os.path.join(GOLDEN, "analyze", "calib.txt")
WANT = json.load(open(os.path.join(GOLDEN, "analyze", "expected.json"), encoding="ascii"))
CALIB = ["--calib", TEXT, "--calib-ctx", str(WANT["seq"]), "--calib-tokens",
         str(WANT["tokens"])]


def run(*args, code=0):
    done = subprocess.run([BIN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if "OpenBLAS" in done.stderr and done.returncode == 1:
        print("skipped: no OpenBLAS")
        sys.exit(77)
    if done.returncode != code:
        sys.exit("%s\nexit %d, wanted %d\n%s" % (" ".join(args), done.returncode, code,
                                                 done.stderr))
    return done.stdout if code == 0 else done.stderr


def check(what, got, want, rel, least=1e-6):
    """Every number of a list within rel of the wanted one; least: what noise may add."""
    for g, w in zip(got, want, strict=True):
        if g is None or abs(g - w) > rel * abs(w) + least:
            sys.exit("%s: %s, wanted %s\n%s\n%s" % (what, g, w, got, want))


def analyze(arch, out, *more):
    run("analyze", os.path.join(GOLDEN, "arch", arch), *CALIB, "--probe-tokens",
        str(WANT["probe"]), "--type", "Q4_0", "--plain", "-o", out, "-q", "-f", *more)
    return json.load(open(out, encoding="utf-8"))


def statistics(tmp):
    """The cache of keys and values is F16 here and F32 there: a few parts in a thousand."""
    for arch, want in WANT["models"].items():
        got = analyze(arch, os.path.join(tmp, "s.json"), "--no-fisher")
        if got["calibration"]["sha256"] != want["ids_sha256"]:
            sys.exit("%s: calibrated on other tokens" % arch)
        check(arch + " kld_all", [got["kld_all"]], [want["kld_all"]], 0.02)
        for l, w in zip(got["layers"], want["layers"], strict=True):
            name = "%s layer %d " % (arch, l["layer"])
            check(name + "influence", [l["block_influence"]], [w["influence"]], 0.005)
            for i in l["inputs"]:
                check(name + i["name"], [i["rms"], i["max"]], w["inputs"][i["name"]], 0.005)
            check(name + "cost", l["neurons"]["cost"], w["cost"], 0.01, 1e-5)
            check(name + "blocks", [l["skip_kld"], l["no_attn_kld"], l["no_ffn_kld"]],
                  [w["skip"], w["no_attn"], w["no_ffn"]], 0.01)
            check(name + "heads", l["heads"]["kld"], w["heads"], 0.01, 1e-5)
            check(name + "prune", l["neurons"]["prune_kld"], w["prune_kld"], 0.02, 1e-5)
            tensors = l["tensors"]
            check(name + "cosine", [t["output_cosine"] for t in tensors], w["cosine"], 1e-5)
            check(name + "damage", [t["damage_kld"] for t in tensors], w["damage"], 0.02, 1e-5)
            check(name + "restore", [t["restore_gain"] for t in tensors], w["restore"], 0.03,
                  3e-5)


def fisher(tmp):
    """Drawn labels against every label: the mean over seeds, within sampling error."""
    arch, seeds = "llama-llama3", 24
    want = WANT["models"][arch]["layers"][0]
    tensors, heads = [0.0] * 7, [0.0] * len(want["heads"])
    for seed in range(seeds):
        got = analyze(arch, os.path.join(tmp, "f.json"), "--fisher-tokens", "32", "--seed",
                      str(seed))["layers"][0]
        for i, t in enumerate(got["tensors"]):
            tensors[i] += t["fisher_mean"] / seeds
        for i, h in enumerate(got["heads"]["fisher"]):
            heads[i] += h / seeds
    check("fisher", tensors, want["fisher"], 0.25)
    check("fisher of heads", heads, want["head_fisher"], 0.5)


def threads_and_kills(tmp):
    out = os.path.join(tmp, "t.json")
    base = ["analyze", os.path.join(GOLDEN, "arch", "qwen2"), *CALIB, "--probe-tokens", "16",
            "--fisher-tokens", "64", "--type", "Q4_0", "-q", "-o", out]
    run(*base, "-t", "1")
    want = open(out, "rb").read()
    for threads in "2", "5":
        run(*base, "-t", threads, "-f")
        if open(out, "rb").read() != want:
            sys.exit("analyze: other bytes with %s threads" % threads)
    for pieces in 1, 3, 5:
        os.remove(out)
        p = subprocess.Popen([BIN, *base], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while p.poll() is None:
            work = out + ".b2work"
            if os.path.isdir(work) and sum(f.endswith(".piece") for f in
                                           os.listdir(work)) >= pieces:
                p.send_signal(signal.SIGKILL)
                break
            time.sleep(0.0005)
        p.wait()
        if not os.path.exists(out):
            run(*base)
        if open(out, "rb").read() != want:
            sys.exit("analyze: other bytes after a kill at piece %d" % pieces)


def masked(folder, to, report, dim):
    """A copy of a BF16 folder whose o and down have zero columns where units are gone."""
    shutil.copytree(folder, to)
    path = os.path.join(to, "model.safetensors")
    data = bytearray(open(path, "rb").read())
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    for layer in report["layers"]:
        for part, key, size in (("mlp.down_proj", "ffn", 1), ("self_attn.o_proj", "heads", dim)):
            t = header["model.layers.%d.%s.weight" % (layer["layer"], part)]
            rows, cols = t["shape"]
            at = 8 + n + t["data_offsets"][0]
            for unit, _ in layer[key]["units"]:
                for r in range(rows):
                    from_ = at + 2 * (r * cols + unit * size)
                    data[from_:from_ + 2 * size] = bytes(2 * size)
    open(path, "wb").write(data)


def prune(tmp):
    for arch, dim in ("llama-llama3", 16), ("qwen3", 32), ("qwen2", 16), ("gemma3", 32):
        folder = os.path.join(GOLDEN, "arch", arch)
        out, copy = os.path.join(tmp, arch + ".gguf"), os.path.join(tmp, arch + "-masked")
        args = ["prune", folder, *CALIB, "--ffn", "0.3", "--kv", "0.5", "--heads", "0.5",
                "--multiple", "8", "-q", "--json", "-o", out]
        report = json.loads(run(*args, "--no-restore"))
        if report["params_after"] >= report["params_before"]:
            sys.exit("%s: nothing went" % arch)
        masked(folder, copy, report, dim)
        kld = json.loads(run("eval", "kld", "-m", out, "--baseline", copy, "--text", TEXT,
                             "--ctx", "64", "--chunks", "4", "--exact", "--json"))
        if not kld["mean_kld"] < 1e-9:
            sys.exit("%s: pruned and masked differ, kld %g" % (arch, kld["mean_kld"]))
        # Least squares never lose more of the outputs that they were solved for.
        restored = json.loads(run(*args, "-f", "--rounds", "1", "--mismatch", "0"))
        for layer in restored["layers"]:
            for part in layer["ffn"], layer["heads"]:
                if not part["removed"] or part["lost_restored"] > part["lost"] + 1e-6:
                    sys.exit("%s: layer %d: %s" % (arch, layer["layer"], part))
        # The folder form loads and says the same.
        hf = os.path.join(tmp, arch + "-hf")
        run(*args[:-1], hf, "--rounds", "1", "--mismatch", "0", "--format", "hf-bf16")
        kld = json.loads(run("eval", "kld", "-m", hf, "--baseline", out, "--text", TEXT, "--ctx",
                             "64", "--chunks", "4", "--exact", "--json"))
        if not kld["mean_kld"] < 1e-9:
            sys.exit("%s: folder and file differ, kld %g" % (arch, kld["mean_kld"]))


def dead_only(tmp):
    """Hidden values that are always zero go without any change of the logits."""
    folder, src = os.path.join(GOLDEN, "arch", "qwen3"), os.path.join(tmp, "dead")
    shutil.copytree(folder, src)
    path = os.path.join(src, "model.safetensors")
    data = bytearray(open(path, "rb").read())
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    for layer in 0, 1:
        t = header["model.layers.%d.mlp.up_proj.weight" % layer]
        for unit in 3, 17, 40, 41, 42, 60, 77, 95:
            at = 8 + n + t["data_offsets"][0] + 2 * unit * t["shape"][1]
            data[at:at + 2 * t["shape"][1]] = bytes(2 * t["shape"][1])
    open(path, "wb").write(data)
    out = os.path.join(tmp, "dead.gguf")
    report = json.loads(run("prune", src, *CALIB, "--ffn", "0.084", "--multiple", "8", "-q",
                            "--json", "-o", out))
    for layer in report["layers"]:
        if sorted(u for u, _ in layer["ffn"]["units"]) != [3, 17, 40, 41, 42, 60, 77, 95]:
            sys.exit("other hidden values than the dead ones went: %s" % layer["ffn"]["units"])
    kld = json.loads(run("eval", "kld", "-m", out, "--baseline", src, "--text", TEXT, "--ctx",
                         "64", "--chunks", "4", "--exact", "--json"))
    if not kld["mean_kld"] < 1e-10:
        sys.exit("dead hidden values mattered: kld %g" % kld["mean_kld"])
    found = analyze("qwen3", os.path.join(tmp, "a.json"), "--quick")
    if found["layers"][0]["neurons"]["dead"] != 0:
        sys.exit("qwen3 has dead hidden values?")
    run("analyze", src, *CALIB, "-o", os.path.join(tmp, "d.json"), "--quick", "-q")
    found = json.load(open(os.path.join(tmp, "d.json"), encoding="utf-8"))
    if [l["neurons"]["dead"] for l in found["layers"]] != [8, 8]:
        sys.exit("dead hidden values: %s" % [l["neurons"]["dead"] for l in found["layers"]])


def rounds_and_rules(tmp):
    """Layers of different sizes, whole layers, the limit, and what is refused."""
    folder, out = os.path.join(GOLDEN, "arch", "qwen2"), os.path.join(tmp, "r.gguf")
    sens = os.path.join(tmp, "q2.json")
    analyze("qwen2", sens, "--no-fisher")
    args = ["prune", folder, "-q", "--multiple", "8", "-o", out, "-f"]
    r = json.loads(run(*args, *CALIB, "--rule", "blk.1.ffn_*=0.3", "--rule", "blk.2=1", "--json"))
    sizes = [l["ffn"]["removed"] if not l["removed"] else None for l in r["layers"]]
    if sizes != [0, 24, None] or not r["uneven"]:
        sys.exit("rules: %s" % sizes)
    run("run", "-m", out, "-p", "a", "-n", "2")
    r = json.loads(run(*args, "--sensitivity", sens, "--ffn", "0.2", "--uneven", "--heads", "0.5",
                       "--json"))
    if sum(l["ffn"]["removed"] for l in r["layers"]) < 48:
        sys.exit("uneven: %s" % r["layers"])
    run("run", "-m", out, "-p", "a", "-n", "2")
    r = json.loads(run(*args, "--sensitivity", sens, "--layers", "1", "--json"))
    skip = [l["skip_kld"] for l in json.load(open(sens, encoding="utf-8"))["layers"]]
    if [l["removed"] for l in r["layers"]] != [s == min(skip) for s in skip]:
        sys.exit("layers: %s of %s" % (r["layers"], skip))
    first = json.loads(run(*args, *CALIB, "--ffn", "0.5", "--json"))["rounds_kld"]
    r = json.loads(run(*args, *CALIB, "--ffn", "0.5", "--max-kld",
                       str((first[0] + first[1]) / 2), "--json"))
    if r["round_taken"] != 1 or abs(r["kld"] - first[0]) > 1e-9:
        sys.exit("the limit: %s" % r["round_taken"])
    want = open(out, "rb").read()
    run(*args, *CALIB, "--ffn", "0.5", "--max-kld", str((first[0] + first[1]) / 2), "-t", "5")
    if open(out, "rb").read() != want:
        sys.exit("prune: other bytes with 5 threads")
    for more, word in ((["--ffn", "0.5"], "--calib"), ([*CALIB], "nothing to take away"),
                       ([*CALIB, "--rule", "blk.9=1"], "matches nothing"),
                       ([*CALIB, "--ffn", "0.1", "--uneven"], "--sensitivity"),
                       ([*CALIB, "--ffn", "0.9", "--max-kld", "1e-9"], "first round")):
        if word not in run(*args, *more, code=1):
            sys.exit("%s: no word of %s" % (more, word))
    for more in ["--rule", "x"], ["--rule", "x=2"], ["--type", "Q9"], ["--max-kld", "1"]:
        run(*args, *more, code=2)


def refused(tmp):
    """Models that cannot be taken apart: said by name, before any work, nothing left."""
    for arch in "qwen35", "phi3":
        folder, out = os.path.join(GOLDEN, "arch", arch), os.path.join(tmp, "no.out")
        for more in ["analyze"], ["analyze", "--quick"], ["prune", "--ffn", "0.2"]:
            said = run(more[0], folder, *CALIB, "-o", out, *more[1:], code=1)
            if "architecture `%s` cannot be" % arch not in said or "gemma3" not in said:
                sys.exit("%s of %s: %s" % (more, arch, said))
            if any(f.startswith("no.out") for f in os.listdir(tmp)):
                sys.exit("%s of %s left something" % (more, arch))


def main():
    with tempfile.TemporaryDirectory() as tmp:
        statistics(tmp)
        fisher(tmp)
        threads_and_kills(tmp)
        prune(tmp)
        dead_only(tmp)
        rounds_and_rules(tmp)
        refused(tmp)


main()
