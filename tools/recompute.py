#!/usr/bin/env python3
"""recompute.py - every figure of a result again, from the kept scores of its items.

    recompute.py RESULT.json SCORES [BASELINE_SCORES]

RESULT.json is what `eval retention`, `kld` or `loops` printed with --json; SCORES the folder
that --scores named; for `retention` also the candidate's own folder of scores, with the
baseline's behind it. Nothing of bonsai2 is used: means are means, intervals come from a
bootstrap of Python's own generator, so they agree within its noise. Prints each figure that does not; exit 1 if there is one.
"""
import csv
import json
import math
import os
import random
import sys

bad = []


def same(what, got, want, eps=1e-6):
    if got is None or want is None or not abs(got - want) <= eps * max(1.0, abs(want)):
        bad.append("%s: result %s, recomputed %s" % (what, got, want))


def quantile(x, p):
    at = p * (len(x) - 1)
    low = int(at)
    return x[low] + (at - low) * (x[min(low + 1, len(x) - 1)] - x[low])


def interval(num, den):
    """95 % of sum(num) / sum(den) over items (or clusters) drawn with replacement."""
    pairs, draws, rng = list(zip(num, den)), [], random.Random(1)
    while len(draws) < (1000 if len(pairs) > 50 else 8000):  # few make a coarse distribution
        pick = rng.choices(pairs, k=len(pairs))
        below = sum(d for _, d in pick)
        if below > 0:
            draws.append(sum(n for n, _ in pick) / below)
    draws.sort()
    return quantile(draws, 0.025), quantile(draws, 0.975)


def near(what, got, want):
    """Two bootstraps of one sample: ends within a tenth of the width, or a hair."""
    for g, w in zip(got, want):
        same(what, g, w, max(0.12 * (want[1] - want[0]), 1e-9) / max(1.0, abs(w)))


def mcnemar(up, down):
    n = up + down
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(min(up, down) + 1)) / 2**n)


def items(path):
    with open(path, encoding="utf-8") as f:
        head = json.loads(f.readline())
        rows = [json.loads(line) for line in f]
    weight = head["metric"]
    return head, {r["id"]: (r["score"], r.get("weights", {}).get(weight, 1)) for r in rows}


def retention(result, scores, baseline):
    kept = []
    for t in result["tasks"]:
        head, a = items(os.path.join(baseline, t["name"] + ".jsonl"))
        mine, b = items(os.path.join(scores, t["name"] + ".jsonl"))
        if mine["fingerprint"] != result["fingerprint"]:
            sys.exit("%s holds scores of %s, the result is of %s" %
                     (scores, mine["model"], result["model"]))
        ids = [i for i in a if i in b]
        w = [a[i][1] for i in ids]
        x, y, c = [a[i][0] * a[i][1] for i in ids], [b[i][0] * a[i][1] for i in ids], head["chance"]
        same(t["name"] + " n", t["n"], len(ids))
        same(t["name"] + " baseline", t["baseline"], sum(x) / sum(w))
        same(t["name"] + " candidate", t["candidate"], sum(y) / sum(w))
        up = sum(b[i][0] > a[i][0] for i in ids)
        down = sum(b[i][0] < a[i][0] for i in ids)
        same(t["name"] + " McNemar", t["mcnemar_p"], mcnemar(up, down))
        mean, n = sum(x) / sum(w), len(ids)
        spread = math.sqrt(sum((v - u * mean)**2 for v, u in zip(x, w))) / sum(w)
        chance = mean - 1.6448536269514722 * spread <= c
        if chance != t["at_chance"]:
            bad.append("%s: at chance is %s" % (t["name"], chance))
        if chance:
            continue
        same(t["name"] + " retention", t["retention"], sum(y) / sum(x))
        same(t["name"] + " over chance", t["corrected"],
             (sum(y) - c * sum(w)) / (sum(x) - c * sum(w)))
        near(t["name"] + " interval", (t["ci_low"], t["ci_high"]), interval(y, x))
        half = (t["ci_high"] - t["ci_low"]) / 2
        same(t["name"] + " needed", t["n_needed"], max(299, math.ceil(n * (half / .01)**2)))
        kept.append((sum(y) / sum(x), t["name"]))
    if kept:
        same("mean", result["mean_retention"], sum(r for r, _ in kept) / len(kept))
        same("geometric", result["geometric_mean"], math.prod(r for r, _ in kept)**(1 / len(kept)))
        if result["worst_task"] != min(kept)[1]:
            bad.append("worst task: %s" % min(kept)[1])
        if ("warning" in result) != (sum(r for r, _ in kept) / len(kept) > .95 and min(kept)[0] < .85):
            bad.append("warning")


def kld_figures(what, result, rows):
    kld = sorted(r["kld"] for r in rows)
    n, mean = len(rows), lambda f: sum(map(f, rows)) / len(rows)
    dp = lambda r: math.exp(-r["nll"]) - math.exp(-r["nll_baseline"])  # noqa: E731
    same(what + " n", result["n_tokens"], n)
    same(what + " mean", result["mean_kld"], mean(lambda r: r["kld"]))
    for key, p in ("median_kld", .5), ("p90_kld", .9), ("p99_kld", .99), ("max_kld", 1):
        same(what + " " + key, result[key], quantile(kld, p))
    same(what + " same top", result["same_top1"], mean(lambda r: r["same_top1"]))
    same(what + " dp", result["dp_mean"], mean(dp))
    same(what + " dp rms", result["dp_rms"], math.sqrt(mean(lambda r: dp(r)**2)))
    same(what + " ppl", result["ppl"], math.exp(mean(lambda r: r["nll"])))
    same(what + " ppl base", result["ppl_baseline"], math.exp(mean(lambda r: r["nll_baseline"])))
    same(what + " ratio", result["ppl_ratio"], math.exp(mean(lambda r: r["nll"] - r["nll_baseline"])))
    groups = {}
    for r in rows:
        groups.setdefault(r["cluster"], []).append(r)
    count = [len(g) for g in groups.values()]
    for key, f in (("mean_kld_ci", lambda r: r["kld"]), ("same_top1_ci", lambda r: r["same_top1"]),
                   ("dp_mean_ci", dp)):
        near(what + " " + key, result[key],
             interval([sum(map(f, g)) for g in groups.values()], count))


def kld(result, scores, _):
    path = os.path.join(scores, "kld-%s.tsv" % os.path.basename(result["model"]))
    with open(path, encoding="utf-8", newline="") as f:
        rows = [{k: v if k == "region" else float(v) for k, v in r.items()}
                for r in csv.DictReader(f, delimiter="\t")]
    kld_figures("all", result, rows)
    for g in result["regions"]:
        kld_figures(g["name"], g, [r for r in rows if r["region"] == g["name"]])
    for b in result["by_position"]:
        part = [r["kld"] for r in rows if b["from"] <= r["position"] < b["to"]]
        same("position %d" % b["from"], b["mean_kld"], sum(part) / len(part))


def loops(result, scores, _):
    for prefix, model in ("", result["model"]), ("baseline_", result.get("baseline")):
        if not model:
            continue
        path = os.path.join(scores, "loops-%s.ndjson" % os.path.basename(model))
        with open(path, encoding="utf-8") as f:
            rows = [json.loads(line) for line in f][1:]
        for part in [result] + result["slices"]:
            rs = [r for r in rows if r["slice"] == part.get("name", r["slice"])]
            mean = lambda key: sum(r[key] for r in rs) / len(rs)  # noqa: E731,B023
            same("loops n", part["n"], len(rs))
            for key, name in (("loop", "loop_rate"), ("limit", "limit_rate"),
                              ("distinct4", "distinct4"), ("compression", "compression")):
                same("%s %s%s" % (part.get("name", "all"), prefix, name), part[prefix + name], mean(key))
            same("cycle", part[prefix + "longest_cycle"], max(r["cycle"] for r in rs))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as f:
        result = json.load(f)
    baseline = sys.argv[3] if len(sys.argv) == 4 else None
    results = result.get("candidates", [result])
    if baseline is None and result["measure"] == "retention":  # a folder for each model
        for r in results:
            retention(r, *(os.path.join(sys.argv[2], os.path.basename(r[k].rstrip("/"))) for k in ("model", "baseline")))
        results = []
    if len(results) > 1 and result["measure"] == "retention":  # the one these scores are of
        names = [n for n in sorted(os.listdir(sys.argv[2])) if n.endswith(".jsonl")]
        with open(os.path.join(sys.argv[2], names[0]), encoding="utf-8") as f:
            mine = json.loads(f.readline())["fingerprint"]
        results = [r for r in results if r["fingerprint"] == mine]
        if not results:
            sys.exit("no candidate of %s has scores in %s" % (sys.argv[1], sys.argv[2]))
    for r in results:
        {"retention": retention, "kld": kld, "loops": loops}[r["measure"]](r, sys.argv[2], baseline)
    print("\n".join(bad) if bad else "every figure is the same")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
