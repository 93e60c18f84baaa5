#!/usr/bin/env python3
"""bonsai2 eval from the outside: keys, self-divergence, same bits, refusals, exit codes.

    test_eval.py PROGRAM STORIES.gguf     prints only what fails
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, MODEL = sys.argv[1:3]
PPL_KEYS = {"ppl", "nll", "n_tokens", "ctx", "stride", "text_sha256"}
KLD_KEYS = {"mean_kld", "median_kld", "p99_kld", "same_top1", "ppl", "ppl_baseline",
            "ppl_ratio", "n_tokens"}
CONDITIONS = {"fingerprint", "threads", "kernel", "exact", "convention", "seed"}
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args, **env):
    return subprocess.run([PROGRAM, "eval", *args], capture_output=True, text=True,
                          env={**os.environ, **env}, check=False)


def result(*args, **env):
    done = run(*args, "--json", "--quiet", **env)
    check("exit 0 of " + " ".join(args), done.returncode == 0, done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def refused(what, code, words, *args):
    done = run(*args)
    check(what + ": exit %d" % code, done.returncode == code, done.returncode)
    check(what + ": says " + words, words in done.stderr, done.stderr)
    check(what + ": stdout is empty", done.stdout == "", done.stdout)


with tempfile.TemporaryDirectory() as folder:
    story = os.path.join(folder, "story.txt")
    with open(story, "w", encoding="utf-8") as f:
        f.write("Once upon a time, there was a little girl named Lily. She loved to play "
                "outside in the park. One day, she saw a big, red ball. " * 40)
    short = os.path.join(folder, "short.txt")
    with open(short, "w", encoding="utf-8") as f:
        f.write("Once upon")
    text = ("--text", story, "--ctx", "64", "--chunks", "6")

    ppl = result("ppl", "-m", MODEL, *text)
    check("keys of ppl", PPL_KEYS | CONDITIONS <= ppl.keys(), ppl.keys())
    check("tokens scored", ppl.get("n_tokens") == 6 * 31, ppl)
    check("a story of the kind it was trained on", 1 < ppl.get("ppl", 0) < 20, ppl)
    for what, args, env in [
            ("one thread", ("--threads", "1"), {}),
            ("scalar kernels", (), {"B2_CPU": "scalar"})]:
        other = result("ppl", "-m", MODEL, *text, *args, **env)
        check("the same bits: " + what, other.get("nll") == ppl.get("nll"), other, ppl)

    kld = result("kld", "-m", MODEL, "--baseline", MODEL, *text)
    check("keys of kld", KLD_KEYS | CONDITIONS <= kld.keys(), kld.keys())
    check("no divergence from itself", kld.get("mean_kld") == 0 and
          kld.get("same_top1") == 1 and kld.get("ppl_ratio") == 1, kld)
    check("the same perplexity in both", kld.get("ppl") == ppl.get("ppl"), kld, ppl)
    q8 = os.path.join(folder, "q8.gguf")
    subprocess.run([PROGRAM, "export", MODEL, "--format", "gguf-q8_0", "--lossy",
                    "--only", "blk.*.attn_[qkvo]*.weight", "-o", q8, "--quiet"],
                   check=True, stdout=subprocess.DEVNULL)
    exact = result("kld", "-m", q8, "--baseline", q8, "--baseline-exact", *text)
    check("8-bit activations cost little, but something",
          0 < exact.get("mean_kld", 0) < 1e-2, exact)
    both = result("kld", "-m", q8, "--baseline", q8, "--exact", *text)
    check("--exact is for both", both.get("mean_kld") == 0 and both["exact_baseline"],
          both)
    rolling = result("ppl", "-m", MODEL, *text, "--convention", "rolling")
    check("rolling scores every token", rolling.get("n_tokens") == 6 * 64, rolling)

    done = run("kld", "-m", MODEL, "--baseline", MODEL, *text)
    check("readable output", done.returncode == 0 and "divergence" in done.stdout,
          done.stdout)
    check("progress on stderr", "100%" in done.stderr, done.stderr)

    refused("short text", 1, "tokens, one window needs", "ppl", "-m", MODEL, "--text",
            short, "--ctx", "64")
    refused("no text", 1, "no such file", "ppl", "-m", MODEL, "--text", short + "x")
    refused("no measure", 2, "ppl|kld", "-m", MODEL)
    refused("unknown measure", 2, "'bleu'", "bleu", "-m", MODEL, "--text", story)
    refused("no model", 2, "-m FILE", "ppl", "--text", story)
    refused("no baseline", 2, "--baseline", "kld", "-m", MODEL, "--text", story)
    refused("ppl with a baseline", 2, "needs kld", "ppl", "-m", MODEL, "--text", story,
            "--baseline", MODEL)
    refused("memory limit", 1, "limit is", "ppl", "-m", MODEL, *text, "--mem-limit",
            "100KB")

    # Enough windows to be in the middle of it when the signal comes.
    with open(story, "a", encoding="utf-8") as f:
        f.write("The end of the story was not near. " * 20000)
    with subprocess.Popen([PROGRAM, "eval", "ppl", "-m", MODEL, "--text", story, "--ctx",
                           "512", "--exact"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as p:
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        code = p.wait(timeout=20)
    check("interrupted: 130", code in (130, -signal.SIGINT), code)

sys.exit(1 if failures else 0)
