#!/usr/bin/env bash
# retention.sh MODEL DATA [LIMIT [RECIPE...]] - what recipes leave of a model's ability.
#
# Asks MODEL and each recipe (of recipes.txt; default 4bit, mix-a and repaired) LIMIT items (default
# 200) of six tasks and appends a row per task to retention.csv, the worst task first, with
# its 95 % interval. DATA is the folder of the tasks' data (eval task --help). Goes on
# where it was stopped: every item's score is kept in build/retention/. The rows there:
#   quality/retention.sh ~/.cache/bonsai2/SmolLM2-135M-Instruct.Q4_1.gguf ../shared/data
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=${1:?usage: retention.sh MODEL DATA [LIMIT [RECIPE...]]}
data=${2:?usage: retention.sh MODEL DATA [LIMIT [RECIPE...]]}
limit=${3:-200}
shift $(($# < 3 ? $# : 3))
recipes=("$@")
[ ${#recipes[@]} -gt 0 ] || recipes=(4bit mix-a repaired)
tasks=hellaswag,arc_easy,arc_challenge,piqa,winogrande,openbookqa
work=$(realpath -m "$here/../build/retention")
model=$(realpath "$model") bonsai2=$(realpath "$bonsai2")
csv=$here/retention.csv
mkdir -p "$work"
[ -s "$csv" ] || echo 'date,model,recipe,bytes,task,metric,n,baseline,candidate,retention,ci_low,ci_high,corrected,mcnemar_p,at_chance,mean_retention,worst_task,seed,seconds,version' >"$csv"

files=()
for name in "${recipes[@]}"; do
    options=$(sed -n "s/^$name: *//p" "$here/recipes.txt")
    [ -n "$options" ] || { echo "retention.sh: no recipe '$name' in recipes.txt" >&2; exit 1; }
    read -ra words <<<"$options"
    if [ ! -e "$work/$name.gguf" ]; then
        (cd "$here/.." && "$bonsai2" compress "$model" -o "$work/$name.gguf" --quiet "${words[@]}") >/dev/null
    fi
    files+=(-m "$work/$name.gguf")
done
began=$SECONDS
"$bonsai2" eval retention --baseline "$model" "${files[@]}" --tasks "$tasks" --limit "$limit" \
    --data "$data" --scores "$work/scores-$limit" --report "$work/retention.html" --force \
    --json >"$work/retention.json"
python3 - "$work/retention.json" "$model" $((SECONDS - began)) >>"$csv" <<'PY'
import csv, datetime, json, os, sys
path, model, seconds = sys.argv[1:]
result = json.load(open(path))
out = csv.writer(sys.stdout, lineterminator="\n")
for c in result.get("candidates", [result]):
    for t in c["tasks"]:
        out.writerow([datetime.date.today().isoformat(), os.path.basename(model),
                      os.path.basename(c["model"])[:-5], c.get("model_bytes", ""), t["name"], t["metric"], t["n"],
                      *("%.4f" % t[k] for k in ("baseline", "candidate", "retention", "ci_low", "ci_high",
                                                "corrected", "mcnemar_p")), int(t["at_chance"]),
                      "" if c["mean_retention"] is None else "%.4f" % c["mean_retention"],
                      c["worst_task"], c["seed"], seconds, c["version"]])
PY
tail -n $((6 * ${#recipes[@]})) "$csv"
