#!/usr/bin/env python3
"""Writes logprob.inc, summary.inc and rolling.inc: values for the tests of eval/, by NumPy and by the
window function of lm-evaluation-harness. Run in this folder: python3 make_eval.py"""
import numpy as np

# lm_eval/utils.py of lm-evaluation-harness 0.4 (MIT licence), copied: the definition.
def get_rolling_token_windows(token_list, prefix_token, max_seq_len, context_len):
    assert 1 <= context_len <= max_seq_len
    if not token_list:
        return
    pred_len = max_seq_len - context_len + 1
    predicted = 0
    first_seq_len = min(max_seq_len, len(token_list))
    yield [prefix_token] + token_list[: first_seq_len - 1], token_list[:first_seq_len]
    predicted += first_seq_len
    while predicted < len(token_list):
        window_pred_len = min(len(token_list) - predicted, pred_len)
        window_end = predicted + window_pred_len
        yield (
            token_list[window_end - max_seq_len - 1 : window_end - 1],
            token_list[window_end - window_pred_len : window_end],
        )
        predicted += window_pred_len


def rows():
    """Scripted logits: row r, entry v, exact in F32 (multiples of 1/8)."""
    for r in range(12):
        v = np.arange(50)
        base = ((v * 37 + r * 11) % 101 - 50) / 8.0
        cand = base + ((v * 13 + r * 7) % 9 - 4) / 8.0
        if r == 5:
            cand = base.copy()
        if r == 9:  # a tie for the largest
            base[3] = base[40] = 20.0
            cand[40] = cand[3] = 20.0
        yield r, base, cand


def log_softmax(x):
    x = x.astype(np.float64)
    m = x.max()
    return x - m - np.log(np.exp(x - m).sum())


def main():
    with open("logprob.inc", "w") as f:
        f.write("/* target, lse base, lse candidate, argmax base, argmax candidate, nll,\n"
                "   divergence; by NumPy, see SOURCE.txt */\n")
        klds, nlls, nllb, same = [], [], [], 0
        for r, b, c in rows():
            t = (r * 17 + 5) % 50
            lb, lc = log_softmax(b), log_softmax(c)
            kld = float((np.exp(lb) * (lb - lc)).sum())
            klds.append(kld)
            nlls.append(-lc[t])
            nllb.append(-lb[t])
            same += int(b.argmax() == c.argmax())
            f.write("{%d, %.17g, %.17g, %d, %d, %.17g, %.17g},\n"
                    % (t, b[0] - lb[0], c[0] - lc[0], b.argmax(), c.argmax(), -lc[t], kld))
    n = len(klds)
    with open("summary.inc", "w") as f:
        f.write("/* name, value; by NumPy, see SOURCE.txt */\n")
        for name, x in [("mean_kld", np.mean(klds)),
                        ("kld_stderr", np.std(klds) / np.sqrt(n - 1)),
                        ("median_kld", np.median(klds)),
                        ("p90_kld", np.percentile(klds, 90)),
                        ("p99_kld", np.percentile(klds, 99)),
                        ("max_kld", np.max(klds)),
                        ("same_top1", same / n),
                        ("ppl", np.exp(np.mean(nlls))),
                        ("ppl_baseline", np.exp(np.mean(nllb))),
                        ("ppl_ratio", np.exp(np.mean(nlls) - np.mean(nllb)))]:
            f.write('{"%s", %.17g},\n' % (name, x))
    with open("rolling.inc", "w") as f:
        f.write("/* text tokens, ctx, window, inputs, first input, first scored position,\n"
                "   first target, last target; token i of the text is 100 + i, the prefix 7;\n"
                "   by lm-evaluation-harness's function, see SOURCE.txt */\n")
        for n, ctx in [(1, 8), (7, 8), (8, 8), (9, 8), (16, 8), (21, 8), (40, 16), (100, 32)]:
            text = [100 + i for i in range(n)]
            for w, (inp, tgt) in enumerate(get_rolling_token_windows(text, 7, ctx, 1)):
                f.write("{%d, %d, %d, %d, %d, %d, %d, %d},\n"
                        % (n, ctx, w, len(inp), inp[0], len(inp) - len(tgt), tgt[0], tgt[-1]))


main()
