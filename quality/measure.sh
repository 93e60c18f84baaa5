#!/usr/bin/env bash
# measure.sh MODEL TEXT [CHUNKS [RECIPE...]] - appends one row per recipe to results.csv.
#
# Each recipe of recipes.txt (or those named) is compressed and compared with MODEL on the
# first CHUNKS windows (default 32) of 512 tokens of TEXT, llama.cpp's convention, with
# F32 activations in both (--exact): the rows show what the weights lose. The first row
# of a run is the original itself (its perplexity; the rest follows).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=${1:?usage: measure.sh MODEL TEXT [CHUNKS [RECIPE...]]}
text=${2:?usage: measure.sh MODEL TEXT [CHUNKS [RECIPE...]]}
chunks=${3:-32}
shift $(($# < 3 ? $# : 3))
work=$(realpath -m "$here/../build/quality")
model=$(realpath "$model") bonsai2=$(realpath "$bonsai2")
csv=$here/results.csv
mkdir -p "$work"
rm -f "$work/original.json"
[ -s "$csv" ] || echo 'date,model,recipe,options,bytes,bpw,ppl,ppl_ratio,kld,kld_stderr,same_top1,ctx,chunks,text,text_sha256,exact,kernel,version' >"$csv"

row() { # NAME OPTIONS KLD.json INSPECT.json
    python3 - "$1" "$2" "$3" "$4" "$(basename "$model")" >>"$csv" <<'EOF'
import csv, datetime, json, os, sys
name, options, kld, inspect, model = sys.argv[1:]
k, i = json.load(open(kld)), json.load(open(inspect))
if name == "original":
    k.update(ppl=k["ppl_baseline"], ppl_ratio=1, mean_kld=0, kld_stderr=0, same_top1=1)
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), model, name, options, i["file_bytes"],
    "%.3f" % i["bits_per_weight"], "%.4g" % k["ppl"] if k["ppl"] > 1e4 else "%.4f" % k["ppl"],
    "%.5g" % k["ppl_ratio"], "%.5f" % k["mean_kld"], "%.5f" % k["kld_stderr"],
    "%.4f" % k["same_top1"], k["ctx"], k["chunks"], os.path.basename(k["text"]),
    k["text_sha256"][:16], int(k["exact"]), k["kernel"], k["version"]])
EOF
    tail -n 1 "$csv"
}

measure() { # NAME OPTIONS FILE
    "$bonsai2" inspect "$3" --json --quiet >"$work/inspect.json"
    "$bonsai2" eval kld -m "$3" --baseline "$model" --text "$text" --ctx 512 \
        --chunks "$chunks" --exact --json >"$work/kld.json"
    if [ ! -e "$work/original.json" ]; then
        "$bonsai2" inspect "$model" --json --quiet >"$work/original.json"
        row original '' "$work/kld.json" "$work/original.json"
    fi
    row "$1" "$2" "$work/kld.json" "$work/inspect.json"
}

grep -v '^#' "$here/recipes.txt" | while IFS=: read -r name options; do
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    read -ra words <<<"$options"
    (cd "$here/.." && "$bonsai2" compress "$model" -o "$work/$name.gguf" --force --quiet "${words[@]}" >/dev/null </dev/null)
    measure "$name" "${options# }" "$work/$name.gguf" </dev/null
    rm -f "$work/$name.gguf"
done
