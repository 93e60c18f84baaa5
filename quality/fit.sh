#!/usr/bin/env bash
# fit.sh MODEL TEXT [CHUNKS] - what fitted rounding (src/compress/fit.c) is worth against the
# reference encoder: Q4_0 of the linear layers with the embedding kept, and of the
# embedding alone. Appends to fit.csv. `export` rounds as the reference does, `compress` fits.
#
# Choices are not made on the test text. The rows there: SmolLM2-135M-Instruct.Q4_1.gguf on the
# last fifth of wiki.train.part.txt, cut at the next line:
#   f=wiki.train.part.txt; tail -c +$(($(stat -c %s $f) * 4 / 5 + 1)) $f | tail -n +2 >train-end.txt
# Rows whose rounding begins with "tried" come from builds that differed in the importance
# k of a squared error alone (in the unit of mean(w^2) of the block) and were not kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=${1:?usage: fit.sh MODEL TEXT [CHUNKS]}
text=${2:?usage: fit.sh MODEL TEXT [CHUNKS]}
chunks=${3:-8}
csv=$here/fit.csv
work=$(mktemp -d "${TMPDIR:-/tmp}/b2-fit-XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -s "$csv" ] || echo 'model,tensors,type,rounding,kld,kld_stderr,same_top1,ppl_ratio,ctx,chunks,text,text_sha256' >"$csv"

measure() { # TENSORS ROUNDING
    "$bonsai2" eval kld -m "$work/m.gguf" --baseline "$model" --text "$text" --ctx 512 \
        --chunks "$chunks" --exact --json --quiet >"$work/kld.json"
    python3 - "$(basename "$model")" "$1" "$2" "$work/kld.json" >>"$csv" <<'PY'
import csv, json, os, sys
model, tensors, rounding, path = sys.argv[1:]
k = json.load(open(path))
csv.writer(sys.stdout, lineterminator="\n").writerow([
    model, tensors, "Q4_0", rounding, "%.4f" % k["mean_kld"], "%.4f" % k["kld_stderr"],
    "%.4f" % k["same_top1"], "%.4f" % k["ppl_ratio"], k["ctx"], k["chunks"],
    os.path.basename(k["text"]), k["text_sha256"][:16]])
PY
    tail -n 1 "$csv"
}

reference() { # TENSORS GLOB
    "$bonsai2" export "$model" --format gguf-q4_0 --only "$2" --lossy -o "$work/m.gguf" \
        --force --quiet
    measure "$1" reference
}

fitted() { # TENSORS RULE...
    local tensors=$1 rules=()
    shift
    for rule; do rules+=(--rule "$rule"); done
    "$bonsai2" compress "$model" "${rules[@]}" -o "$work/m.gguf" --force --quiet >/dev/null
    measure "$tensors" fitted
}

reference linear 'blk.*.weight'
fitted linear '*=Q4_0' 'token_embd.weight=keep'
reference embedding token_embd.weight
fitted embedding '*=keep' 'token_embd.weight=Q4_0'
