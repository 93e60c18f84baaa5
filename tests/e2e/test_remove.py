"""test_remove.py BONSAI2 TINY_MODEL - layers as a choice of the budget, from the outside.

Budgets below the smallest types take layers away; where types suffice nothing changes; the
same bytes come from any number of threads and after kills; what is tried on the way goes.
"""
import glob, os, subprocess, sys, tempfile

from program import call, check, data, js, killed, write_words

TINY = sys.argv[2]

with tempfile.TemporaryDirectory() as tmp:
    src, text, out, other = (os.path.join(tmp, n) for n in ("s.gguf", "t.txt", "o.gguf", "p.gguf"))
    subprocess.run([TINY, src, "7", "4"], check=True)
    write_words(text, 1200, 997)
    base = ["compress", src, "--calib", text, "--calib-tokens", "512", "--calib-ctx", "64",
            "--refine", "0", "--mismatch", "0"]
    beside = lambda: glob.glob(out + ".*")

    # Below the smallest types: refused, with a way out; which is taken.
    p = call(*base, "--budget", "2000", "--dry-run", code=1)
    least = int(p.stderr.split("types give has ")[1].split()[0])
    check("--remove" in p.stderr, "the refusal names no way out")
    budget = ["--budget", str(least * 3 // 4)]
    plan = js(*base, *budget, "--remove", "3", "-o", out, "--dry-run")
    check(not os.path.exists(out) and beside(), "a dry run writes no output, and keeps its models")
    rep = js(*base, *budget, "--remove", "3", "-o", out)
    removal = rep["removal"]
    check(removal == plan["removal"] and rep["output_bytes"] == plan["output_bytes"], "dry run")
    check(1 <= removal["layers"] <= 3, f"{removal}")
    check(removal["tried"][0]["nat_by_types"] is None, f"{removal}")
    check(os.path.getsize(out) == rep["output_bytes"] <= least * 3 // 4, "bytes")
    check(rep["output_bytes"] >= 0.97 * (least * 3 // 4), "bytes left over")
    check(rep["source"] == src, f"source {rep['source']}")
    check(rep["source_bytes"] == os.path.getsize(src), "the source's bytes")
    check(not beside(), f"left behind: {beside()}")
    look = js("inspect", out)
    layers = {t["name"].split(".")[1] for t in look["tensors"] if t["name"].startswith("blk.")}
    check(len(layers) == 4 - removal["layers"], f"{len(layers)} layers")
    check(js("run", "-m", out, "-p", "ab", "-n", "3")["tokens"], "run")
    raw = data(out)
    check(b"s.gguf" in raw and b"removed-" not in raw and b"bonsai2.prune" in raw, "keys")
    table = call(*base, *budget, "--remove", "3", "-o", other).stdout
    check("layers less" in table and "no types are small enough" in table and " taken" in table,
          f"table: {table}")

    # The same bytes with other threads, and after kills.
    call(*base, *budget, "--remove", "3", "-o", other, "--force", "--threads", "3", "--quiet")
    check(data(other) == raw, "other bytes with 3 threads")
    for seconds in (0.3, 1.2):
        os.remove(out)
        killed([*base, *budget, "--remove", "3", "-o", out, "--quiet"], out, seconds)
        check(data(out) == raw, f"other bytes after a kill at {seconds} s")
        check(not beside(), f"left behind after a kill: {beside()}")

    # Where types do with less, no layer goes, and the file is the same as without it.
    roomy = ["--budget", str(least * 3)]
    call(*base, *roomy, "-o", other, "--force", "--quiet")
    rep = js(*base, *roomy, "--remove", "2", "-o", out, "--force")
    check(rep["removal"]["layers"] == 0 and len(rep["removal"]["tried"]) == 2, f"{rep['removal']}")
    check(data(out) == data(other), "another file although no layer went")

    p = call(*base, "--budget", "50000", "--remove", "2", "-o", out, "--force", code=1)
    check("2 layers less" in p.stderr and "--remove" in p.stderr, "too small in any case")
    for wrong in (["--budget", "2bpw", "--remove", "2", "-o", out],
                  ["--rule", "*=ternary", "--remove", "2", "-o", out],
                  ["--budget", "1MB", "--remove", "2", "--dry-run"]):
        call(*base, *wrong, code=2)
    call("compress", src, "--budget", "1MB", "--remove", "2", "-o", out, code=2)
print("ok")
