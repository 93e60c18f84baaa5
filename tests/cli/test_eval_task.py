#!/usr/bin/env python3
"""bonsai2 eval task from the outside: keys, same bits, going on, refusals, exit codes.

    test_eval_task.py PROGRAM STORIES.gguf     prints only what fails
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, MODEL = sys.argv[1:3]
KEYS = {"name", "n", "total", "metric", "score", "ci_low", "ci_high", "chance", "metrics",
        "cut_prompts", "settings", "prompt_sha256", "seconds"}
CONDITIONS = {"model", "fingerprint", "exact", "chat", "seed", "ctx", "threads", "kernel",
              "version", "tasks"}
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args, **env):
    return subprocess.run([PROGRAM, "eval", "task", *args], capture_output=True, text=True,
                          env={**os.environ, **env}, check=False)


def result(*args, **env):
    done = run("-m", MODEL, *args, "--json", "--quiet", **env)
    check("exit 0 of " + " ".join(args), done.returncode == 0, done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else {"tasks": [{}]}


def refused(what, code, words, *args):
    done = run(*args)
    check(what + ": exit %d" % code, done.returncode == code, done.returncode, done.stderr)
    check(what + ": says " + words, words in done.stderr, done.stderr)
    check(what + ": stdout is empty", done.stdout == "", done.stdout)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


with tempfile.TemporaryDirectory() as folder:
    def put(name, text):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    own = put("own.csv", "question,answer\n" + "".join(
        "Who was number %d?,Lily\n" % i for i in range(6)))
    choice = put("pick.jsonl", "".join(json.dumps(
        {"question": "Tom and dog %d went to the" % i, "answer": i % 2,
         "choices": ["park to play", "xylophone zinc"]}) + "\n" for i in range(30)))
    text = put("story.txt", ("Once upon a time there was a little girl who had a dog. "
                             "She loved to play with the dog in the big green park. ") * 20)
    put("data/ceval/val/law_val.csv",
        "id,question,A,B,C,D,answer\n0,谁？,你,我,他,她,B\n")
    put("data/ceval/dev/law_dev.csv",
        "id,question,A,B,C,D,answer,explanation\n0,谁？,你,我,他,她,A,无\n")
    put("data/humaneval/HumanEval.jsonl.gz", json.dumps(
        {"task_id": "T/0", "prompt": "def f():\n", "entry_point": "f", "test": ""}))
    data = ("--data", os.path.join(folder, "data"))
    scores = os.path.join(folder, "scores")

    first = result("--tasks", choice + "," + own + "," + text, "--limit", "5",
                   "--max-tokens", "8", "--scores", scores)
    check("conditions", CONDITIONS <= first.keys(), first.keys())
    for task, kind in zip(first["tasks"], ("acc_norm", "match", "acc")):
        check("keys of a task", KEYS <= task.keys(), task.keys())
        check("metric", task["metric"] == kind, task)
        check("interval holds the score", task["ci_low"] <= task["score"] <= task["ci_high"],
              task)
    pick = first["tasks"][0]
    check("names", [t["name"] for t in first["tasks"]] == ["pick", "own", "story"], first)
    check("counts", pick["n"] == 5 and pick["total"] == 30, pick)
    kept = lines(os.path.join(scores, "pick.jsonl"))
    check("a line per item and one before", len(kept) == 6, kept)
    items = [json.loads(line) for line in kept[1:]]
    mean = sum(i["scores"]["acc_norm"] for i in items) / 5
    check("a few lines recompute the figure", abs(mean - pick["score"]) < 1e-12, items)
    check("likelier story", all(i["loglik"][0] > i["loglik"][1] for i in items), items)

    for what, args, env in [("one thread", ("--threads", "1"), {}),
                            ("scalar kernels", (), {"B2_CPU": "scalar"})]:
        again = os.path.join(folder, "again-" + what.split()[0])
        result("--tasks", choice + "," + own, "--limit", "5", "--max-tokens", "8",
               "--scores", again, *args, **env)
        for name in ("pick.jsonl", "own.jsonl"):
            check("the same bits: " + what, lines(os.path.join(again, name)) ==
                  lines(os.path.join(scores, name)))

    # An interrupted run: three items and half a line.
    path = os.path.join(scores, "pick.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(kept[:4]) + "\n" + kept[4][:20])
    result("--tasks", choice, "--limit", "5", "--scores", scores)
    check("going on gives the same file", lines(path) == kept)
    refused("another run's file", 1, "other settings", "-m", MODEL, "--tasks", choice,
            "--limit", "6", "--scores", scores)
    anew = result("--tasks", choice, "--limit", "6", "--scores", scores, "--anew")
    check("--anew begins anew", anew["tasks"][0].get("n") == 6, anew)

    sampled = result("--tasks", own, "--limit", "3", "--max-tokens", "8", "--samples", "2",
                     "--temp", "1", "--seed", "3", "--scores", os.path.join(folder, "s3"))
    item = json.loads(lines(os.path.join(folder, "s3", "own.jsonl"))[1])
    check("two answers of an item", len(item["answers"]) == 2 and
          item["answers"][0] != item["answers"][1], item)
    check("settings tell", sampled["tasks"][0]["settings"]["samples"] == 2, sampled)
    exact = result("--tasks", choice, "--limit", "2", "--exact", "--shots", "2")
    check("exact, with examples", exact["exact"] and
          exact["tasks"][0]["settings"]["shots"] == 2, exact)
    cut = result("--tasks", text, "--limit", "2", "--ctx", "32")
    check("cut prompts are counted", cut["tasks"][0].get("cut_prompts") == 2, cut)
    ceval = result("--tasks", "ceval", *data, "--shots", "1")
    check("a user's C-Eval", ceval["tasks"][0].get("n") == 1, ceval)

    done = run("-m", MODEL, "--tasks", choice, "--limit", "3")
    check("a table", done.returncode == 0 and "95 % interval" in done.stdout, done.stdout)
    check("progress on stderr", "100%" in done.stderr, done.stderr)
    done = run("--list")
    check("list", "hellaswag" in done.stdout.split(), done.stdout, done.stderr)

    base = ("-m", MODEL, "--tasks")
    refused("no tasks", 2, "--tasks is missing", "-m", MODEL)
    refused("no model", 2, "-m FILE", "--tasks", own)
    refused("unknown task", 1, "there are: arc_challenge", *base, "arc_hard")
    refused("no data", 1, "its data are missing", *base, "arc_easy", *data)
    refused("twice", 1, "named twice", *base, own + "," + own)
    refused("greedy samples", 2, "--temp above 0", *base, own, "--samples", "2")
    refused("code", 1, "--allow-code", *base, "humaneval", *data, "--max-tokens", "8")
    refused("no template", 1, "no chat template", *base, own, "--chat")
    refused("memory", 1, "limit", *base, choice, "--limit",
            "2", "--mem-limit", "10KB")
    refused("bad row", 1, "item 0: the right answer is '7'", *base, put(
        "bad.jsonl", '{"question": "q", "choices": ["a", "b"], "answer": 7}\n'))

    # In the middle of it when the signal comes; what was done is kept.
    many = put("many.csv", "question,answer\n" + "Why did the dog run?,because\n" * 2000)
    with subprocess.Popen([PROGRAM, "eval", "task", "-m", MODEL, "--tasks", many,
                           "--scores", scores], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as p:
        time.sleep(2)
        p.send_signal(signal.SIGINT)
        words = p.stderr.read()
        code = p.wait(timeout=60)
    check("interrupted: 130", code == 130, code, words)
    check("says how to go on", "run again to go on" in words, words)

sys.exit(1 if failures else 0)
