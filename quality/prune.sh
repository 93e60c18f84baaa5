#!/usr/bin/env bash
# prune.sh MODEL TRAIN TEXT [TOKENS [CHUNKS [ROW...]]] - what taking away hidden values, kv
# groups and layers costs, as rows of prune.csv.
#
# Calibration: TOKENS (default 4096) tokens from the first four fifths of TRAIN, without what
# TEXT has. Scored: the first CHUNKS (default 8) windows of 512 of TEXT, llama.cpp's
# convention, 8-bit activations (B2_EXACT=1: F32). Matrices that lose columns become F16, so
# that rounding does not count. ROW: some of
#   ffn10-none ffn10 ffn20-none ffn20 kv-none kv layers2, and mid20-none mid20: a fifth of
#   the hidden values of ten layers in the middle
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: prune.sh MODEL TRAIN TEXT [TOKENS [CHUNKS [ROW...]]]"
model=${1:?$usage} train=${2:?$usage} text=${3:?$usage}
tokens=${4:-4096} chunks=${5:-8}
shift $(($# < 5 ? $# : 5))
exact=
[ "${B2_EXACT:-0}" = 0 ] || exact=--exact
work=${B2_WORK:-$here/../build/quality}
csv=$here/prune.csv
mkdir -p "$work"
[ -s "$csv" ] || echo 'date,model,row,options,calib_tokens,params,bytes,kld_probe,kld,kld_stderr,same_top1,ppl_ratio,ctx,chunks,text,text_sha256,exact,version' >"$csv"

calib=$work/$(basename "$train").first-four-fifths.txt
size=$(wc -c <"$train")
head -c $((size * 4 / 5)) "$train" | sed '$d' >"$calib" # to the last whole line

row() { # NAME OPTION...
    local name=$1 out=$work/prune-$1.gguf
    shift
    "$bonsai2" prune "$model" -o "$out" --force --type F16 --calib "$calib" --calib-tokens \
        "$tokens" --avoid "$text" --rounds 1 "$@" --json >"$work/prune.json"
    "$bonsai2" eval kld -m "$out" --baseline "$model" --text "$text" --ctx 512 \
        --chunks "$chunks" $exact --json >"$work/prune-kld.json"
    python3 - "$name" "$tokens" "$(basename "$model")" "$*" "$work/prune.json" \
        "$work/prune-kld.json" >>"$csv" <<'PY'
import csv, datetime, json, os, sys
name, tokens, model, options, report, kld = sys.argv[1:]
r, k = json.load(open(report)), json.load(open(kld))
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), model, name, options, tokens, r["params_after"],
    r["output_bytes"], "%.4f" % r["kld"], "%.4f" % k["mean_kld"], "%.4f" % k["kld_stderr"],
    "%.4f" % k["same_top1"], "%.4g" % k["ppl_ratio"], k["ctx"], k["chunks"],
    os.path.basename(k["text"]), k["text_sha256"][:16], int(k["exact"]), k["version"]])
PY
    tail -n 1 "$csv"
    rm -f "$out"
}

for name in ${*:-ffn10-none ffn10 ffn20-none ffn20 kv-none kv layers2}; do
    case $name in
    ffn10-none) row $name --ffn 0.1 --multiple 32 --no-restore ;;
    ffn10) row $name --ffn 0.1 --multiple 32 ;;
    ffn20-none) row $name --ffn 0.2 --multiple 32 --no-restore ;;
    ffn20) row $name --ffn 0.2 --multiple 32 ;;
    mid20-none) row $name --rule 'blk.1?.ffn_*=0.2' --multiple 32 --no-restore ;;
    mid20) row $name --rule 'blk.1?.ffn_*=0.2' --multiple 32 ;;
    kv-none) row $name --kv 0.34 --no-restore ;;
    kv) row $name --kv 0.34 ;;
    layers2) row $name --layers 2 ;;
    *) echo "unknown row: $name"; exit 2 ;;
    esac
done
