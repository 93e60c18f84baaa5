"""The plan against the memory that a run really takes, and what a smaller cache costs, on the
real model. Skipped without it.

usage: test_memory_real.py PROGRAM
"""
import json
import os
import subprocess
import sys

from real_model import find_model

program, model = sys.argv[1], find_model()
here = os.path.dirname(os.path.abspath(__file__))
data = os.environ.get("B2_DATA") or os.path.join(here, "../../../shared/data")
text = os.path.join(data, "wikitext-2/wiki.test.raw")
PAST_PLAN = 1.03  # the promise; the program itself comes on top (program_bytes)
BOUND = 1e-3      # nat that keys and values in 8 bits may cost


def call(*words):
    p = subprocess.run([program, *words, "--json"], capture_output=True, text=True,
                       timeout=200)
    if p.returncode:
        sys.exit(f"{words}: exit code {p.returncode}: {p.stderr}")
    return json.loads(p.stdout), p.stderr


prompt = "The quick brown fox jumps over the lazy dog. " * 45


def compare(*settings, limit=None):
    words = list(settings) + (["--mem-limit", str(limit)] if limit else [])
    plan, _ = call("plan", model, *words)
    run, notes = call("run", "-m", model, "-p", prompt, "-n", "1", *words)
    rss, total, program_bytes = run["peak_rss_bytes"], plan["total_bytes"], plan["program_bytes"]
    if run["ctx"] - run["prompt_tokens"] > 100:
        sys.exit(f"{run['prompt_tokens']} tokens do not fill the context")
    if not total / PAST_PLAN <= rss <= total * PAST_PLAN + program_bytes:
        sys.exit(f"{words}: planned {total} and {program_bytes} of the program, took {rss}")
    if plan["cache"] != run["cache"]:
        sys.exit(f"{words}: planned {plan['cache']}, ran {run['cache']}")
    return plan, run, notes


f16, _, notes = compare("--ctx", "512", "--batch", "64", "--cache", "f16")
q8, _, _ = compare("--ctx", "512", "--batch", "64", "--cache", "q8_0")
if "Q8_0" in notes or q8["kv_bytes"] != f16["kv_bytes"] * 17 // 32:
    sys.exit("8.5 of 16 bits were expected")

# A limit between the two: 8 bits are taken, a line says so, and the limit holds.
limit = (f16["total_bytes"] + q8["total_bytes"]) // 2
plan, run, notes = compare("--ctx", "512", "--batch", "64", limit=limit)
if run["cache"] != "q8_0" or "Q8_0" not in notes:
    sys.exit(f"8 bits were expected, with a note: {run['cache']}: {notes}")

if not os.path.exists(text):
    print("the plan holds; the rest is skipped: no wikitext-2/wiki.test.raw in B2_DATA or "
          "../shared/data")
    sys.exit(77)
cost = {}
for cache in ("q8_0", "q4_0"):
    k, _ = call("eval", "kld", "-m", model, "--baseline", model, "--text", text, "--ctx",
                "256", "--chunks", "2", "--exact", "--cache", cache, "--quiet")
    cost[cache] = k["mean_kld"]
if not 0 < cost["q8_0"] < BOUND or not cost["q4_0"] > cost["q8_0"]:
    sys.exit(f"cost in nat: {cost}, at most {BOUND} is allowed for q8_0")
