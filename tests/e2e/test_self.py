"""test_self.py BONSAI2 TINY_MODEL - a model's own answers as calibration, from the outside.

`--self` asks the source of analyze, prune and compress, keeps the answers, uses them again,
and says in the result that they were used; they are what the model says when it is asked.
"""
import glob, json, os, subprocess, sys, tempfile

from program import call, check, data, js, write_words

TINY = sys.argv[2]


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


with tempfile.TemporaryDirectory() as tmp:
    path = lambda name: os.path.join(tmp, name)
    src, text = path("s.gguf"), path("t=2.txt")
    subprocess.run([TINY, src, "7", "3"], check=True)
    write_words(text, 600, 997)
    asked = path("q.jsonl")
    with open(asked, "w") as f:
        for i in range(99):
            f.write(json.dumps({"question": f"what is {i} and {i * i}?", "answer": "a sum"}) + "\n")
    texts = ["--calib", text, "--calib", asked, "--calib-tokens", "512", "--calib-ctx", "64"]
    own = ["--self", "12", "--self-tokens", "48"]

    # Each command keeps them beside its output and tells of them.
    answers = []
    for command, options, out in (
            ("analyze", ["--quick"], path("a.json")),
            ("prune", ["--ffn", "0.3", "--multiple", "8"], path("p.gguf")),
            ("compress", ["--rule", "*=B2_T64", "--rotate", "none"], path("c.gguf"))):
        rep = js(command, src, *texts, *own, *options, "-o", out)
        kept = out + ".answers.jsonl"
        answers.append(data(kept))
        check(len(lines(kept)) == 13, f"{command}: {len(lines(kept))} lines")
        check(not os.path.exists(kept + ".lock"), f"{command}: a lock stays")
        told = json.dumps(rep) if command != "prune" else data(out).decode("latin-1")
        check('answers.jsonl' in told and "." + 'answers.jsonl' not in told,
              f"{command} does not tell of them, or by a name that depends on its output")
    check(len(set(answers)) == 1, "each command has other answers")

    # They are what it says: the head's numbers, and a greedy one beside `run`.
    head, *said = lines(path("a.json.answers.jsonl"))
    check((head["n"], head["max_tokens"], head["temperature"]) == (12, 48, 0.7), f"{head}")
    check(all(a["question"].startswith("Go on with this text:\n\nw") for a in said[:6]), "openings")
    check(all(a["question"].startswith("what is") and a["answer"] for a in said[6:]), f"{said[6:]}")
    js("compress", src, *texts, *own, "--self-temperature", "0", "--self-file", path("g.jsonl"),
       "--rule", "*=B2_T64", "--rotate", "none", "-o", path("g.gguf"))
    for a in lines(path("g.jsonl"))[-3:]:
        run = js("run", "-m", src, "--chat", "-p", a["question"], "-n", "48", "--temp", "0")
        check(run["text"].endswith(a["answer"]), f"{a} beside {run['text']!r}")

    # Other texts than without them; used again without a second answer, in a dry run too.
    plain = js("compress", src, *texts, "--rule", "*=B2_T64", "--rotate", "none", "-o", path("n.gguf"))
    check(data(path("n.gguf")) != data(path("c.gguf")), "the answers change nothing")
    before = os.stat(path("c.gguf.answers.jsonl")).st_mtime_ns
    made = data(path("c.gguf"))
    again = ["compress", src, *texts, *own, "--rule", "*=B2_T64", "--rotate", "none"]
    js(*again, "-o", path("c.gguf"), "--force", "--threads", "3")
    check(data(path("c.gguf")) == made, "other bytes the second time")
    check(os.stat(path("c.gguf.answers.jsonl")).st_mtime_ns == before, "answered twice")
    js(*again, "-o", path("c2.gguf"))
    check(data(path("c2.gguf")) == made, "other bytes beside another output")

    # A dry run makes none, and ends where it would measure without them.
    part = path("part.jsonl")
    with open(part, "wb") as f:
        f.write(b"".join(data(path("g.jsonl")).splitlines(True)[:4]))
    for more in (["-o", path("d.gguf")], ["--self-file", part, "--self-temperature", "0"]):
        p = call(*again, *more, "--dry-run", ok=False)
        check("a dry run makes none" in p.stderr, f"dry run: {p.stderr}")
    check(not os.path.exists(path("d.gguf.answers.jsonl")) and len(lines(part)) == 4, "a dry run answered")
    call(*again, "--self-file", path("c.gguf.answers.jsonl"), "--dry-run")

    # What cannot be is said before the work.
    p = call(*again, "--seed", "5", "-o", path("c.gguf"), "--force", code=1)
    check("other settings" in p.stderr, p.stderr)
    p = call("prune", src, *own, "--layers", "1", "--sensitivity", path("a.json"), "-o",
             path("x.gguf"), ok=False)
    check("--self needs --calib" in p.stderr, p.stderr)
    distil = ["distill", "--teacher", src, "--student", path("n.gguf"), *texts[:4], *own, "--ctx", "32",
              "-o", path("x.gguf"), "--mem-limit", "64kB"]
    p = call(*distil, ok=False)
    check("reads the whole model" in p.stderr and not os.path.exists(path("x.gguf.answers.jsonl")), p.stderr)
    p = call(*distil, "--self-file", path("c.gguf.answers.jsonl"), ok=False)
    check("reads the whole model" not in p.stderr, f"answers that are there: {p.stderr}")
    for more, word in ((["-o", path("c.gguf")], "exists"), (["-o", path("no/x.gguf")], "no"),
                       (["-o", path("x.gguf"), "--self-file", path("x.gguf")], "another name"),
                       (["-o", path("x.gguf"), "--report", path("r.jsonl"), "--self-file", path("r.jsonl")],
                        "another name"),
                       (["-o", path("x.gguf"), "--self-file", path("x.txt")], ".jsonl")):
        p = call(*again, *more, ok=False)
        check(word in p.stderr and "answer" not in p.stdout, f"{more}: {p.stderr}")
    check(not glob.glob(path("x.*")) and not glob.glob(path("r.*")), "left behind")
    p = call("compress", src, "--calib", text, "--calib-tokens", "512", "--calib-ctx", "64", *own, "--rule",
             "*=B2_T64", "--rotate", "none", "-o", path("x.gguf"), ok=False)
    check("no question leaves room" in p.stderr, p.stderr)
print("ok")
