"""bonsai2 run on the real model: golden tokens, memory, Ctrl-C.

    test_real.py BONSAI2

A small model would be done before the signal comes.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from real_model import find_model

GREEDY = pathlib.Path(__file__).parent.parent / "golden" / "model" / "greedy.json"
PROGRAM = sys.argv[1]


def run_json(model, *args):
    done = subprocess.run([PROGRAM, "run", "-m", model, "--json", "--quiet", *args],
                          check=True, capture_output=True)
    return json.loads(done.stdout)


def test_golden_and_memory(model):
    """The first prompt's tokens up to its first near tie; memory of a long prompt."""
    case = json.loads(GREEDY.read_text(encoding="utf-8"))["cases"][0]
    near = [i for i, gap in enumerate(case["top2_gap"]) if gap < 0.1] + [32]
    j = run_json(model, "-p", case["prompt"], "-n", "32", "--ignore-eos", "--exact")
    assert j["prompt_ids"] == case["prompt_ids"]
    assert j["tokens"][:near[0]] == case["greedy_ids"][:near[0]], j["tokens"]
    for (token, logit), (want, golden) in zip(j["first_logits"], case["first_top5"]):
        assert token == want and abs(logit - golden) < 0.1, j["first_logits"]

    bound = os.path.getsize(model) + 150e6
    j = run_json(model, "-p", "one two three four " * 150, "-n", "8")
    assert j["prompt_tokens"] > 500 and j["peak_rss_bytes"] < bound, j["peak_rss_bytes"]


def start(model, *args):
    return subprocess.Popen([PROGRAM, "run", "-m", model, "--ignore-eos", "-n", "4000",
                             *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_interrupt(model):
    # While tokens come: exit 130, the text so far, the timing block.
    p = start(model, "-p", "The capital of France is")
    first = p.stdout.read(1)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 130, (p.returncode, err)
    assert first + out != b"" and out.endswith(b"\n")
    assert b"end: cancel" in err, err

    # During the prompt: within a layer, not after all of it.
    p = start(model, "--exact", "--json", "-p", "one two three four " * 900)
    time.sleep(2.0)
    sent = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 130, (p.returncode, err)
    assert time.monotonic() - sent < 30
    j = json.loads(out)
    assert j["finish_reason"] == "cancel" and j["tokens"] == [], j
    assert j["prompt_tokens"] > 3000


found = find_model()
test_golden_and_memory(found)
test_interrupt(found)
