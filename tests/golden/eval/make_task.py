#!/usr/bin/env python3
"""Log-likelihoods of task items, by lm-evaluation-harness's prompts and llama.cpp.

    make_task.py F32.gguf DATA > task_loglik.jsonl

Templates and the cutting into context and continuation come from the package lm_eval
(its YAML files and TemplateLM._encode_pair), tokens and logits from llama.cpp through
tests/oracle/llama.py, with all weights in F32 and an F32 cache. Needs lm_eval, torch (of
which lm_eval wants only to import it) and the packages of tests/oracle/requirements.txt.
"""
import csv
import importlib.util
import json
import os
import random
import sys
import types

import numpy as np
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "oracle"))
import llama  # noqa: E402
from lm_eval.api.model import TemplateLM  # noqa: E402
from lm_eval.utils import apply_template  # noqa: E402

MODEL, DATA = sys.argv[1:3]
TASKS = os.path.join(os.path.dirname(importlib.util.find_spec("lm_eval").origin), "tasks")
N, SEED = 100, 20261129


class Tokens(TemplateLM):
    """The harness's view of llama.cpp's tokenizer."""
    backend = "causal"

    def __init__(self, model):
        super().__init__()
        self.model = model

    def tok_encode(self, string, **_):
        return self.model.tokenize(string, add_special=False)

    eot_token_id = None
    tokenizer_name = "llama.cpp"

    def _loglikelihood_tokens(self, requests, **_):
        raise NotImplementedError

    loglikelihood_rolling = generate_until = _loglikelihood_tokens


class Cached:
    """Logits behind a sequence; what it shares with the one before is not read again."""

    def __init__(self, model):
        self.model, self.ids = model, []
        self.memory = llama.lib.llama_get_memory(model.context)

    def tail(self, ids, n):
        """[n, n_vocab] behind the last n tokens of ids."""
        keep = 0
        while (keep < min(len(self.ids), len(ids) - n) and self.ids[keep] == ids[keep]):
            keep += 1
        llama.lib.llama_memory_seq_rm(self.memory, 0, keep, -1)
        fresh = ids[keep:]
        batch = llama.lib.llama_batch_init(len(fresh), 0, 1)
        batch.n_tokens = len(fresh)
        for i, token in enumerate(fresh):
            batch.token[i], batch.pos[i] = token, keep + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = 1 if i >= len(fresh) - n else 0
        if llama.lib.llama_decode(self.model.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        llama.lib.llama_batch_free(batch)
        self.ids = list(ids)
        flat = llama.ffi.buffer(llama.lib.llama_get_logits(self.model.context),
                                n * self.model.n_vocab * 4)
        return np.frombuffer(flat, np.float32).reshape(n, -1).astype(np.float64)


def description(*path):
    """A task's YAML with what it includes; !function becomes None."""
    class Loader(yaml.SafeLoader):
        pass
    Loader.add_constructor("!function", lambda loader, node: None)
    name = os.path.join(TASKS, *path)
    with open(name, encoding="utf-8") as f:
        d = yaml.load(f, Loader)
    if "include" in d:
        d = {**description(*path[:-1], d.pop("include")), **d}
    return d


def hellaswag_preprocess():
    sys.modules.setdefault("datasets", types.SimpleNamespace(Dataset=None))
    spec = importlib.util.spec_from_file_location(
        "hellaswag_utils", os.path.join(TASKS, "hellaswag", "utils.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.preprocess


def jsonl(name):
    with open(os.path.join(DATA, "commonsense", name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def arc_docs():
    """(id, template, document, what stands before it, choices, gold) of ARC-easy."""
    d = description("arc", "arc_easy.yaml")
    for i, row in enumerate(jsonl("arc_easy_test.jsonl")):
        doc = {"question": row["question"],
               "choices": {"text": row["choices"],
                           "label": [str(k) for k in range(len(row["choices"]))]},
               "answerKey": str(row["answer"])}
        yield (str(i), d["doc_to_text"], doc, "", row["choices"], row["answer"])


def hellaswag_docs():
    preprocess = hellaswag_preprocess()
    for i, row in enumerate(jsonl("hellaswag_valid.jsonl")):
        yield (str(i), "{{query}}", {"query": preprocess(row["question"])}, "",
               [preprocess(c) for c in row["choices"]], row["answer"])


def mmlu_rows(folder, subject):
    name = os.path.join(DATA, "mmlu", folder, "%s_%s.csv" % (subject, folder))
    with open(name, encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            yield {"question": row["question"], "answer": int(row["answer"]),
                   "choices": [row["choice%d" % k] for k in range(4)]}


def mmlu_docs(shots):
    names = sorted(n[:-len("_test.csv")]
                   for n in os.listdir(os.path.join(DATA, "mmlu", "test")))
    for subject in names:
        d = description("mmlu", "default", "mmlu_%s.yaml" % subject)
        letters = d["doc_to_choice"]
        head = d["description"]
        for row in list(mmlu_rows("dev", subject))[:shots]:
            head += (apply_template(d["doc_to_text"], row) + " " +
                     letters[row[d["doc_to_target"]]] + "\n\n")
        for i, row in enumerate(mmlu_rows("test", subject)):
            yield ("%s/%d" % (subject, i), d["doc_to_text"], row, head, letters,
                   row[d["doc_to_target"]])


def main():
    draw = random.Random(SEED)
    tasks = [("arc_easy", 0, N, list(arc_docs())),
             ("hellaswag", 0, N, list(hellaswag_docs())),
             ("mmlu", 0, N, list(mmlu_docs(0))),
             ("mmlu", 5, 10, list(mmlu_docs(5)))]
    with llama.opened(MODEL, ctx=2048, threads=1, cache="f32") as model:
        tokens, cached = Tokens(model), Cached(model)
        for task, shots, n, docs in tasks:
            for at in sorted(draw.sample(range(len(docs)), n)):
                name, template, doc, head, choices, gold = docs[at]
                context = head + apply_template(template, doc)
                lls, rows, inputs = [], None, None
                for choice in choices:
                    ctx, cont = tokens._encode_pair(context, " " + choice)
                    ids = (ctx + cont)[:-1]
                    if ids != inputs:  # one-token continuations share their input
                        logits = cached.tail(ids, len(cont))
                        top = logits.max(axis=1, keepdims=True)
                        rows = logits - top - np.log(
                            np.exp(logits - top).sum(axis=1, keepdims=True))
                        inputs = ids
                    lls.append(float(sum(rows[i, t] for i, t in enumerate(cont))))
                lengths = np.array([float(len(c)) for c in choices])
                print(json.dumps({
                    "task": task, "shots": shots, "id": name,
                    "loglik": [round(x, 6) for x in lls],
                    "acc": int(np.argmax(lls) == gold),
                    "acc_norm": int(np.argmax(np.array(lls) / lengths) == gold)}),
                    flush=True)


main()
