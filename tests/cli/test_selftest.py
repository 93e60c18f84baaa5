#!/usr/bin/env python3
"""bonsai2 selftest and bench from the outside: keys, exit codes, refusals.

    test_selftest.py PROGRAM BROKEN STORIES.gguf     prints only what fails

BROKEN is `bonsai2 selftest` on a kernel table with one planted mistake.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM, BROKEN, MODEL = sys.argv[1:4]
BENCH_KEYS = {"load_cold_ms", "load_warm_ms", "rows", "peak_rss_bytes", "kernel",
              "dram_gbps", "dram_share", "dram", "recommended_threads", "processor", "model",
              "fingerprint", "runs", "batch", "cache", "window", "filled", "seed"}
ROW_KEYS = {"test", "threads", "n", "median_tps", "min_tps", "max_tps", "gbps", "dram_share"}
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args, **env):
    return subprocess.run(args, capture_output=True, text=True,
                          env={**os.environ, **env}, check=False)


# Every level passes; a forced level is the highest that is checked.
done = run(PROGRAM, "selftest", "--json")
check("selftest passes", done.returncode == 0, done.stdout, done.stderr)
report = json.loads(done.stdout)
check("selftest is ok", report["ok"] is True, report)
levels = [row["level"] for row in report["levels"]]
check("scalar first", levels[:1] == ["scalar"], levels)
check("checks ran", all("same_kernels_as" in row or row["checks"] > 20
                        for row in report["levels"]), report)
done = run(PROGRAM, "selftest", "--json", B2_CPU="scalar")
check("B2_CPU limits", [r["level"] for r in json.loads(done.stdout)["levels"]] == ["scalar"],
      done.stdout)
done = run(PROGRAM, "selftest")
check("table", done.returncode == 0 and "checks passed" in done.stdout, done.stdout)
check("unknown option", run(PROGRAM, "selftest", "--jsn").returncode == 2)

# One model: what applies passes, what does not is named; damage is found.
done = run(PROGRAM, "selftest", "-m", MODEL, "--json")
check("-m passes", done.returncode == 0, done.stdout, done.stderr)
report = json.loads(done.stdout)
states = {c["name"]: c["state"] for c in report["checks"]}
check("-m: checks", states == {"golden blocks": "ok", "requantise": "skipped", "logits": "ok",
                               "published values": "skipped"}, report)
with tempfile.TemporaryDirectory() as tmp:
    ternary = os.path.join(tmp, "t.gguf")
    run(PROGRAM, "compress", MODEL, "--rule", "*=keep", "--rule", "blk.*.attn_q.weight=Q2_0",
        "-o", ternary, "-q")
    done = run(PROGRAM, "selftest", "-m", ternary, "-q")
    check("-m: ternary rows keep their bytes", done.returncode == 0 and
          "20 rows of 5 ternary tensors" in done.stdout, done.stdout, done.stderr)
    table = json.loads(run(PROGRAM, "inspect", ternary, "--json").stdout)["tensors"]
    with open(ternary, "rb") as f:
        data = bytearray(f.read())
    last = max(i for i, t in enumerate(table) if t["type"] == "Q2_0")
    behind = sum(-(-t["bytes"] // 32) * 32 for t in table[last + 1:])
    at = len(data) - behind - -(-table[last]["bytes"] // 32) * 32 + 2
    data[at:at + 16] = bytes(16 * [0xff])  # code 3, which no encoder writes
    with open(ternary, "wb") as f:
        f.write(data)
    done = run(PROGRAM, "selftest", "-m", ternary, "-q")
    check("-m: damage is found", done.returncode == 1 and "FAILED   requantise" in
          done.stdout and table[last]["name"] in done.stdout, done.stdout, done.stderr)
check("-m: no such file", run(PROGRAM, "selftest", "-m", "absent").returncode == 1)

# A broken kernel is named, and the exit code says so.
if len(levels) > 1:
    done = run(BROKEN)
    check("broken: exit 1", done.returncode == 1, done.returncode)
    check("broken: named in the table", "FAILED: fdot" in done.stdout, done.stdout)
    check("broken: named on stderr", "kernel fdot at level" in done.stderr, done.stderr)
    done = run(BROKEN, "--json")
    report = json.loads(done.stdout)
    check("broken: exit 1 with JSON", done.returncode == 1, done.returncode)
    check("broken: ok is false", report["ok"] is False, report)
    bad = [row for row in report["levels"] if row.get("failed")]
    check("broken: kernel in JSON", bad and bad[0]["kernel"].startswith("fdot"), report)
    check("broken: scalar is fine", report["levels"][0]["failed"] == 0, report)

with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "copy.gguf")
    shutil.copy(MODEL, copy)
    args = (PROGRAM, "bench", "-m", copy, "-p", "8,32", "-n", "8", "-d", "0,16",
            "-t", "1,2", "-r", "3", "--json", "--quiet")
    done = run(*args)
    check("bench: exit 0", done.returncode == 0, done.stderr)
    b = json.loads(done.stdout)
    check("bench: keys", BENCH_KEYS == b.keys(), BENCH_KEYS ^ b.keys())
    tests = [(r["test"], r["threads"]) for r in b["rows"]]
    check("bench: rows", tests == [(t, n) for n in (1, 2)
                                   for t in ("pp8", "pp32", "tg8", "tg8@16")], tests)
    for r in b["rows"]:
        check("bench: row keys", ROW_KEYS == r.keys(), ROW_KEYS ^ r.keys())
        check("bench: order", 0 < r["min_tps"] <= r["median_tps"] <= r["max_tps"], r)
        check("bench: GB/s", r["gbps"] > 0 and r["dram_share"] > 0, r)
    check("bench: numbers", b["load_warm_ms"] > 0 and b["dram_gbps"] > 0.1
          and b["peak_rss_bytes"] > os.path.getsize(copy) / 2, b)
    # A quarter of a gigabyte is read to measure the memory; it is no part of the model's peak.
    check("bench: peak without the buffer", b["peak_rss_bytes"] < 200e6, b)
    check("bench: cold is slower or not measured",
          b["load_cold_ms"] is None or b["load_cold_ms"] > 0, b)
    check("bench: settings", (b["runs"], b["seed"], b["cache"], b["window"], b["filled"],
                              b["model"]) == (3, 0, "f16", 0, False, copy), b)
    check("bench: memory for each number of threads", [d["threads"] for d in b["dram"]]
          == [1, 2] and b["dram_gbps"] == max(d["gbps"] for d in b["dram"]), b)
    check("bench: recommended", b["recommended_threads"] in (1, 2), b)

    # Sequences that generate together: a row for each number of them, at each depth.
    done = run(PROGRAM, "bench", "-m", copy, "-p", "0", "-n", "8", "-d", "0,16", "--fill",
               "--parallel", "1,2,5", "-t", "2", "-r", "1", "--no-cold", "--json", "--quiet")
    check("parallel: exit 0", done.returncode == 0, done.stderr)
    b = json.loads(done.stdout)
    check("parallel: rows", [(r["test"], r["n"], r["threads"]) for r in b["rows"]] ==
          [(t, 8, 2) for d in ("", "@16") for t in ("tg8" + d, "tg8x2" + d, "tg8x5" + d)], b)
    check("parallel: numbers", all(r["median_tps"] > 0 and r["gbps"] > 0 for r in b["rows"])
          and b["load_cold_ms"] is None and b["filled"] is True, b)
    done = run(PROGRAM, "bench", "-m", copy, "-p", "8", "-n", "0", "-t", "1",
               "--no-cold", "--json", "--quiet")
    b = json.loads(done.stdout)
    check("prompts alone: nothing to recommend", b["recommended_threads"] is None and
          b["dram_share"] is None and [r["test"] for r in b["rows"]] == ["pp8"], b)
    done = run(PROGRAM, "bench", "-m", copy, "-p", "8", "-n", "0", "-t", "1",
               "--no-cold", "--quiet")
    check("bench: table", done.returncode == 0 and "pp8" in done.stdout
          and "tg" not in done.stdout, done.stdout, done.stderr)

    # Every ternary type with each number of threads, and one of them recommended.
    done = run(PROGRAM, "bench", "-m", copy, "--compare-packings", "-t", "1,2", "-r", "1",
               "--json", "--quiet")
    check("packings: exit 0", done.returncode == 0, done.stderr)
    p = json.loads(done.stdout)
    types = {"TQ1_0", "TQ2_0", "Q2_0", "PQ2_0", "PTQ1_0"}
    check("packings: rows", {(r["type"], r["threads"]) for r in p["packings"]}
          >= {(t, n) for t in types for n in (1, 2)}, p)
    for r in p["packings"]:
        check("packings: numbers", 1.5 < r["bits_per_weight"] < 10 and r["bytes"] > 0
              and r["decode_tps"] > 0 and r["prompt_tps"] > 0 and r["gbps"] > 0, r)
    check("packings: one is recommended", p["recommended_threads"] in (1, 2)
          and p["recommended_packing"] in {r["type"] for r in p["packings"]}, p)
    done = run(PROGRAM, "bench", "-m", copy, "--compare-packings", "-t", "1", "-r", "1")
    check("packings: table", done.returncode == 0 and "fastest here: " in done.stdout
          and "PTQ1_0" in done.stdout, done.stdout, done.stderr)
    # Read ahead, the answer is the same.
    texts = [run(PROGRAM, "run", "-m", copy, "-p", "Once", "-n", "8", "-q", *more).stdout
             for more in ((), ("--warm",))]
    check("warm: the same text", texts[0] and texts[0] == texts[1], texts)
    done = run(PROGRAM, "bench", "-m", copy, "-p", "8", "-n", "0", "-t", "1", "--warm",
               "--quiet")
    check("warm: bench", done.returncode == 0 and "pp8" in done.stdout, done.stderr)

for words, *extra in (("-m FILE is missing",), ("is no list", "-m", MODEL, "-p", "8,x"),
                      ("is no list", "-m", MODEL, "-t", "0"),
                      ("is no list", "-m", MODEL, "-d", "1,,2"),
                      ("is no list", "-m", MODEL, "--parallel", "0"),
                      ("is no list", "-m", MODEL, "--parallel", "257")):
    done = run(PROGRAM, "bench", *extra)
    check("bench refuses %s" % extra, done.returncode == 2 and words in done.stderr,
          done.returncode, done.stderr)
done = run(PROGRAM, "bench", "-m", "/nowhere.gguf")
check("bench: no file", done.returncode == 1 and "no such file" in done.stderr, done.stderr)

sys.exit(1 if failures else 0)
