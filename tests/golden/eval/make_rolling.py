"""make_rolling.py - loglikelihood_rolling of lm-evaluation-harness itself, on a small folder.

    python3 make_rolling.py > rolling.json

Needs torch, transformers and lm_eval (its --no-deps wheel does; modules that only other
models of it need are stubbed). The text is the first part of examples/text/austen.txt;
the model is ../arch/llama-linear, in F32. Values are the sums over the text for several
window lengths. tests/cli/test_eval_more.py compares `eval ppl --convention rolling --exact`.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types

import torch
import transformers

STUBS = {"datasets", "evaluate", "sacrebleu", "rouge_score", "sqlitedict", "jsonlines",
         "pytablewriter", "word2number", "zstandard", "more_itertools", "accelerate", "peft",
         "typepy", "sklearn", "nltk", "dill", "tenacity", "requests", "aiohttp", "tqdm_multiprocess"}
STUBS = {n for n in STUBS if importlib.util.find_spec(n) is None}


class Stub(types.ModuleType):
    """A module in which every name is an empty class."""
    __path__ = []

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return type(key, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STUBS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())

import lm_eval  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "arch", "llama-linear")
CHARS = 6000
with open(os.path.join(HERE, "..", "..", "..", "examples", "text", "austen.txt"),
          encoding="utf-8") as f:
    text = f.read()[:CHARS]
torch.manual_seed(0)
model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
rows = []
for ctx in (32, 96, 256):
    lm = HFLM(pretrained=model, tokenizer=tokenizer, max_length=ctx, batch_size=1, device="cpu",
              prefix_token_id=model.config.bos_token_id)
    [total] = lm.loglikelihood_rolling(
        [Instance("loglikelihood_rolling", {}, (text,), 0)], disable_tqdm=True)
    rows.append({"ctx": ctx, "loglikelihood": total})
json.dump({"lm_eval": lm_eval.__version__ if hasattr(lm_eval, "__version__") else "0.4",
           "transformers": transformers.__version__, "torch": torch.__version__,
           "chars": CHARS, "n_tokens": len(tokenizer(text, add_special_tokens=False).input_ids),
           "rows": rows}, sys.stdout, indent=1)
print()
