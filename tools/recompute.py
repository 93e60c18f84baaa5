#!/usr/bin/env python3
"""recompute.py - every figure of a result again, from the kept scores of its items.

    recompute.py RESULT.json SCORES [BASELINE_SCORES]
    recompute.py BLIND.json VOTES.json KEY.json
    recompute.py SPEED.json -

RESULT.json is what a measure of `eval` printed with --json; SCORES the folder that --scores
named; for `retention` also the candidate's own folder of scores, with the baseline's behind it.
A result of `speed` holds its runs itself. Nothing of bonsai2 is used: means are means, intervals come from a
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


def binomial_interval(k, n):
    """Clopper-Pearson, 95 %, by halving."""
    def tail(p, ks):
        return sum(math.comb(n, i) * p**i * (1 - p)**(n - i) for i in ks)

    def solve(rises, ks):
        low, high = 0.0, 1.0
        for _ in range(60):
            p = (low + high) / 2
            low, high = (p, high) if (tail(p, ks) < .025) == rises else (low, p)
        return low
    return (solve(True, range(k, n + 1)) if k else 0.0,
            solve(False, range(0, k + 1)) if k < n else 1.0)


def loops(result, scores, _):
    kept = {}
    for prefix, model in ("", result["model"]), ("baseline_", result.get("baseline")):
        if not model:
            continue
        path = os.path.join(scores, "loops-%s.ndjson" % os.path.basename(model))
        with open(path, encoding="utf-8") as f:
            rows = kept[prefix] = [json.loads(line) for line in f][1:]
        for part in [result] + result["slices"]:
            rs = [r for r in rows if r["slice"] == part.get("name", r["slice"])]
            mean = lambda key: sum(r[key] for r in rs) / len(rs)  # noqa: E731,B023
            what = "%s %s" % (part.get("name", "all"), prefix)
            same("loops n", part["n"], len(rs))
            for key, name in (("loop", "loop_rate"), ("limit", "limit_rate"),
                              ("distinct4", "distinct4"), ("compression", "compression")):
                same(what + name, part[prefix + name], mean(key))
            same("cycle", part[prefix + "longest_cycle"], max(r["cycle"] for r in rs))
            ends, n = part[prefix + "loop_rate_ci"], result["samples"]
            if n == 1:
                for got, want in zip(ends, binomial_interval(sum(r["loop"] for r in rs), len(rs))):
                    same(what + "interval", got, want)
            else:  # several answers to a prompt: prompts are drawn
                near(what + "interval", ends, interval([sum(r["loop"] for r in rs[i:i + n])
                                                        for i in range(0, len(rs), n)], [n] * (len(rs) // n)))
    if len(kept) == 2:
        pairs = [(r["loop"], b["loop"]) for r, b in zip(kept[""], kept["baseline_"])]
        same("McNemar", result["mcnemar_p"], mcnemar(pairs.count((True, False)), pairs.count((False, True))))


def task(result, scores, _):
    """A task's means, weighted; Wilson's interval of right-or-wrong items, else the normal one."""
    for t in result["tasks"]:
        with open(os.path.join(scores, t["name"] + ".jsonl"), encoding="utf-8") as f:
            head = json.loads(f.readline())
            rows = [json.loads(line) for line in f]
        n, x = len(rows), [r["score"] for r in rows]
        mean, z = sum(x) / n, 1.959963984540054
        same(t["name"] + " n", t["n"], n)
        same(t["name"] + " score", t["score"], mean)
        for m in head["metrics"]:
            w = [r.get("weights", {}).get(m, 1) for r in rows]
            same(t["name"] + " " + m, t["metrics"][m],
                 sum(r["scores"][m] * v for r, v in zip(rows, w)) / sum(w))
        if set(x) <= {0, 1}:
            mid, half = mean + z * z / 2 / n, z * math.sqrt(mean * (1 - mean) / n + z * z / 4 / n / n)
            ends = [(mid - half) / (1 + z * z / n), (mid + half) / (1 + z * z / n)]
        else:
            half = z * math.sqrt(sum((v - mean)**2 for v in x) / (n - 1) / n) if n > 1 else 0
            ends = [mean - half, mean + half]
        same(t["name"] + " low", t["ci_low"], max(0, ends[0]))
        same(t["name"] + " high", t["ci_high"], min(1, ends[1]))
        if "answer_ppl" in t:
            same(t["name"] + " answer_ppl", t["answer_ppl"],
                 math.exp(-sum(r["loglik"][r.get("gold", 0)] for r in rows) / n))
        same(t["name"] + " cut", t["cut_prompts"], sum(r.get("truncated", False) for r in rows))
        if "unfinished_answers" in t:
            ends = [e for r in rows for e in (r["finish"] if isinstance(r["finish"], list) else [r["finish"]])]
            same(t["name"] + " unfinished", t["unfinished_answers"], ends.count("length"))
        for r in rows:  # a choice's score from its likelihoods: the first of the largest
            if "pick" in r and r["pick"] != max(range(len(r["loglik"])), key=r["loglik"].__getitem__):
                bad.append("%s: item %s: pick %d" % (t["name"], r["id"], r["pick"]))
            if "acc" in r["scores"] and "pick" in r:
                same("%s: item %s: acc" % (t["name"], r["id"]), r["scores"]["acc"], r["pick"] == r["gold"])


def ppl(result, scores, _):
    path = os.path.join(scores, "ppl-%s.tsv" % os.path.basename(result["model"]))
    with open(path, encoding="utf-8", newline="") as f:
        x = [float(r["nll"]) for r in csv.DictReader(f, delimiter="\t")]
    n, mean = len(x), sum(x) / len(x)
    same("n", result["n_tokens"], n)
    same("loss", result["nll"], mean)
    same("perplexity", result["ppl"], math.exp(mean))
    if n > 1:
        error = math.sqrt(sum((v - mean)**2 for v in x) / (n - 1) / n)
        same("its error", result["nll_stderr"], error)
        same("its error", result["ppl_stderr"], error * math.exp(mean))


def rollback(result, scores, _):
    path = os.path.join(scores, "rollback-%s.ndjson" % os.path.basename(result["model"]))
    with open(path, encoding="utf-8") as f:
        kept = {r["part"]: r["value"] for r in [json.loads(line) for line in f][1:]}
    key, parts = "loop_rate" if result["by"] == "loops" else "kld", result["layers"] + result["classes"]
    same("as it is", result[key], kept["none"])
    for p in parts:
        same(p["name"], p[key], kept[p["name"]])
        same(p["name"] + " gain", p["gain"], kept["none"] - kept[p["name"]])
        if p["bytes_more"] > 0:
            same(p["name"] + " by the byte", p["gain_per_mb"], p["gain"] / p["bytes_more"] * 1e6)
        elif p["gain_per_mb"] is not None:
            bad.append(p["name"] + " costs no byte more")
    best = max((p for p in parts if p["gain_per_mb"] is not None), key=lambda p: p["gain_per_mb"], default=None)
    if result["best"] != (best and best["name"]):
        bad.append("best: %s" % (best and best["name"]))


def speed(result, *_):
    for r in result["rows"]:
        runs = sorted(r["tps"])
        for key, want in (("median_tps", quantile(runs, .5)), ("min_tps", runs[0]), ("max_tps", runs[-1])):
            same(r["test"] + " " + key, r[key], want)
    same("runs", len(result["rows"][0]["tps"]), result["runs"])
    for key in "warm", "cold":
        if result["load_%s_ms" % key] is not None:
            same(key, result["load_%s_ms" % key], quantile(sorted(result["load_%s_runs_ms" % key]), .5))
    same("first token", result["first_token_ms"], 1e3 * result["prompt_tokens"] / result["rows"][0]["median_tps"])
    parts = result["memory"]
    same("memory", parts["total_bytes"], sum(v for k, v in parts.items() if k != "total_bytes"))


def blind(result, votes, key):
    with open(votes, encoding="utf-8") as f:
        cast = json.load(f)["votes"]
    with open(key, encoding="utf-8") as f:
        left = [p["left"] for p in json.load(f)["pairs"]]
    won = [v == "same" and "tie" or (v == "left") == (side == "model") for v, side in zip(cast, left) if v]
    wins, losses = won.count(True), won.count(False)
    for name, want in (("n", len(won)), ("wins", wins), ("losses", losses), ("ties", won.count("tie")),
                       ("preference", wins / (wins + losses) if wins + losses else .5),
                       ("p", mcnemar(wins, losses) if wins + losses else 1)):
        same(name, result[name], want)
    if wins + losses:
        for got, want in zip((result["ci_low"], result["ci_high"]), binomial_interval(wins, wins + losses)):
            same("interval", got, want)


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
        {"retention": retention, "kld": kld, "loops": loops, "task": task, "ppl": ppl, "rollback": rollback,
         "speed": speed, "blind": blind}[r["measure"]](r, sys.argv[2], baseline)
    print("\n".join(bad) if bad else "every figure is the same")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
