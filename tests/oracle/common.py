"""What the oracle tests share: paths, our programs, comparison of logits."""
import json
import os
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(ROOT, "build", "oracle")  # large files, made once, kept
TEXT = os.path.join(ROOT, "examples", "text", "austen.txt")
MODEL = os.path.join(
    os.environ.get("B2_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "bonsai2"),
    "SmolLM2-135M-Instruct.Q4_1.gguf")
F32 = os.path.join(WORK, "f32.gguf")
THREADS = len(os.sched_getaffinity(0))


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def need_model():
    if not os.path.exists(MODEL):
        skip("the model is not in the cache: run tools/fetch_model.sh")
    os.makedirs(WORK, exist_ok=True)


def program(*args):
    """Runs the built program; returns its standard output."""
    command = [os.environ["B2_PROGRAM"], *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s\nexit %d\n%s" % (" ".join(command), done.returncode, done.stderr))
    return done.stdout


def program_json(*args):
    return json.loads(program(*args, "--json", "--quiet"))


def our_logits(model, sequences, exact):
    """[len(ids), V] for each sequence, by tests/oracle/dump_logits.c."""
    stem = os.path.join(WORK, "dump-%d" % os.getpid())
    with open(stem + ".ids", "w", encoding="ascii") as f:
        for ids in sequences:
            f.write(" ".join(map(str, ids)) + "\n")
    try:
        vocab = int(subprocess.check_output(
            [os.environ["B2_DUMP_LOGITS"], model, "exact" if exact else "fast",
             str(THREADS), stem + ".ids", stem + ".f32"], text=True))
        flat = np.fromfile(stem + ".f32", np.float32).reshape(-1, vocab)
    finally:
        for end in (".ids", ".f32"):
            if os.path.exists(stem + end):
                os.remove(stem + end)
    cuts = np.cumsum([len(ids) for ids in sequences])
    assert len(flat) == cuts[-1]
    return np.split(flat, cuts[:-1])


def log_softmax(row):
    x = row.astype(np.float64)
    x -= x.max()
    return x - np.log(np.exp(x).sum())


def mean_kl(base, other):
    """Mean over rows of KL(base, other) in nat, and the share of equal argmax."""
    total = 0.0
    for b, o in zip(base, other):
        lb, lo = log_softmax(b), log_softmax(o)
        total += float((np.exp(lb) * (lb - lo)).sum())
    same = float((base.argmax(1) == other.argmax(1)).mean())
    return total / len(base), same


class Checks:
    """Prints every check with its numbers; exits 1 at the end if one failed."""

    def __init__(self):
        self.failed = 0

    def less(self, what, value, bound):
        ok = value <= bound
        self.failed += not ok
        print("%-6s %s: %.3g, bound %.3g" % ("ok" if ok else "FAILED", what, value, bound))

    def true(self, what, ok):
        self.failed += not ok
        print("%-6s %s" % ("ok" if ok else "FAILED", what))

    def near(self, what, ours, theirs, bound):
        """Largest difference of logits; equal argmax but for near ties."""
        self.less(what + ", largest difference of a logit",
                  float(np.abs(ours - theirs).max()), bound)
        rows = np.nonzero(ours.argmax(1) != theirs.argmax(1))[0]
        gaps = [float(theirs[r].max() - theirs[r, ours[r].argmax()]) for r in rows]
        self.less(what + ", gap where the top token differs (%d of %d)"
                  % (len(rows), len(ours)), max(gaps, default=0.0), 2 * bound)

    def perplexity(self, what, ours, nll):
        """ours: the object of `eval ppl --json`; nll: the other program's losses."""
        theirs = float(np.exp(np.mean(nll)))
        self.true(what + ", %d tokens scored" % len(nll), ours["n_tokens"] == len(nll))
        self.less(what + ", perplexity %.4f against %.4f, relative difference"
                  % (ours["ppl"], theirs), abs(ours["ppl"] / theirs - 1), 5e-3)

    def done(self):
        sys.exit(1 if self.failed else 0)
