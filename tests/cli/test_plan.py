"""bonsai2 plan from the outside, and what run does with caches, windows and limits.

usage: test_plan.py PROGRAM STORIES.gguf
"""
import json
import subprocess
import sys

program, stories = sys.argv[1:3]
KEYS = {"weights_bytes", "kv_bytes", "state_bytes", "scratch_bytes", "total_bytes",
        "fits", "advice"}


def call(*words, ok=True, text=None):
    p = subprocess.run([program, *words], capture_output=True, text=True, input=text,
                       timeout=60)
    if (p.returncode == 0) != ok:
        sys.exit(f"{words}: exit code {p.returncode}: {p.stderr}")
    return p


def plan(*words):
    return json.loads(call("plan", stories, "--json", *words).stdout)


def expect(fact, what):
    if not fact:
        sys.exit(what)


# The parts and their sum; 2 (k, v) * 5 layers * 4 heads * 8 values * 100 positions * 2 bytes.
p = plan("--ctx", "100", "--batch", "10")
expect(KEYS <= p.keys(), f"keys are missing: {KEYS - p.keys()}")
expect(p["kv_bytes"] == 64000 and p["state_bytes"] == 0, p)
expect(p["total_bytes"] == sum(p[k] for k in ("weights_bytes", "kv_bytes", "state_bytes",
                                              "scratch_bytes")), p)
expect(p["fits"] is True and p["cache"] == "f16" and p["ctx"] == 100, p)
expect(sum(p["weights_by_type"].values()) + p["copy_bytes"] == p["weights_bytes"], p)
expect("--ctx 100" in p["advice"], p["advice"])
# Heads of 8 values do not fit blocks of 32.
expect(p["max_ctx"] == {"f16": 512, "q8_0": 0, "q4_0": 0}, p["max_ctx"])

# A window: the cache no longer grows with the context.
short, long = plan("--window", "50", "--ctx", "300"), plan("--window", "50", "--ctx", "100000")
expect(short["kv_bytes"] > 0 and plan("--ctx", "300")["kv_bytes"] == 192000, short)
expect(plan("--window", "50", "--ctx", "5000", "--batch", "16")["kv_bytes"]
       == plan("--window", "50", "--ctx", "90000", "--batch", "16")["kv_bytes"], long)

# What does not fit is said, with what would.
tight = plan("--ctx", "512", "--mem-limit", str(p["total_bytes"] - 100000))
expect(tight["fits"] is False, tight)
text = call("plan", stories, "--ctx", "512", "--mem-limit", "1MB").stdout
expect("does not fit" in text and "a smaller model is needed" in text, text)
# Advice is taken at its word: what it says runs under the same limit.
for words in ((), ("--ctx", "512"), ("--batch", "16"), ("--ctx", "4000", "--window", "64"),
              ("--window", "64", "--sinks", "1", "--batch", "7")):
    least = plan("--ctx", "8", "--batch", "1")["total_bytes"]
    for more in (30000, 100000, 200000, 400000, 1000000):
        limit = ("--mem-limit", str(least + more))
        advice = plan(*words, *limit)["advice"]
        if "smaller model" in advice:
            continue
        call("run", "-m", stories, "-p", "Once", "-n", "2", "-q", *limit, *advice.split())
        expect(("--window 64" in advice) == ("--window" in words), advice)
    expect("smaller model" not in advice, advice)
# A smaller batch may be what makes room.
limit = str(plan("--ctx", "512", "--batch", "40")["total_bytes"])
expect("--batch 32" in plan("--ctx", "512", "--mem-limit", limit)["advice"], limit)
call("plan", stories, "--ctx", "513", ok=False)
call("plan", "/nonexistent.gguf", ok=False)
expect("bonsai2 plan model.gguf" in call("plan", "--help").stdout, "help has no example")

# run: refusals name both numbers and the way out.
r = call("run", "-m", stories, "-p", "Once upon a time", "--cache", "q8_0", ok=False)
expect("multiple of 32" in r.stderr and "--cache f16" in r.stderr, r.stderr)
r = call("run", "-m", stories, "-p", "Once upon a time there was", "--ctx", "4", ok=False)
expect("context of 4" in r.stderr and "up to 512" in r.stderr, r.stderr)
r = call("run", "-m", stories, "-p", "Once upon a time " * 300, "-n", "1", ok=False)
expect("context of 512" in r.stderr and "larger" not in r.stderr and "--window" in r.stderr,
       r.stderr)
r = call("run", "-m", stories, "-p", "Once", "--mem-limit", "1MB", ok=False)
expect("over the limit of 1000000" in r.stderr, r.stderr)

# run: a window goes past what the model was trained for, and is told in the JSON.
r = json.loads(call("run", "-m", stories, "-p", "Once upon a time", "-n", "600", "--window",
                    "100", "--ignore-eos", "--json", "-q").stdout)
expect(len(r["tokens"]) == 600 and r["window"] == 100 and r["cache"] == "f16", r["finish_reason"])
