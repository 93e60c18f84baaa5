"""A Hugging Face folder and its GGUF are one model: same tensors, same tokens.

    test_folder.py BONSAI2 [MODEL.gguf]    without MODEL: the real one

The folder is made in BF16 from the GGUF; a GGUF in F32 made from the folder then holds
exactly those rounded values, with the q and k rows in the other order.
"""
import json
import os
import subprocess
import sys
import tempfile

from real_model import find_model

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] if len(sys.argv) > 2 else find_model()


def program(*args):
    done = subprocess.run([PROGRAM, *args], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s: exit %d\n%s" % (" ".join(args), done.returncode, done.stderr))
    return done.stdout


def run(model):
    return json.loads(program("run", "-m", model, "-p", "Once upon a time", "-n", "24",
                              "--exact", "--json", "--quiet"))


def table(model):
    return {t["name"]: t["shape"]
            for t in json.loads(program("inspect", model, "--json"))["tensors"]}


with tempfile.TemporaryDirectory() as d:
    folder, back = os.path.join(d, "hf"), os.path.join(d, "back.gguf")
    program("export", MODEL, "--format", "hf-bf16", "-o", folder, "--quiet")
    program("export", folder, "--format", "gguf-f32", "-o", back, "--quiet")
    assert table(folder) == table(back) == table(MODEL)
    a, b, first = run(folder), run(back), run(MODEL)
    assert a["prompt_ids"] == b["prompt_ids"] == first["prompt_ids"]
    assert a["tokens"] == b["tokens"]
    assert a["logits_sha256"] == b["logits_sha256"] != first["logits_sha256"]
    assert a["tokens"][:8] == first["tokens"][:8]  # the rounding is that small
