"""Ctrl-C ends a run cleanly: exit 130, the text so far, the timing block.

    test_interrupt.py BONSAI2

Wants the real model (B2_MODEL_SMOLLM2, or where tools/fetch_model.sh puts it): a small
one would be done before the signal comes.
"""
import json
import os
import signal
import subprocess
import sys
import time


def find_model():
    env = os.environ.get
    folder = env("B2_CACHE") or os.path.join(
        env("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "bonsai2")
    path = env("B2_MODEL_SMOLLM2") or os.path.join(
        folder, "SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.exists(path):
        print("skipped: the model is not in the cache: run tools/fetch_model.sh")
        sys.exit(77)
    return path


def start(program, model, *args):
    return subprocess.Popen([program, "run", "-m", model, "--ignore-eos", "-n", "4000",
                             *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def main():
    program, model = sys.argv[1], find_model()

    # While tokens come.
    p = start(program, model, "-p", "The capital of France is")
    first = p.stdout.read(1)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 130, (p.returncode, err)
    assert first + out != b"" and out.endswith(b"\n")
    assert b"end: cancel" in err, err

    # During the prompt: within a layer, not after all of it.
    p = start(program, model, "--exact", "--json", "-p", "one two three four " * 900)
    time.sleep(2.0)
    sent = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 130, (p.returncode, err)
    assert time.monotonic() - sent < 30
    j = json.loads(out)
    assert j["finish_reason"] == "cancel" and j["tokens"] == [], j
    assert j["prompt_tokens"] > 3000


main()
