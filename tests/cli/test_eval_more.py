#!/usr/bin/env python3
"""bonsai2 eval kld, retention, loops, rollback, blind, speed, report from the outside.

    test_eval_more.py PROGRAM STORIES.gguf SOURCE     prints only what fails

Figures are recomputed from the kept scores (tools/recompute.py) and, for the rolling
convention, compared with lm-evaluation-harness (tests/golden/eval/rolling.json).
"""
import html.parser
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM, MODEL, SOURCE = sys.argv[1:4]
GOLDEN = os.path.join(SOURCE, "tests", "golden")
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args, text=None):
    return subprocess.run([PROGRAM, "eval", *args], capture_output=True, text=True, input=text,
                          check=False)


def result(*args):
    done = run(*args, "--json", "--quiet")
    check("exit 0 of " + " ".join(args), done.returncode == 0, done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def refused(what, code, words, *args):
    done = run(*args)
    check(what + ": exit %d" % code, done.returncode == code, done.returncode, done.stderr)
    check(what + ": says " + words, words in done.stderr, done.stderr)


def recomputed(what, j, *folders):
    path = os.path.join(TMP, "result.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(j, f)
    done = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "recompute.py"), path,
                           *folders], capture_output=True, text=True, check=False)
    check("recomputed: " + what, done.returncode == 0, done.stdout, done.stderr)


class Page(html.parser.HTMLParser):
    """Every element is closed in order; nothing points outside the file."""
    VOID = {"meta", "link", "br", "line", "rect", "circle", "hr", "img", "input", "wbr"}

    def __init__(self, text):
        super().__init__()
        self.open, self.bad, self.text, self.data = [], [], "", ""
        self.feed(text)
        self.close()
        if self.open:
            self.bad.append("not closed: %s" % self.open)

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        for key, value in attrs:
            if key in ("src", "href", "action", "data", "srcset") and value != "data:,":
                self.bad.append("%s=%s" % (key, value))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append("closes " + tag)

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.data += data
        elif self.open[-1:] != ["style"]:
            self.text += data


def page(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    p = Page(text)
    check("page is well-formed and alone: " + path, not p.bad, p.bad)
    check("no address in the page: " + path, not re.search(r"(?i)https?:|(?<!Object)url\(|@import", text))
    return p


def write_items(folder, task, scores, chance=0.25, n=None, prompts="p"):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, task + ".jsonl"), "w", encoding="utf-8") as f:
        f.write(json.dumps({"task": task, "metric": "acc", "metrics": ["acc"], "chance": chance,
                            "n": n or len(scores), "model": folder + "/m<b>.gguf",
                            "fingerprint": os.path.basename(folder),
                            "settings": {"shots": 0}, "prompt_sha256": prompts}) + "\n")
        for i, s in enumerate(scores):
            f.write(json.dumps({"id": "i%d" % i, "score": s, "scores": {"acc": s}}) + "\n")


def test_rolling():
    with open(os.path.join(GOLDEN, "eval", "rolling.json"), encoding="utf-8") as f:
        golden = json.load(f)
    with open(os.path.join(SOURCE, "examples", "text", "austen.txt"), encoding="utf-8") as f:
        head = f.read()[:golden["chars"]]
    path = os.path.join(TMP, "head.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write(head)
    for row in golden["rows"]:
        j = result("ppl", "-m", os.path.join(GOLDEN, "arch", "llama-linear"), "--text", path,
                   "--convention", "rolling", "--exact", "--ctx", str(row["ctx"]))
        check("tokens as the harness counts", j.get("n_tokens") == golden["n_tokens"], j)
        got = -j.get("nll", 0) * j.get("n_tokens", 0)
        # Both round differently in F32; the cache here is F16.
        check("rolling, ctx %d" % row["ctx"], abs(got / row["loglikelihood"] - 1) < 1e-4, got, row)


def test_kld():
    scores = os.path.join(TMP, "kld")
    texts = ("--text", "a=" + STORY, "--text", "b=" + OTHER, "--text", "b=" + STORY,
             "--ctx", "64", "--chunks", "5")
    j = result("kld", "-m", Q4, "--baseline", MODEL, *texts, "--scores", scores)
    recomputed("kld", j, scores)
    check("regions", [g["name"] for g in j["regions"]] == ["a", "b"], j["regions"])
    check("clusters", [(g["cluster"], g["n_clusters"]) for g in j["regions"]] ==
          [("window", 5), ("document", 2)], j["regions"])
    check("one plain kld agrees with a region", abs(result(
        "kld", "-m", Q4, "--baseline", MODEL, "--text", STORY, "--ctx", "64", "--chunks", "5")
        ["mean_kld"] - j["regions"][0]["mean_kld"]) < 1e-12)

    # A teacher with the whole vocabulary is the baseline; a short one is a lower bound.
    whole, short = os.path.join(TMP, "whole.b2t"), os.path.join(TMP, "short.b2t")
    t = result("kld", "-m", Q4, "--baseline", MODEL, *texts, "--save-teacher", whole,
               "--top-k", "512")
    for key in ("mean_kld", "p99_kld", "same_top1", "ppl_ratio", "dp_mean"):
        check("whole teacher: " + key, abs(t[key] - j[key]) < 1e-5, t[key], j[key])
    check("no tail", t["teacher"]["mean_tail"] == 0 and t["teacher"]["top_k"] == 512, t["teacher"])
    done = run("kld", "--baseline", MODEL, *texts, "--save-teacher", short, "--top-k", "4", "-q")
    check("a teacher alone", done.returncode == 0 and not done.stdout, done.stderr)
    s = result("kld", "-m", Q4, "--teacher", short, *texts)
    check("a lower bound", 0 < s["mean_kld"] < j["mean_kld"] and s["same_top1"] == j["same_top1"],
          s["mean_kld"], j["mean_kld"])
    check("its tail", 0 < s["teacher"]["mean_tail"] < 0.6, s["teacher"])

    # An interrupted file goes on to the same bytes; a damaged one is found.
    with open(short, "rb") as f:
        data = f.read()
    for cut in (0, 7, len(data) // 3, len(data) - 1):
        os.remove(short)
        with open(short + ".part", "wb") as f:
            f.write(data[:cut])
        run("kld", "--baseline", MODEL, *texts, "--save-teacher", short, "--top-k", "4", "-q")
        with open(short, "rb") as f:
            check("gone on with from byte %d" % cut, f.read() == data)
    for what, bad, words in [("cut", data[:-9], "has"), ("no teacher", b"GGUF" * 9, "no teacher"),
                             ("changed", data[:-200] + b"x" + data[-199:], "checksum")]:
        with open(short, "wb") as f:
            f.write(bad)
        refused("teacher " + what, 1, words, "kld", "-m", Q4, "--teacher", short, *texts)
    refused("other window", 1, "--ctx 64", "kld", "-m", Q4, "--teacher", whole, "--text",
            STORY, "--ctx", "32")
    refused("other text", 1, "other tokens", "kld", "-m", Q4, "--teacher", whole, "--text", OTHER,
            "--text", OTHER, "--text", STORY, "--ctx", "64", "--chunks", "5")
    refused("an existing teacher", 1, "--force", "kld", "--baseline", MODEL, *texts,
            "--save-teacher", whole)
    both = result("kld", "-m", Q4, "-m", MODEL, "--baseline", MODEL, "--regions", REGIONS,
                  "--ctx", "64", "--chunks", "2", "--report", os.path.join(TMP, "kld.html"))
    check("two candidates", [c["mean_kld"] == 0 for c in both["candidates"]] == [False, True])
    check("regions of a folder", [g["name"] for g in both["candidates"][0]["regions"]] ==
          ["one", "two"])
    p = page(os.path.join(TMP, "kld.html"))
    check("page names both", "q4.gguf" in p.text and "stories260K.gguf" in p.text)
    check("page carries the result", json.loads(p.data)[0] == both)


def test_own_regions():
    """The texts that come with the program: five kinds."""
    j = result("kld", "-m", Q4, "--baseline", MODEL, "--regions", "own", "-c", "64", "--chunks", "2")
    check("five regions", [r["name"] for r in j["regions"]] ==
          ["chat", "code", "maths", "prose_en", "prose_zh"], j["regions"])
    check("places in the window", len(j["by_position"]) > 3, j["by_position"])


def test_retention():
    rng, base, cand = random.Random(3), os.path.join(TMP, "base"), os.path.join(TMP, "cand")
    for k, task in enumerate(["arc", "hella", "piqa", "boolq", "mmlu"]):
        a = [int(rng.random() < (0.25 if task == "mmlu" else 0.8)) for _ in range(300)]
        # One task's items are damaged: a planted collapse.
        b = [0 if task == "piqa" and i < 90 else x for i, x in enumerate(a)]
        for i in rng.sample(range(90, 300), 12):
            b[i] = 1 - b[i] if k % 2 else b[i]
        write_items(base, task, a)
        write_items(cand, task, b)
    out = os.path.join(TMP, "retention.html")
    j = result("retention", "--baseline", base, "-m", cand, "--report", out)
    keys = {"name", "n", "baseline", "candidate", "retention", "ci_low", "ci_high"}
    check("keys", all(keys <= t.keys() for t in j["tasks"]), j["tasks"][:1])
    check("worst task first", j["worst_task"] == "piqa" == j["tasks"][0]["name"], j["worst_task"])
    check("the rest is fine", all(t["retention"] > 0.9 for t in j["tasks"][1:4]), j["tasks"])
    check("at chance, last, not counted", j["tasks"][-1]["name"] == "mmlu" and
          j["tasks"][-1]["at_chance"] and j["tasks_counted"] == 4)
    recomputed("retention", j, cand, base)
    p = page(out)
    check("page: text of a name is escaped", "m<b>.gguf" in p.text)

    # A collapse of one of many tasks hides in the mean: the warning names it.
    for k in range(6):
        write_items(base, "more%d" % k, [1] * 200)
        write_items(cand, "more%d" % k, [1] * 200)
    done = run("retention", "--baseline", base, "-m", cand)
    check("warning in words", "WARNING" in done.stdout and "hides a collapse: on piqa" in
          done.stdout, done.stdout)
    check("worst stands first", done.stdout.index("piqa") < done.stdout.index("hella"))
    check("left out in words", "no better than a guess" in done.stdout)
    j = result("retention", "--baseline", base, "-m", cand)
    check("warning in JSON", "piqa" in j.get("warning", ""))
    recomputed("retention with a warning", j, cand, base)
    check("same seed, same bits", result("retention", "--baseline", base, "-m", cand) == j)
    one = result("retention", "--baseline", base, "-m", cand, "-m", base, "--tasks", "piqa,arc")
    check("side by side", [c["mean_retention"] == 1 for c in one["candidates"]] == [False, True])
    write_items(cand, "arc", [1] * 100, n=300, prompts="q")
    done = run("retention", "--baseline", base, "-m", cand)
    check("interrupted run is said", "interrupted" in done.stderr and "left out" in done.stdout)
    check("other prompts are said", "not asked the same prompts" in done.stdout, done.stdout)
    refused("no such task", 1, "no scores of the task xyz", "retention", "--baseline", base, "-m",
            cand, "--tasks", "xyz")
    refused("no tasks", 2, "--tasks", "retention", "--baseline", MODEL, "-m", Q4)


def test_recompute_task():
    """Figures of tasks and of ppl from their items; several answers keep why each ended."""
    questions, scores = os.path.join(TMP, "two.csv"), os.path.join(TMP, "two")
    with open(questions, "w", encoding="utf-8") as f:
        f.write("Once upon a time there was a,girl\nHello,b\nThe end,c\n")
    choices = os.path.join(TMP, "pick.csv")
    with open(choices, "w", encoding="utf-8") as f:
        f.write("question,answer,A,B\nOnce upon a,time,time,tin\nShe was,B,xq,happy\n")
    j = result("task", "-m", MODEL, "--tasks", questions + "," + choices + "," + STORY, "--limit", "9",
               "--max-tokens", "8", "--scores", scores)
    recomputed("tasks", j, scores)
    scores += "3"
    j = result("task", "-m", MODEL, "--tasks", questions, "--max-tokens", "8", "--samples", "3", "--temp", "0.9",
               "--scores", scores)
    recomputed("several answers of a task", j, scores)
    check("all ran into their limit", j["tasks"][0]["unfinished_answers"] > 3, j["tasks"])
    j = result("ppl", "-m", MODEL, "--text", STORY, "-c", "64", "--chunks", "3", "--scores", scores)
    recomputed("ppl", j, scores)


def test_retention_of_models():
    questions = os.path.join(TMP, "own.csv")
    with open(questions, "w", encoding="utf-8") as f:
        f.write("question,answer\n")
        for name in ("Lily", "Tom", "Sue", "Ben", "Max", "Mia"):
            f.write("\"Once upon a time there was a girl named %s. She was\",a\n" % name)
    scores = os.path.join(TMP, "scores")
    args = ("retention", "--baseline", MODEL, "-m", Q4, "--tasks", questions, "--scores", scores)
    j = result(*args)
    check("a model asked", len(j["tasks"]) == 1 and j["tasks"][0]["n"] == 6, j)
    kept = [os.path.join(scores, n) for n in ("stories260K.gguf", "q4.gguf")]
    check("kept by model", all(os.path.isdir(k) for k in kept), os.listdir(scores))
    again = result("retention", "--baseline", kept[0], "-m", kept[1])
    check("the kept scores give the same", [t["retention"] for t in again["tasks"]] ==
          [t["retention"] for t in j["tasks"]])


def test_loops():
    scores, out = os.path.join(TMP, "loops"), os.path.join(TMP, "loops.html")
    args = ("loops", "-m", Q4, "--baseline", MODEL, "--limit", "2", "-n", "40")
    j = result(*args, "--scores", scores, "--report", out)
    check("slices", [s["name"] for s in j["slices"]] == ["english", "chinese", "code"] and
          j["n"] == 6, j)
    recomputed("loops", j, scores)
    page(out)
    path = os.path.join(scores, "loops-q4.gguf.ndjson")
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(data[:len(data) // 2])
    check("gone on with", result(*args, "--scores", scores)["loop_rate"] == j["loop_rate"])
    with open(path, "rb") as f:
        check("to the same bytes", f.read() == data)
    refused("other settings", 1, "other settings", "loops", "-m", Q4, "--limit", "2", "-n", "32",
            "--scores", scores)
    anew = result("loops", "-m", Q4, "--limit", "2", "-n", "32", "--scores", scores, "--anew")
    check("begun anew", anew["max_tokens"] == 32 and anew["n"] == 6, anew)
    prompts = os.path.join(TMP, "prompts.txt")
    with open(prompts, "w", encoding="utf-8") as f:
        f.write("# mine\ntales\tOnce upon\\na time\nOne day\n")
    j = result("loops", "-m", Q4, "--prompts", prompts, "-n", "24", "--temp", "0.8", "--samples", "3")
    check("own prompts", [(s["name"], s["n"]) for s in j["slices"]] == [("tales", 3), ("prompts", 3)])
    sampled = os.path.join(TMP, "sampled")
    recomputed("several answers", result("loops", "-m", Q4, "--prompts", prompts, "-n", "24", "--temp", "0.8",
                                         "--samples", "3", "--scores", sampled), sampled)
    refused("samples without temperature", 2, "--temp", "loops", "-m", Q4, "--samples", "2")


def test_rollback():
    j = result("rollback", "-m", Q4, "--baseline", MODEL, "--text", STORY, "--ctx", "64", "--chunks",
               "3")
    check("all parts", len(j["layers"]) == 5 and {"attn_q", "ffn_down", "token_embd"} <=
          {c["name"] for c in j["classes"]}, j)
    plain = result("kld", "-m", Q4, "--baseline", MODEL, "--text", STORY, "--ctx", "64", "--chunks", "3")
    check("starts at the divergence", abs(j["kld"] - plain["mean_kld"]) < 0.02 * plain["mean_kld"], j["kld"])
    # The independent way: a file in which one class, or one layer, was never touched.
    for name, keep in (("ffn_down", "blk.*.ffn_down.weight"), ("blk.1", "blk.1.*.weight")):
        path = os.path.join(TMP, name + ".gguf")
        compress(path, "*=Q4_0", keep + "=keep")
        want = result("kld", "-m", path, "--baseline", MODEL, "--text", STORY, "--ctx", "64",
                      "--chunks", "3", "--save-teacher", path + ".b2t")["mean_kld"]
        [part] = [p for p in j["layers"] + j["classes"] if p["name"] == name]
        check(name + " restored", abs(part["kld"] - want) < 1e-5, part, want)
        more = os.path.getsize(path) - os.path.getsize(Q4)
        check(name + " bytes", abs(part["bytes_more"] - more) < 4096, part, more)
    # Interrupted after some parts, it goes on to the same values and the same bytes.
    scores = os.path.join(TMP, "rollback")
    kept = os.path.join(scores, "rollback-q4.gguf.ndjson")
    args = ("rollback", "-m", Q4, "--baseline", MODEL, "--text", STORY, "--ctx", "64", "--chunks", "3",
            "--scores", scores)
    for cut in (None, 3):
        again = result(*args)
        check("kept values", again["layers"] == j["layers"] and again["classes"] == j["classes"])
        with open(kept, "rb") as f:
            data = f.read()
        check("its lines", cut is None or data == whole, data[-200:])
        recomputed("rollback", again, scores)
        whole = data
        with open(kept, "wb") as f:
            f.write(data[:len(data) * 2 // 3])
    refused("other settings of rollback", 1, "other settings", *args, "--parts", "layers")
    parts = [p for p in j["layers"] + j["classes"] if p["gain_per_mb"] is not None]
    check("best by the byte", j["best"] == max(parts, key=lambda p: p["gain_per_mb"])["name"])
    loops = result("rollback", "-m", Q4, "--baseline", MODEL, "--by", "loops", "--parts", "classes",
                   "--limit", "1", "-n", "16")
    check("by loops", loops["by"] == "loops" and not loops["layers"] and loops["classes"])
    # A recurrent model of which one class alone was rounded: that class gives all back.
    recurrent, path = os.path.join(GOLDEN, "arch", "qwen35"), os.path.join(TMP, "q35.gguf")
    subprocess.run([PROGRAM, "export", recurrent, "--format", "gguf-q8_0", "--lossy", "--only",
                    "blk.*.ssm_out.weight", "-o", path, "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    j = result("rollback", "-m", path, "--baseline", recurrent, "--text", STORY, "--ctx", "32",
               "--chunks", "2", "--exact")
    left = {c["name"]: c["kld"] for c in j["classes"]}
    check("a class of recurrent layers", j["best"].startswith("blk.") and left["ssm_out"] < 1e-7 and
          abs(left["attn_qkv"] - j["kld"]) < 1e-12 and j["kld"] > 1e-5, j)
    refused("another shape", 1, "differ in layers", "rollback", "-m", Q4, "--baseline",
            os.path.join(GOLDEN, "arch", "llama-linear"), "--text", STORY)


def test_blind():
    html_path, key = os.path.join(TMP, "blind.html"), os.path.join(TMP, "key.json")
    args = ("blind", "-m", Q4, "--baseline", MODEL, "--limit", "3", "-n", "16")
    scores = os.path.join(TMP, "blind")
    done = run(*args, "-o", html_path, "--key", key, "--scores", scores)
    check("page made", done.returncode == 0, done.stderr)
    with open(html_path, "rb") as f:
        first = f.read()
    kept = os.path.join(scores, "blind-q4.gguf.ndjson")
    with open(kept, "rb") as f:
        data = f.read()
    with open(kept, "wb") as f:
        f.write(data[:len(data) // 2])
    refused("an existing page of blind", 1, "--force", *args, "-o", html_path, "--key", key)
    os.remove(html_path)
    os.remove(key)
    run(*args, "-o", html_path, "--key", key, "--scores", scores)
    with open(html_path, "rb") as f:
        check("goes on to the same page", f.read() == first)
    p = page(html_path)
    check("the page does not tell", "gguf" not in p.text and "model" not in p.text.replace(
        "Two models", ""), p.text[:200])
    with open(key, encoding="utf-8") as f:
        sides = json.load(f)
    votes = ["left" if s["left"] == "model" else "right" for s in sides["pairs"]]
    votes[0], votes[1], votes[2] = "same", None, {"left": "right", "right": "left"}[votes[2]]
    path = os.path.join(TMP, "votes.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"id": sides["id"], "votes": votes}, f)
    j = result("blind", "--votes", path, "--key", key)
    check("votes counted", (j["n"], j["wins"], j["losses"], j["ties"]) == (8, 6, 1, 1), j)
    # Clopper-Pearson for 6 of 7: 0.4213 to 0.9964 (a table).
    check("interval", abs(j["ci_low"] - 0.4213) < 1e-4 and abs(j["ci_high"] - 0.9964) < 1e-4, j)
    recomputed("blind", j, path, key)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"id": "0" * 64, "votes": votes}, f)
    refused("votes of another page", 1, "not of the page", "blind", "--votes", path, "--key", key)
    done = run(*args, "--json", "-q", text="l\nx\ns\nq\n")
    check("in the terminal", done.returncode == 0 and json.loads(done.stdout)["n"] == 2, done.stderr)
    done = run(*args, text="")
    check("no vote, no preference", done.returncode == 0 and "not known" in done.stdout, done.stdout)
    refused("page without key", 2, "--key", *args, "-o", html_path)


def test_speed_and_report():
    files = []
    for i, model in enumerate((Q4, MODEL)):
        j = result("speed", "-m", model, "-p", "16", "-n", "8", "--depth", "0,32", "--no-cold")
        check("speed rows", [r["test"] for r in j["rows"]] == ["pp16", "tg8", "tg8@32"], j["rows"])
        check("memory adds up", j["memory"]["total_bytes"] == sum(
            v for k, v in j["memory"].items() if k != "total_bytes"), j["memory"])
        check("peak", j["peak_rss_bytes"] > 1e6 and j["runs"] == 3)
        recomputed("speed", j, "-")
        files.append(os.path.join(TMP, "speed%d.json" % i))
        with open(files[-1], "w", encoding="utf-8") as f:
            json.dump(j, f)
    out = os.path.join(TMP, "page.html")
    done = run("report", *files, "-o", out)
    check("report", done.returncode == 0, done.stderr)
    p = page(out)
    check("both stand there", "Memory by part" in p.text and "q4.gguf" in p.text)
    task = run("task", "-m", MODEL, "--tasks", os.path.join(TMP, "own.csv"), "--json", "-q",
               "--report", os.path.join(TMP, "task.html"), "--include", files[0])
    check("page of a task", task.returncode == 0, task.stderr)
    p = page(os.path.join(TMP, "task.html"))
    check("it has both", "Tasks" in p.text and "Speed" in p.text)
    refused("an existing page", 1, "--force", "report", *files, "-o", out)
    # What keeps a page from being written is said before the work, which would be lost.
    for what, words, more in (
            ("no folder of the page", "cannot write here", ("--report", out + ".d/p.html")),
            ("no result to include", "nix.json: no such file",
             ("--report", out + "3", "--include", "nix.json"))):
        done = run("ppl", "-m", MODEL, "--text", STORY, "-c", "64", *more)
        check(what, done.returncode == 1 and words in done.stderr and not done.stdout, done.stderr)
    refused("no result", 1, "key.json: a result of no known measure", "report", files[0],
            os.path.join(TMP, "key.json"), "-o", out + "2")
    refused("no JSON", 1, "no result", "report", STORY, "-o", out + "2")


def test_overview():
    """The overview's perplexity is the one that was measured; a part of no more bytes says so."""
    path, out = os.path.join(TMP, "made.json"), os.path.join(TMP, "overview.html")
    print_ = "ab" * 32
    results = [
        {"measure": "kld", "ppl": 23.75, "mean_kld": 0.5},
        {"measure": "speed", "rows": [{"test": "tg8", "median_tps": 105.5}]},
        {"measure": "rollback", "by": "kld", "classes": [
            {"name": "attn_q", "gain": 0.1, "gain_per_mb": 2.5},
            {"name": "token_embd", "gain": 0, "gain_per_mb": None}]}]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"measure": "all", "candidates": [
            dict(r, model="m.gguf", fingerprint=print_, model_bytes=1e6) for r in results]}, f)
    done = run("report", path, "-o", out)
    check("overview made", done.returncode == 0, done.stderr)
    with open(out, encoding="utf-8") as f:
        text = f.read().split("<script", 1)[0]
    check("perplexity", "<td>23.750</td>" in text and "<td>105.500</td>" not in text)
    check("no nan", "nan" not in text.lower() and "same bytes" in text)


def test_heat():
    """A sensitivity file becomes a heat map; one without layers is refused."""
    path, out = os.path.join(TMP, "sens.json"), os.path.join(TMP, "heat.html")
    layers = [{"layer": i, "damage_kld": 0.5, "no_attn_kld": None, "tensors": [
        {"name": "blk.%d.attn_q.weight" % i, "damage_kld": 0.04 * i, "output_error": 0.1},
        {"name": "blk.%d.<b>.weight" % i, "damage_kld": None}], "neurons": {"cost": [7.125] * 9}}
        for i in range(3)]
    sens = {"format": "bonsai2.sensitivity", "version": 1, "model": "dir/m.gguf", "type": "B2_T64",
            "layers": layers}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(sens, f)
    done = run("report", path, "-o", out)
    check("heat map alone", done.returncode == 0, done.stderr)
    p = page(out)
    check("heat map", "Sensitivity of m.gguf" in p.text and "attn_q" in p.text and "0.0800" in p.text
          and "no attention" not in p.text and "whole layer" in p.text and "nan" not in p.text, p.text)
    check("names are escaped", "<b>" in p.text)
    check("hidden values stay out", "7.125" not in p.data and json.loads(p.data)[0]["layers"][2]["damage_kld"] == 0.5)
    both = os.path.join(TMP, "heat2.html")
    done = run("ppl", "-m", MODEL, "--text", STORY, "-c", "64", "--chunks", "1", "--report", both,
               "--include", path)
    check("with a measure", done.returncode == 0 and "attn_q" in page(both).text, done.stderr)
    for i, layers in enumerate(([], {"a": 1}, [1, 2], [[]], None, "x")):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(dict(sens, layers=layers), f)
        refused("no layers %d" % i, 1, 'needs "layers"', "report", path, "-o", out + "2")
    for i, tensors in enumerate(([1, [2], None, {"name": 3}], {"name": {}}, "x", [{"name": "y" * 999}] * 99)):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(dict(sens, layers=[{"tensors": tensors}]), f)
        done = run("report", path, "-o", out, "--force")
        check("strange tensors %d" % i, done.returncode == 0, done.stderr)
        page(out)


def test_names():
    """Two models of one name would be kept in one file; a folder's slash is no part of it."""
    folder = os.path.join(TMP, "elsewhere")
    os.makedirs(folder, exist_ok=True)
    twin = os.path.join(folder, os.path.basename(MODEL))
    os.symlink(Q4, twin)
    scores = os.path.join(TMP, "twins")
    own = os.path.join(TMP, "own.csv")
    refused("retention of twins", 1, "have one name", "retention", "--baseline", MODEL, "-m", twin,
            "--tasks", own, "--scores", scores)
    refused("loops of twins", 1, "have one name", "loops", "--baseline", MODEL, "-m", twin,
            "--scores", scores)
    refused("kld of twins", 1, "have one name", "kld", "--baseline", MODEL, "-m", MODEL, "-m",
            twin, "--text", STORY, "--scores", scores)
    check("nothing was written", not os.path.exists(scores))
    refused("no task", 1, "names no task", "task", "-m", MODEL, "--tasks", ",")
    # Several candidates in one result: the scores tell whose figures are checked.
    j = result("retention", "--baseline", MODEL, "-m", Q4, "-m", MODEL, "--tasks", own, "--scores",
               scores + "/")
    for model in (Q4, MODEL):
        recomputed("one of two candidates", j, os.path.join(scores, os.path.basename(model)),
                   os.path.join(scores, os.path.basename(MODEL)))


def test_other_weights():
    """One header, other weights (another training, another rounding): no scores in common."""
    path, scores = os.path.join(TMP, "again.gguf"), os.path.join(TMP, "again")
    with open(Q4, "rb") as f:
        data = bytearray(f.read())
    with open(path, "wb") as f:
        f.write(data)
    own = os.path.join(TMP, "own.csv")
    task = ("task", "-m", path, "--tasks", own, "--scores", scores, "-q")
    loops = ("loops", "-m", path, "--limit", "1", "-n", "16", "--scores", scores, "-q")
    for args in task, loops:
        done = run(*args)
        check("scores kept", done.returncode == 0, done.stderr)
        done = run(*args)
        check("and gone on with", done.returncode == 0, done.stderr)
    before = result("kld", "-m", path, "--baseline", MODEL, "--text", STORY, "-c", "64", "--chunks", "1")
    half = len(data) // 2
    for i in range(half, len(data), 18):  # a nibble here and there, no scale
        data[i] ^= 1
    with open(path, "wb") as f:
        f.write(data)
    refused("items of other weights", 1, "other weights", *task)
    refused("answers of other weights", 1, "another model or other settings", *loops)
    after = result("kld", "-m", path, "--baseline", MODEL, "--text", STORY, "-c", "64", "--chunks", "1")
    check("one header", before["fingerprint"] == after["fingerprint"])
    files = [os.path.join(TMP, "weights%d.json" % i) for i in range(2)]
    for name, j in zip(files, (before, after)):
        with open(name, "w", encoding="utf-8") as f:
            json.dump(j, f)
    out = os.path.join(TMP, "weights.html")
    done = run("report", *files, "-o", out)
    check("two candidates", done.returncode == 0 and page(out).text.count("again.gguf") >= 4, done.stderr)


def test_no_numbers():
    """One weight that is no number: no measure gives a figure, each says which model it is."""
    sys.path.insert(0, os.path.join(SOURCE, "quality"))
    import damage_head  # noqa: E402,PLC0415
    path = os.path.join(TMP, "nan.gguf")
    *head, tensors = damage_head.read(MODEL)
    ne, kind, data = tensors[b"blk.1.ffn_down.weight"]
    tensors[b"blk.1.ffn_down.weight"] = (ne, kind, struct.pack("<f", float("nan")) + data[4:])
    damage_head.write(path, *head, tensors)
    text, own = ("--text", STORY, "-c", "64", "--chunks", "1"), os.path.join(TMP, "own.csv")
    for args in (("speed", "-p", "8", "-n", "4", "--depth", "0"), ("ppl", *text),
                 ("kld", "--baseline", MODEL, *text), ("rollback", "--baseline", MODEL, *text),
                 ("task", "--tasks", own), ("retention", "--baseline", MODEL, "--tasks", own),
                 ("loops", "--limit", "1", "-n", "16"), ("blind", "--baseline", MODEL, "--limit", "1")):
        done = run(args[0], "-m", path, *args[1:], text="")
        check(args[0] + " of no numbers", done.returncode == 1 and not done.stdout and "nan.gguf" in
              done.stderr and ("damaged" in done.stderr or "broken" in done.stderr), done.stderr)
    refused("a baseline of no numbers", 1, "baseline: logit", "kld", "-m", MODEL, "--baseline", path, *text)
    refused("a cache for other heads", 1, "multiple of 32", "speed", "-m", MODEL, "--depth", "0",
            "--cache", "q8_0")
    refused("a teacher of another cache", 2, "f16", "kld", "--baseline", MODEL, "--baseline-cache", "q8_0",
            *text, "--save-teacher", path + ".b2t")


def test_words():
    done = run()
    check("no measure", done.returncode == 2 and "retention" in done.stderr, done.stderr)
    done = run("--help")
    check("help lists all", done.returncode == 0 and "rollback" in done.stdout)
    done = run("retenton")
    check("the near word", "did you mean 'retention'" in done.stderr, done.stderr)
    for measure in ("ppl", "kld", "retention", "loops", "rollback", "speed", "blind", "report"):
        done = run(measure, "--help")
        check(measure + " --help ends with an example", done.returncode == 0 and
              "bonsai2 eval " + measure in done.stdout.strip().split("\n")[-1], done.stdout[-200:])


def compress(path, *rules):
    args = [PROGRAM, "compress", MODEL, "-o", path, "--force", "--quiet", "--tail", "pad"]
    for r in rules:
        args += ["--rule", r]
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL)


def interrupt():
    """Ctrl-C ends a run with 130 and leaves a teacher to go on with."""
    path = os.path.join(TMP, "long.b2t")
    with open(os.path.join(TMP, "long.txt"), "w", encoding="utf-8") as f:
        f.write("The end of the story was not near. " * 30000)
    with subprocess.Popen([PROGRAM, "eval", "kld", "--baseline", MODEL, "--exact", "--text", f.name,
                           "--ctx", "512", "--save-teacher", path, "-q"]) as p:
        for _ in range(300):  # until it is in the middle of it
            if os.path.exists(path + ".part"):
                break
            time.sleep(0.1)
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        code = p.wait(timeout=30)
    check("interrupted: 130", code in (130, -signal.SIGINT), code)
    check("its part stays", os.path.getsize(path + ".part") > 0)


with tempfile.TemporaryDirectory() as TMP:
    STORY, OTHER = os.path.join(TMP, "story.txt"), os.path.join(TMP, "other.txt")
    with open(STORY, "w", encoding="utf-8") as f:
        f.write("Once upon a time, there was a little girl named Lily. She loved to play "
                "outside in the park. One day, she saw a big, red ball. " * 40)
    with open(OTHER, "w", encoding="utf-8") as f:
        f.write("Tom and Sue went to the sea with a boat. The sun was hot and the dog was "
                "happy to run on the sand. " * 40)
    REGIONS = os.path.join(TMP, "regions")
    os.mkdir(REGIONS)
    for source, name in (STORY, "one"), (OTHER, "two"):
        with open(source, encoding="utf-8") as f, open(
                os.path.join(REGIONS, "region_%s.txt" % name), "w", encoding="utf-8") as g:
            g.write(f.read())
    Q4 = os.path.join(TMP, "q4.gguf")
    compress(Q4, "*=Q4_0")
    for test in (test_words, test_rolling, test_kld, test_own_regions, test_retention, test_recompute_task,
                 test_retention_of_models,
                 test_loops, test_rollback, test_blind, test_speed_and_report, test_overview, test_heat,
                 test_names, test_other_weights, test_no_numbers, interrupt):
        started = time.time()
        try:
            test()
        except (KeyError, ValueError, OSError, IndexError) as e:
            check("%s runs" % test.__name__, False, repr(e))
        if os.environ.get("B2_TEST_TIMES"):
            print("%s %.1f s" % (test.__name__, time.time() - started))

sys.exit(1 if failures else 0)
