"""test_fold.py BONSAI2 TINY_MODEL ARCHS - columns scaled and sorted before rounding.

Rewritten models say the same as the source: to the bit where only powers of two were moved,
up to the order of sums where columns were. The keys alone undo it, value by value (a reader
of its own, gguf_plain.py). What is tried, threads, kills, and what is refused.
"""
import glob, os, subprocess, sys, tempfile, time

from gguf_plain import Gguf
from program import BIN, call, check, data, js, killed, write_words

TINY, ARCHS = sys.argv[2:4]


def keys(g):
    return {k[len("bonsai2.fold."):]: v for k, v in g.value.items() if k.startswith("bonsai2.fold.")}


def undone(g, source, n_layers, d, f):
    """Whether every matrix of g, its columns and rows put back, has the source's values."""
    k = keys(g)
    stream = k.get("stream_order", list(range(d)))
    for layer in range(n_layers):
        part = lambda name, width: k.get(name, [0] * width * n_layers)[layer * width:(layer + 1) * width]
        hidden = k["hidden_order"][layer * f:(layer + 1) * f] if "hidden_order" in k else list(range(f))
        own, powers = list(range(d)), {"attn": part("attn", d), "ffn": part("ffn", d), "down": part("hidden", f)}
        none = [0] * d
        for name, rows, row_power, cols, col_power in (
                ("attn_q", own, none, stream, powers["attn"]), ("attn_v", own, none, stream, powers["attn"]),
                ("attn_output", stream, none, own, none), ("ffn_gate", hidden, [0] * f, stream, powers["ffn"]),
                ("ffn_up", hidden, [-p for p in powers["down"]], stream, powers["ffn"]),
                ("ffn_down", stream, none, hidden, powers["down"])):
            name = f"blk.{layer}.{name}.weight"
            for r in range(0, g.tensor[name][0][1], 7):
                want, got = source.row(name, rows[r]), g.row(name, r)
                back = [got[i] * 2.0 ** -(col_power[c] + row_power[rows[r]]) for i, c in enumerate(cols)]
                if back != [want[c] for c in cols]:
                    return False
        for name, power in (("attn_norm", powers["attn"]), ("ffn_norm", powers["ffn"])):
            want, got = (x.row(f"blk.{layer}.{name}.weight", 0) for x in (source, g))
            if [v * 2.0 ** power[c] for v, c in zip(got, stream)] != [want[c] for c in stream]:
                return False
    return all([source.row("token_embd.weight", t)[c] for c in stream] == g.row("token_embd.weight", t)
               for t in range(0, g.tensor["token_embd.weight"][0][1], 37))


with tempfile.TemporaryDirectory() as tmp:
    path = lambda name: os.path.join(tmp, name)
    src, text, out, other = path("s.gguf"), path("t.txt"), path("o.gguf"), path("p.gguf")
    subprocess.run([TINY, src, "7", "2"], check=True)
    write_words(text, 1200, 997)
    calib = ["--calib", text, "--calib-tokens", "512", "--calib-ctx", "64"]
    keep = ["--rule", "*=keep"]
    beside = lambda: glob.glob(out + ".*")
    logits = lambda a, b: js("eval", "kld", "-m", b, "--baseline", a, "--text", text, "--ctx", "64", "--chunks", "4",
                             "--exact")

    # The same function. Everything kept, so the output is the rewritten model.
    source = Gguf(src)
    for words in (["--fold", "0.5"], ["--sort"], ["--fold", "0.75", "--sort"]):
        rep = js("compress", src, *keep, *words, *calib, "-o", out, "--force")
        g = Gguf(out)
        said = logits(src, out)
        if "--sort" not in words:
            check(said["mean_kld"] == 0.0 and said["ppl_ratio"] == 1.0, f"{words}: not the same bits: {said}")
        check(abs(said["mean_kld"]) < 1e-8, f"{words}: {said['mean_kld']} nat")
        check(undone(g, source, 2, 192, 256), f"{words}: the keys do not lead back")
        k = keys(g)
        check(("attn" in k) == ("--fold" in words) and ("stream_order" in k) == ("--sort" in words), f"{list(k)}")
        if "attn" in k:
            check(len(set(k["attn"])) > 1 or len(set(k["hidden"])) > 2, f"{words}: nothing is scaled")
        if "--sort" in words:
            check(k["hidden_order"][:256] != list(range(256)), "nothing is sorted")
            check(sorted(k["hidden_order"][:256]) == list(range(256)), "no order")
        check(rep["fold"]["exponent"] == k["exponent"] and rep["source"] == src, f"{rep['fold']}")
        check(rep["source_bytes"] == os.path.getsize(src), "the source's bytes")
        check(rep["fold"]["sorted"] == ("hidden, stream" if "--sort" in words else "none"), f"{rep['fold']}")
        check(not beside(), f"left behind: {beside()}")

    # Blocks of codes: the residual stream keeps its order, what changes becomes F32.
    call("compress", src, "--rule", "*=Q8_0", "-o", path("q.gguf"), "--quiet")
    rep = js("compress", path("q.gguf"), *keep, "--fold", "0.5", "--sort", *calib, "-o", out, "--force")
    check(rep["fold"]["sorted"] == "hidden" and "stream_order" not in keys(Gguf(out)), f"{rep['fold']}")
    check(abs(logits(path("q.gguf"), out)["mean_kld"]) < 1e-8, "a source in blocks")
    kinds = {t["name"]: t["type"] for t in js("inspect", out)["tensors"]}
    check(kinds["token_embd.weight"] == "Q8_0" and kinds["blk.0.attn_output.weight"] == "Q8_0", f"{kinds}")
    check(kinds["blk.0.ffn_down.weight"] == "F32", f"{kinds}")
    for kind in ("F16", "BF16"):
        call("export", src, "--format", "gguf-" + kind.lower(), "-o", path("h.gguf"), "--force", "--quiet")
        call("compress", path("h.gguf"), *keep, "--fold", "0.5", *calib, "-o", out, "--force", "--quiet")
        check(logits(path("h.gguf"), out)["mean_kld"] == 0.0, f"{kind}: not the same bits")
        kinds = {t["name"]: t["type"] for t in js("inspect", out)["tensors"]}
        check(kinds["blk.0.attn_q.weight"] == ("F32" if kind == "F16" else "BF16"), f"{kinds}")
        call("compress", path("h.gguf"), *keep, "--sort", *calib, "-o", out, "--force", "--quiet")
        kinds = {t["name"]: t["type"] for t in js("inspect", out)["tensors"]}
        check(kinds["blk.0.attn_q.weight"] == kind, f"sorted: {kinds}")

    # Every architecture with such columns.
    for arch in ("bitnet", "gemma3", "llama-llama3", "mistral", "qwen2", "qwen3"):
        folder = os.path.join(ARCHS, arch)
        small = ["--calib", text, "--calib-ctx", "16", "--calib-tokens", "256"]
        call("compress", folder, *keep, "--fold", "0.5", "--sort", *small, "-o", out, "--force", "--quiet")
        said = js("eval", "kld", "-m", out, "--baseline", folder, "--text", text, "--ctx", "16", "--chunks", "4",
                  "--exact")
        check(abs(said["mean_kld"]) < 1e-7, f"{arch}: {said['mean_kld']} nat")

    # Tried by divergence.
    os.remove(out)
    base = ["compress", src, "--rule", "*=B2_T64", "--rule", "token_embd*=keep", *calib, "--refine", "0"]
    rep = js(*base, "--fold", "auto", "--sort", "-o", out)
    tried = rep["fold"]["tried"]
    check([t["exponent"] for t in tried] == [0, 0.25, 0.5, 0.75], f"{tried}")
    best = min(tried, key=lambda t: t["kld"])
    check(rep["fold"]["exponent"] == best["exponent"], f"{rep['fold']}")
    check(abs(keys(Gguf(out))["exponent"] - best["exponent"]) < 1e-7, "keys")
    check(not beside(), f"left behind: {beside()}")
    round_kld = [s["kld"] for s in rep["stages"] if s["name"] == "round"][0]
    check(abs(round_kld - best["kld"]) < 1e-12, "the trial had as many tokens and another divergence")
    raw = data(out)
    check(b"s.gguf" in raw and b"folded" not in raw, "keys name the file in between")
    table = call(*base, "--fold", "auto", "--sort", "-o", other).stdout
    check("columns scaled by rms^" in table and "  taken" in table, table)
    check(data(other) == raw, "another run")
    call(*base, "--fold", str(best["exponent"]), "--sort", "-o", other, "--force", "--threads", "3", "--quiet")
    check(data(other) == raw, "other bytes with the exponent given and 3 threads")
    for seconds in (0.2, 0.6, 1.2):
        os.remove(out)
        killed([*base, "--fold", "auto", "--sort", "-o", out, "--quiet"], out, seconds)
        check(data(out) == raw, f"other bytes after a kill at {seconds} s")
        check(not beside(), f"left behind after a kill: {beside()}")

    # With a budget, and with layers that may go.
    sizes = ["compress", src, *calib, "--refine", "0", "--budget", "150000"]
    plan = js(*sizes, "--fold", "auto", "-o", out, "--force", "--dry-run")
    rep = js(*sizes, "--fold", "auto", "-o", out, "--force")
    check(rep["output_bytes"] == plan["output_bytes"] == os.path.getsize(out) <= 150000, "bytes of a budget")
    check(rep["fold"] == plan["fold"], "dry run")
    least = int(call("compress", src, *calib, "--budget", "2000", "--dry-run", code=1)
                .stderr.split("types give has ")[1].split()[0])
    rep = js("compress", src, *calib, "--refine", "0", "--budget", str(least * 4 // 5), "--remove", "1", "--fold", "0.5",
             "-o", out, "--force")
    check(rep["source"] == src and b"folded" not in data(out), "keys name the file in between")
    check(rep["removal"]["layers"] == 1 and rep["fold"]["exponent"] == 0.5, f"{rep['removal']}")
    check(not beside(), f"left behind: {beside()}")

    # Files in between are no one else's, and a model without its key is made again.
    call("prune", src, "--ffn", "0.5", "--cap", "0.9", "--multiple", "64", *calib, "-o", path("pr.gguf"), "--quiet")
    for name in ("own", "own.folded.gguf", "own.fold-0.gguf"):
        with open(path(name), "wb") as f:
            f.write(b"precious")
    p = call(*base, "--fold", "auto", "-o", path("own"), code=1)
    check("--force" in p.stderr, p.stderr)
    os.remove(path("own"))
    for name in ("own.folded.gguf", "own.fold-0.gguf"):
        p = call(*base, "--fold", "auto", "-o", path("own"), code=1)
        check(name in p.stderr and "--force" in p.stderr, p.stderr)
        check(data(path(name)) == b"precious", f"{name} is gone")
        os.remove(path(name))
    os.replace(src, path("m.folded.gguf"))
    p = call("compress", path("m.folded.gguf"), *keep, "--fold", "0.5", *calib, "-o", path("m"), code=1)
    check("source itself" in p.stderr and os.path.exists(path("m.folded.gguf")), p.stderr)
    os.replace(path("m.folded.gguf"), src)
    call("compress", src, *keep, "--fold", "0.25", *calib, "-o", path("d"), "--dry-run", "--quiet")
    between = data(path("d.folded.gguf"))
    call("compress", src, *keep, "--fold", "0.75", *calib, "-o", path("d"), "--dry-run", "--quiet")
    os.remove(path("d.folded.key"))
    table = call("compress", src, *keep, "--fold", "0.25", *calib, "-o", path("d"), "--dry-run").stdout
    check("stays beside" in table and data(path("d.folded.gguf")) == between, "a model of another exponent was taken")
    for wrong in (["--rule", "nothing*=B2_T64"], ["--rule", "*=PTQ1_0"], ["--budget", "20000"]):
        call("compress", src, "--fold", "0.5", *wrong, *calib, "-o", path("w"), code=1)
        check(not glob.glob(path("w.*")), f"{wrong}: left {glob.glob(path('w.*'))}")
    p = subprocess.Popen([BIN, *base, "--fold", "auto", "--refine", "20", "-o", path("k"), "--quiet"])
    while not os.path.exists(path("k.fold-0.gguf.b2work")) and p.poll() is None:
        time.sleep(0.002)
    p.kill()
    p.wait()
    call(*base, "--fold", "0.5", "-o", path("k"), "--force", "--quiet")
    check(not glob.glob(path("k.*")), f"left {glob.glob(path('k.*'))}")

    # Training knows other columns when it sees them.
    learn = ["--calib", text, "--ctx", "32", "--batch", "2", "--steps", "4", "--eval-every", "2", "--held-tokens", "128",
             "--gemm", "f32"]
    call(*base, "--sort", "-o", path("sorted.gguf"), "--quiet")
    p = call("distill", "--teacher", src, "--student", path("sorted.gguf"), *learn, "-o", path("x.gguf"), ok=False)
    check("bonsai2.fold" in p.stderr, p.stderr)
    rep = js("compress", src, "--effort", "best", "--rule", "*=B2_T64", "--rule", "token_embd*=keep", "--fold", "0.5",
             "--sort", *calib[2:], *learn, "-o", path("best.gguf"))
    check(rep["distillation"]["kld"] <= rep["distillation"]["kld_before"] and "hidden_order" in keys(Gguf(path("best.gguf"))),
          f"{rep['distillation']}")

    # What cannot be.
    p = call("compress", path("sorted.gguf"), *keep, "--fold", "0.5", *calib, "-o", path("x.gguf"), ok=False)
    check("before" in p.stderr, p.stderr)
    p = call("compress", path("pr.gguf"), "--effort", "best", "--teacher", src, *keep, "--sort", *calib, "-o", path("x.gguf"),
             code=2)
    check("--teacher" in p.stderr, p.stderr)
    for wrong in (["--fold", "2"], ["--fold", "x"], ["--fold", "-1"], ["--fold", "nan"]):
        p = call(*base, *wrong, "-o", out, code=2)
        check("0 to 1" in p.stderr, p.stderr)
    check("--calib" in call("compress", src, "--fold", "0.5", "-o", out, code=2).stderr, "without texts")
    check("-o FILE" in call(*base, "--sort", "--dry-run", code=2).stderr, "without an output")
    p = call("compress", os.path.join(ARCHS, "phi3"), *keep, "--sort", *calib, "-o", path("x.gguf"), ok=False)
    check("phi3" in p.stderr and not os.path.exists(path("x.gguf")), p.stderr)
    check("--force" in call(*base, "--sort", "-o", out, ok=False).stderr, "over an output")
    p = call(*base, "--sort", "-o", path("x.gguf"), "--mem-limit", "100MB", ok=False)
    check("limit" in p.stderr, p.stderr)
print("ok")
