"""tiers.py fast|normal MODEL TRAIN TEXT... - rows of the embedding in two types by how often
their token occurs, as rows of tiers.csv.

Everything else stays as in MODEL, so that the divergence is the embedding's alone (and the
head's, where they are one). Types are made by `compress` of that effort (normal: compensated
in the head's metric, on 4,096 tokens of TRAIN), one for the whole table and then, of the tokens that are most frequent in TRAIN, the first 5, 10, 20 and 40 %
of the rows in a larger type and the others in a smaller. Scored: 16 windows of 512 of each
TEXT, 8-bit activations. docs/COMPRESS.md has the decision. Needs gguf and numpy.
"""
import collections
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE.parent / "build" / "quality"
PROGRAM = os.environ.get("B2_PROGRAM", str(HERE.parent / "build" / "release" / "bonsai2"))
TABLE = "token_embd.weight"
TYPES = ("B2_T64", "B2_Q2", "B2_Q3", "Q4_0")
TIERS = {"fast": (("Q4_0", "B2_T64"), ("B2_Q3", "B2_T64"), ("Q4_0", "B2_Q2")),
         "normal": (("Q4_0", "B2_Q2"),)}
SHARES = (.05, .1, .2, .4)
HEADER = "date,model,effort,rows,bits,text,kld,kld_stderr,ppl_ratio,chunks,version"


def run(*words, text=None):
    return subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True, text=True,
                          input=text).stdout


def table_of(path, mode="r"):
    file = gguf.GGUFReader(str(path), mode)
    return file, next(t for t in file.tensors if t.name == TABLE)


def as_type(model, kind, how):
    """(values [tokens, width] F32, bits of a weight) of the table in a type."""
    packed, plain = WORK / "tiers-type.gguf", WORK / "tiers-plain.gguf"
    run("compress", model, "-o", packed, "--force", "-q", "--rule", "*=keep", "--rule",
        f"{TABLE}={kind}", *how)
    run("export", packed, "--format", "gguf-f32", "-o", plain, "--force", "-q")
    info = json.loads(run("inspect", packed, "--json"))
    entry = next(t for t in info["tensors"] if t["name"] == TABLE)
    values = np.array(table_of(plain)[1].data, np.float32)
    packed.unlink()
    plain.unlink()
    return values, 8 * entry["bytes"] / values.size


def main():
    if len(sys.argv) < 5 or sys.argv[1] not in TIERS:
        raise SystemExit("usage: tiers.py fast|normal MODEL TRAIN TEXT...")
    effort, model, train, texts = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    how = ["--calib", train, "--calib-tokens", 4096] if effort == "normal" else []
    WORK.mkdir(parents=True, exist_ok=True)
    made = {kind: as_type(model, kind, how) for kind in TYPES}
    words = pathlib.Path(train).read_text(encoding="utf-8", errors="ignore")[:2_000_000]
    ids = json.loads(run("tokenize", "-m", model, "--stdin", "--no-bos", "--json", text=words))
    counts = collections.Counter(ids["ids"])
    n = len(made[TYPES[0]][0])
    order = sorted(range(n), key=lambda i: -counts[i])
    base = WORK / "tiers.gguf"
    run("compress", model, "-o", base, "--force", "-q", "--rule", "*=keep", "--rule", f"{TABLE}=F32")
    arms = [(kind, *made[kind]) for kind in TYPES]
    for high, low in TIERS[effort]:
        for share in SHARES:
            hot = order[:round(share * n)]
            values = made[low][0].copy()
            values[hot] = made[high][0][hot]
            arms.append((f"{high} {share:.0%}, {low}", values,
                         share * made[high][1] + (1 - share) * made[low][1]))
    out = HERE / "tiers.csv"
    if not out.exists():
        out.write_text(HEADER + "\n", encoding="utf-8")
    with open(out, "a", newline="", encoding="utf-8") as f:
        rows = csv.writer(f, lineterminator="\n")
        for name, values, bits in arms:
            file, table = table_of(base, "r+")
            table.data[:] = values.reshape(table.data.shape)
            file.data.flush()
            for text in texts:
                k = json.loads(run("eval", "kld", "-m", base, "--baseline", model, "--text", text,
                                   "--ctx", 512, "--chunks", 16, "--json"))
                rows.writerow([datetime.date.today().isoformat(), pathlib.Path(model).stem, effort, name,
                               "%.3f" % bits, os.path.basename(text), "%.4f" % k["mean_kld"],
                               "%.4f" % k["kld_stderr"], "%.4g" % k["ppl_ratio"], k["chunks"],
                               k["version"]])
            f.flush()
            print(name, "%.3f bits, KL %.4f" % (bits, k["mean_kld"]), flush=True)
    base.unlink()


main()
