"""lookup.py MODEL TRAIN TEXT... - how much of the identity a tied table's metric wants, as
lookup.csv.

A table that is the head and is looked up too is rounded to codes of groups of 64 with error
compensation (no refinement) in the metric H + x m I: H of the head's inputs on 16 windows
of 512 of TRAIN, m its mean diagonal. Divergence in nat from the model as it came, on 6
windows of each TEXT, second half scored, F32, PyTorch alone: with that table in both places,
as the head alone, and for looking up alone. x "none": each row rounded by itself.
docs/COMPRESS.md has the decision. Needs gguf, numpy, torch, transformers, accelerate.
"""
import csv
import os
import pathlib
import sys

import torch
import transformers

GROUP, ROWS, WINDOW = 64, 8192, 512
KINDS = {"3 levels": torch.tensor([-1., 0, 1]), "4 levels": torch.tensor([-1.5, -.5, .5, 1.5])}
SHARES = (.1, 1., 10.)


def load(model):
    folder, name = os.path.split(os.path.abspath(model))
    words = {"pretrained_model_name_or_path": folder, "gguf_file": name}
    return (transformers.AutoTokenizer.from_pretrained(**words),
            transformers.AutoModelForCausalLM.from_pretrained(**words, dtype=torch.float32).eval())


def nearest(w, levels):
    return levels[(w[..., None] - levels).abs().argmin(-1)]


def fit(w, levels):
    """The scale of least squared error of each row of w [rows, GROUP]."""
    top = w.abs().amax(1, keepdim=True)
    best = error = None
    for f in torch.linspace(.3, 1.1, 17):
        q = nearest(w / (top * f / levels.max() + 1e-20), levels)
        s = (w * q).sum(1, keepdim=True) / ((q * q).sum(1, keepdim=True) + 1e-12)
        e = ((w - s * q) ** 2).sum(1, keepdim=True)
        best = s if best is None else torch.where(e < error, s, best)
        error = e if error is None else torch.minimum(e, error)
    return best


def rounded(table, levels, h):
    """h None: by itself; else the metric."""
    d = table.shape[1]
    u = (torch.eye(d) if h is None else
         torch.linalg.cholesky(torch.linalg.inv(h)).T.contiguous().float())
    out = torch.empty_like(table)
    for r in range(0, len(table), ROWS):
        w = table[r:r + ROWS].clone()
        for g in range(0, d, GROUP):
            s = fit(w[:, g:g + GROUP], levels)
            lost = torch.zeros(len(w), GROUP)
            for j in range(g, g + GROUP):
                q = s * nearest(w[:, j:j + 1] / (s + 1e-20), levels)
                out[r:r + ROWS, j:j + 1] = q
                e = (w[:, j:j + 1] - q) / u[j, j]
                lost[:, j - g:j - g + 1] = e
                w[:, j:g + GROUP] -= e @ u[j:j + 1, j:g + GROUP]
            w[:, g + GROUP:] -= lost @ u[g:g + GROUP, g + GROUP:]
    return out


def main():
    if len(sys.argv) < 4:
        raise SystemExit("usage: lookup.py MODEL TRAIN TEXT...")
    model, train, texts = sys.argv[1], sys.argv[2], sys.argv[3:]
    words, net = load(model)
    table = net.model.embed_tokens.weight.detach().clone()
    d = table.shape[1]

    def ids_of(text):
        return torch.tensor([words(text)["input_ids"][:WINDOW]])

    def scores(head, embedding, ids):
        net.model.embed_tokens.weight.data = embedding
        x = net.model(ids).last_hidden_state[0, WINDOW // 2:]
        return torch.log_softmax(x @ head.T, -1)

    with torch.no_grad(), open(pathlib.Path(__file__).with_name("lookup.csv"), "w", newline="",
                               encoding="utf-8") as f:
        text = pathlib.Path(train).read_text(encoding="utf-8")
        h = torch.zeros(d, d, dtype=torch.float64)
        for i in range(16):
            at = int(len(text) * (i + .5) / 16)
            x = net.model(ids_of(text[at:at + 4000])).last_hidden_state[0].double()
            h += x.T @ x
        mean = h.diagonal().mean() * torch.eye(d, dtype=torch.float64)
        sets = {}
        for path in texts:
            ids = words(pathlib.Path(path).read_text(encoding="utf-8", errors="ignore")[:24000])
            sets[path] = [torch.tensor([ids["input_ids"][i * WINDOW:(i + 1) * WINDOW]])
                          for i in range(6)]
        want = {path: [scores(table, table, x) for x in seqs] for path, seqs in sets.items()}
        rows = csv.writer(f, lineterminator="\n")
        rows.writerow("model,codes,x,text,both,head,lookup".split(","))
        for kind, levels in KINDS.items():
            for x in (None, *SHARES):
                q = rounded(table, levels, None if x is None else h + x * mean)
                for path, seqs in sets.items():
                    lost = []
                    for head, embedding in ((q, q), (q, table), (table, q)):
                        kld = [(t.exp() * (t - scores(head, embedding, ids))).sum(-1).mean().item()
                               for t, ids in zip(want[path], seqs)]
                        lost.append("%.3f" % (sum(kld) / len(kld)))
                    rows.writerow([pathlib.Path(model).stem, kind, "none" if x is None else x,
                                   os.path.basename(path), *lost])
                f.flush()


main()
