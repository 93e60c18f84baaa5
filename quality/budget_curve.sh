#!/usr/bin/env bash
# budget_curve.sh MODEL TEXT [CHUNKS [CTX]] - divergence against bytes, as rows of
# budget_curve.csv.
#
# What `compress --budget` chooses at each size, and a few rules that a person would write
# by hand, are compared with MODEL on the last fifth of TEXT (the part kept for choosing;
# the rest and the test text stay unseen) with 8-bit activations. B2_CURVE="76MB 60MB"
# measures those budgets alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=${1:?usage: budget_curve.sh MODEL TEXT [CHUNKS [CTX]]}
text=${2:?usage: budget_curve.sh MODEL TEXT [CHUNKS [CTX]]}
chunks=${3:-8} ctx=${4:-512}
budgets=${B2_CURVE:-92MB 88MB 84MB 80MB 76MB 72MB 68MB 64MB 60MB 56MB 52MB 48MB 44MB 40MB}
work=$here/../build/quality
csv=$here/budget_curve.csv
mkdir -p "$work"
[ -s "$csv" ] || echo 'model,recipe,bytes,kld,kld_stderr,same_top1,ppl_ratio,ctx,chunks,text,version' >"$csv"

fit=$work/last-fifth.txt
size=$(wc -c <"$text")
tail -c $((size / 5)) "$text" | tail -n +2 >"$fit" # from the first whole line on

row() { # OPTION...
    local out=$work/curve.gguf
    "$bonsai2" compress "$model" -o "$out" --force --quiet "$@" >/dev/null
    "$bonsai2" eval kld -m "$out" --baseline "$model" --text "$fit" --ctx "$ctx" \
        --chunks "$chunks" --quiet --json >"$work/curve.json"
    python3 - "$work/curve.json" "$(wc -c <"$out")" "$(basename "$model")" \
        "$(basename "$text")" "$*" >>"$csv" <<'EOF'
import csv, json, sys
k = json.load(open(sys.argv[1]))
csv.writer(sys.stdout, lineterminator="\n").writerow([
    sys.argv[3], sys.argv[5], sys.argv[2], "%.4f" % k["mean_kld"], "%.4f" % k["kld_stderr"],
    "%.4f" % k["same_top1"], "%.4f" % k["ppl_ratio"], k["ctx"], k["chunks"], sys.argv[4],
    k["version"]])
EOF
    tail -n 1 "$csv"
    rm -f "$out"
}

for b in $budgets; do
    row --budget "$b"
done
[ -z "${B2_CURVE:-}" ] || exit 0
row --rule '*=Q4_0'
row --rule '*=Q4_0' --rule 'blk.1[0-9].ffn_up.weight=ternary'
row --rule '*=Q4_0' --rule 'blk.1[0-9].ffn_[ug]*.weight=ternary'
