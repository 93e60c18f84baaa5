#!/usr/bin/env python3
"""A planted collapse: one task's rows of the head are damaged, retention must name the task.

    test_collapse.py PROGRAM STORIES.gguf SOURCE     prints only what fails

The model is made here and knows eight tasks of 20 questions. Its one layer looks at all
tokens alike (queries and keys are zero) and copies their one-hot embeddings; the head's row
of an answer looks for the word that only its question has. An answer's own embedding leads to
the end token. So the baseline's scores are known beforehand, and those after rows of the
head changed places too: the damage is the script of quality/collapse.sh.
"""
import csv
import json
import os
import struct
import subprocess
import sys
import tempfile

PROGRAM, STORIES, SOURCE = sys.argv[1:4]
TASKS = ("animals", "capitals", "colours", "foods", "months", "numbers", "opposites", "tools")
N, UNKNOWN, HURT = 20, 2, 6  # questions of a task, of those not known, rows that change places
D = 32 * -(-(len(TASKS) * N + 1) // 32)
STOP = len(TASKS) * N  # the dimension that says: an answer was given
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False)


def damage(source, path, *ids):
    subprocess.run([sys.executable, os.path.join(SOURCE, "quality", "damage_head.py"), source, path,
                    *map(str, ids)], check=True)


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def array(name, kind, packed, n):
    return text("tokenizer.ggml." + name) + struct.pack("<IIQ", 9, kind, n) + packed


def vocabulary():
    """Tokens of a sentencepiece model: bytes, and each word with all its beginnings, which
    merging needs. Longer ones merge first."""
    words = [w + str(i) for t in TASKS for i in range(N) for w in (t, t[::-1])]
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    pieces = {("▁" + w)[:k] for w in words for k in range(1, len(w) + 2)}
    pieces |= {c for w in words for c in w}
    return tokens + sorted(pieces)


def write_model(path, tokens):
    at = {t: i for i, t in enumerate(tokens)}
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
            text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama")]
    for name, v in (("block_count", 1), ("context_length", 512), ("embedding_length", D),
                    ("feed_forward_length", 32), ("attention.head_count", 1)):
        keys.append(text("llama." + name) + struct.pack("<II", 4, v))
    keys.append(text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5))
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    keys.append(array("tokens", 8, b"".join(map(text, tokens)), len(tokens)))
    keys.append(array("scores", 6, struct.pack("<%df" % len(tokens), *map(len, tokens)), len(tokens)))
    keys.append(array("token_type", 5, struct.pack("<%di" % len(tokens), *kinds), len(tokens)))
    for name, v in (("bos", 1), ("eos", 2)):
        keys.append(text("tokenizer.ggml.%s_token_id" % name) + struct.pack("<II", 4, v))

    def one(i, v):
        return [v if k == i else 0.0 for k in range(D)]

    zero, unit = [0.0] * D, [x for i in range(D) for x in one(i, 1.0)]
    table, head = [zero] * len(tokens), [zero] * len(tokens)
    for k, task in enumerate(TASKS):
        for i in range(N):
            answer = at["▁%s%d" % (task[::-1], i)]
            table[at["▁%s%d" % (task, i)]] = one(k * N + i, 1.0)
            table[answer] = one(STOP, 50.0)
            if i >= UNKNOWN:
                head[answer] = one(k * N + i, 1.0)
    head[at["</s>"]] = one(STOP, 2.0)
    matrices = {"token_embd": table, "output": head}
    tensors = {n: ([D, len(m)], [x for row in m for x in row]) for n, m in matrices.items()}
    for name, rows in (("attn_q", 0), ("attn_k", 0), ("attn_v", 1), ("attn_output", 1)):
        tensors["blk.0." + name] = ([D, D], unit if rows else [0.0] * (D * D))
    for name, ne in (("ffn_gate", [D, 32]), ("ffn_up", [D, 32]), ("ffn_down", [32, D])):
        tensors["blk.0." + name] = (ne, [0.0] * (D * 32))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        tensors[name] = ([D], [1.0] * D)
    infos, data = b"", b""
    for name, (ne, values) in tensors.items():
        infos += text(name + ".weight") + struct.pack("<I%dQIQ" % len(ne), len(ne), *ne, 0, len(data))
        data += struct.pack("<%df" % len(values), *values)
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys)) + b"".join(keys) + infos
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def write_questions(folder):
    """Seven files of two columns, one with choices."""
    files = []
    for k, task in enumerate(TASKS):
        files.append(os.path.join(folder, task + ".csv"))
        with open(files[-1], "w", encoding="utf-8", newline="") as f:
            out = csv.writer(f)
            chooses = task == "tools"
            out.writerow(["question", "answer"] + (list("ABCD") if chooses else []))
            for i in range(N):
                answer = "%s%d" % (task[::-1], i)
                if chooses:  # the right one is never the first, which a tie would take
                    more = ["%s%d" % (task[::-1], (i + m) % N) for m in (1, 0, 2, 3)]
                    out.writerow(["which of %s%d ?" % (task, i), answer] + more)
                else:
                    out.writerow(["what is %s%d ?" % (task, i), answer])
    return ",".join(files)


def main(folder):
    tokens = vocabulary()
    model, hurt = os.path.join(folder, "whole.gguf"), os.path.join(folder, "hurt.gguf")
    write_model(model, tokens)
    victim = "months"
    damage(model, hurt, *(tokens.index("▁%s%d" % (victim[::-1], i)) for i in
                          range(UNKNOWN, UNKNOWN + HURT)))
    page, scores = os.path.join(folder, "page.html"), os.path.join(folder, "scores")
    args = ("eval", "retention", "--baseline", model, "-m", hurt, "--tasks", write_questions(folder),
            "--scores", scores, "--max-tokens", "8")
    done = run(*args, "--json", "--quiet", "--report", page)
    check("measured", done.returncode == 0, done.stderr)
    if done.returncode:
        return
    j = json.loads(done.stdout)
    known = (N - UNKNOWN) / N
    check("as the model was made", all(abs(t["baseline"] - known) < 1e-9 for t in j["tasks"]), j)
    left = {t["name"]: t["retention"] for t in j["tasks"]}
    want = (N - UNKNOWN - HURT) / (N - UNKNOWN)
    check("one task is hurt", all(abs(r - (want if n == victim else 1)) < 1e-9
                                  for n, r in left.items()) and len(left) == len(TASKS), left)
    check("the mean looks fine", 0.95 < j["mean_retention"] < 0.96, j["mean_retention"])
    check("all tasks count", j["tasks_counted"] == len(TASKS), j["tasks_counted"])
    check("named as the worst", j["worst_task"] == victim == j["tasks"][0]["name"], j["worst_task"])
    check("warning in JSON", "hides a collapse: on months" in j.get("warning", ""), j.get("warning"))
    with open(page, encoding="utf-8") as f:
        body = f.read().split("<script", 1)[0]
    check("warning on the page", 'class="warn"' in body and "hides a collapse: on months" in body)
    check("worst on top of the page", body.index(">months<") < body.index(">animals<"))
    done = run(*args)
    check("warning in the terminal", "WARNING: The mean of 95" in done.stdout and
          "collapse: on months only 66.7" in done.stdout, done.stdout, done.stderr)
    check("first in the table", done.stdout.index("\nmonths") < done.stdout.index("\nanimals"))
    result = os.path.join(folder, "result.json")
    with open(result, "w", encoding="utf-8") as f:
        json.dump(j, f)
    done = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "recompute.py"), result, scores],
                          capture_output=True, text=True, check=False)
    check("recomputed", done.returncode == 0, done.stdout, done.stderr)

    # Another cache is another setting: kept scores are of one of them.
    done = run(*args, "--cache", "q8_0")
    check("kept with another cache", done.returncode == 1 and "other settings" in done.stderr, done.stderr)
    few = args[:6] + ("--tasks", os.path.join(folder, "months.csv"), "--max-tokens", "8")
    done = run(*few, "--cache", "q8_0", "--scores", os.path.join(folder, "q8"), "--json", "-q")
    check("another cache", done.returncode == 0 and abs(json.loads(done.stdout)["mean_retention"] - want)
          < 1e-9, done.stderr)
    check("is named", json.loads(done.stdout)["tasks"][0]["settings"].get("cache") == "q8_0", done.stdout)
    check("weights are named", len({j.get("weights_sha256"), j.get("weights_sha256_baseline"), None}) == 3
          and j["fingerprint"] == j["fingerprint_baseline"], j.get("weights_sha256"))

    # A head that is tied: the copy with a head of its own says the same to the last bit.
    copy, story = os.path.join(folder, "untied.gguf"), os.path.join(folder, "story.txt")
    damage(STORIES, copy)
    with open(story, "w", encoding="utf-8") as f:
        f.write("Once upon a time, there was a little girl named Lily. " * 40)
    both = [run("eval", "ppl", "-m", m, "--text", story, "-c", "64", "--chunks", "2", "--json", "-q")
            for m in (STORIES, copy)]
    check("an untied copy is the same", both[0].returncode == 0 == both[1].returncode and
          len({json.loads(b.stdout)["nll"] for b in both}) == 1, both)


with tempfile.TemporaryDirectory() as tmp:
    main(tmp)
sys.exit(1 if failures else 0)
