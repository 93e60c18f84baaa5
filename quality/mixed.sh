#!/usr/bin/env bash
# mixed.sh MODEL TRAIN TEXT [TOKENS [CHUNKS [BITS...]]] - mixed types at given bits of the
# linear layers, as rows of mixed.csv.
#
# The embedding stays as in MODEL. Linear layers choose between ternary, Q4_0, Q5_0 and
# Q8_0 (no type that could reproduce a Q4_1 teacher) by costs measured on the calibration
# text; all are compensated. BITS default to those of llama.cpp's IQ2_XXS, Q2_K, IQ3_XXS
# and Q3_K: 2.06 2.63 3.06 3.44. Texts, chunks and B2_EXACT as in ternary.sh. The costs
# are measured once and kept in build/quality. A run that was stopped goes on: give the
# same command again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: mixed.sh MODEL TRAIN TEXT [TOKENS [CHUNKS [BITS...]]]"
model=${1:?$usage} train=${2:?$usage} text=${3:?$usage}
tokens=${4:-65536} chunks=${5:-32}
types=${B2_TYPES:-ternary,Q4_0,Q5_0,Q8_0}
shift $(($# < 5 ? $# : 5))
exact=--exact
[ "${B2_EXACT:-1}" = 1 ] || exact=
work=$here/../build/quality
csv=$here/mixed.csv
name=$(basename "$model" .gguf)
mkdir -p "$work"
[ -s "$csv" ] || echo 'date,model,types,bits,calib_tokens,bytes,bpw_linear,bpw,kld,kld_stderr,same_top1,ppl,ppl_ratio,ctx,chunks,text,text_sha256,exact,kernel,version' >"$csv"

calib=$work/$(basename "$train").first-four-fifths.txt
size=$(wc -c <"$train")
head -c $((size * 4 / 5)) "$train" | sed '$d' >"$calib" # to the last whole line

"$bonsai2" compress "$model" --rule '*=keep' --dry-run --json --quiet >"$work/kept.json"
for bits in ${*:-2.06 2.63 3.06 3.44}; do
    out=$work/mixed-$name-$bits.gguf
    budget=$(python3 - "$work/kept.json" "$bits" <<'PY'
import json, sys
t = json.load(open(sys.argv[1]))["tensors"]
is_linear = lambda x: x["name"].startswith("blk.") and x["values"] > x["width"]
linear = sum(x["values"] for x in t if is_linear(x))
rest = sum(x["bytes"] for x in t if not is_linear(x))
print("%.8f" % ((float(sys.argv[2]) * linear + 8 * rest) / sum(x["values"] for x in t)))
PY
    )
    "$bonsai2" compress "$model" -o "$out" --force --budget "${budget}bpw" --types "$types" \
        --rule 'token_embd.weight=keep' --costs "$work/costs-$name-$tokens.json" \
        --calib "$calib" --calib-tokens "$tokens" --avoid "$text" \
        --report "$work/mixed.json" >/dev/null
    "$bonsai2" eval kld -m "$out" --baseline "$model" --text "$text" --ctx 512 \
        --chunks "$chunks" $exact --json >"$work/mixed-kld.json"
    python3 - "$name" "$types" "$bits" "$tokens" "$work/mixed.json" "$work/mixed-kld.json" \
        >>"$csv" <<'PY'
import csv, datetime, json, os, sys
name, types, bits, tokens, report, kld = sys.argv[1:]
r, k = json.load(open(report)), json.load(open(kld))
linear = [x for x in r["tensors"] if x["name"].startswith("blk.") and x["values"] > x["width"]]
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), name, types.replace(",", " "), bits, tokens,
    r["output_bytes"],
    "%.4f" % (8 * sum(x["bytes"] for x in linear) / sum(x["values"] for x in linear)),
    "%.4f" % r["bits_per_weight"], "%.4f" % k["mean_kld"], "%.4f" % k["kld_stderr"],
    "%.4f" % k["same_top1"], "%.4g" % k["ppl"], "%.4g" % k["ppl_ratio"], k["ctx"],
    k["chunks"], os.path.basename(k["text"]), k["text_sha256"][:16], int(k["exact"]), k["kernel"],
    k["version"]])
PY
    tail -n 1 "$csv"
    rm -f "$out"
done
