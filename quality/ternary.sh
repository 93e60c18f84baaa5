#!/usr/bin/env bash
# ternary.sh MODEL TRAIN TEXT [TOKENS [CHUNKS [ROW...]]] - what each part of ternarisation
# is worth, as rows of ternary.csv.
#
# All linear layers ternary at 1.75 bits a weight (B2_T64), the embedding as in MODEL.
# Calibration: TOKENS (default 65536) tokens from the first four fifths of TRAIN, without
# what TEXT has; the last fifth stays free for choosing. Scored: the first CHUNKS (default
# 32) windows of 512 of TEXT, llama.cpp's convention, F32 activations (B2_EXACT=0: 8 bits,
# which is far quicker and a thousandth of a nat off) and, with B2_ALSO="FILE|FOLDER...", 16
# of each of those (of a folder: of its region_*.txt). ROW: some of
#   absmean ls rotation compensation mismatch refinement
# each of which has what stands before it, or, everything as in refinement but what is said,
#   unrotated one-block   no rotation; one block for all widths (64, not 64 and 512)
#   full-width            blocks as wide as the rows (576 and 1,536)
#   all-mismatch          makes up for the whole error of what came before, not for half
#   fold-A    columns scaled by rms^A (A: .25, .5, .75, or auto) before rounding; unrotated-fold-A
#   zeros-A   a share A of each row's groups are zeros and not stored (--zero-groups)
#   sorted    hidden values in the order of their rms; sorted-stream: those of the residual
#             stream too, of MODEL as F32 (other types have blocks across these columns)
#   wiki-maths no-wiki    calibrated on these mixes (docs/COMPRESS.md), not on TRAIN
#   removed   two layers less (prune --layers 2), the others as in refinement
#   words     all linear layers in B2_C64 (1.625 bits: words of four codes)
#   words128  rows that 128 divides in B2_C128 (1.5625 bits), the others in B2_C64
#   whole     the embedding ternary too: 1.75 bits for everything
#   whole-1.76 whole-2.3  everything in so many bits, the type of each tensor by measured
#             costs; words of codes too in 1.76
# A run that was stopped goes on: give the same command again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: ternary.sh MODEL TRAIN TEXT [TOKENS [CHUNKS [ROW...]]]"
model=${1:?$usage} train=${2:?$usage} text=${3:?$usage}
tokens=${4:-65536} chunks=${5:-32}
shift $(($# < 5 ? $# : 5))
exact=--exact
[ "${B2_EXACT:-1}" = 1 ] || exact=
work=$here/../build/quality
csv=$here/ternary.csv
mkdir -p "$work"
[ -s "$csv" ] || echo 'date,model,row,options,calib_tokens,bytes,bpw_linear,kld,kld_stderr,same_top1,ppl,ppl_ratio,ctx,chunks,text,text_sha256,exact,kernel,version' >"$csv"

calib=$work/$(basename "$train").first-four-fifths.txt
size=$(wc -c <"$train")
head -c $((size * 4 / 5)) "$train" | sed '$d' >"$calib" # to the last whole line

also=()
for each in ${B2_ALSO:-}; do
    if [ -d "$each" ]; then also+=("$each"/region_*.txt); else also+=("$each"); fi
done

row() { # NAME TOKENS OPTION...
    local name=$1 n=$2 out=$work/ternary-$1-$2.gguf
    shift 2
    "$bonsai2" compress "$source" -o "$out" --force ${type:+--rule "*=$type"} \
        "${more[@]}" --report "$work/ternary.json" "$@" >/dev/null
    local each options
    for each in "$text:$chunks" "${also[@]/%/:16}"; do
        "$bonsai2" eval kld -m "$out" --baseline "$model" --text "${each%:*}" --ctx 512 \
            --chunks "${each##*:}" $exact --json >"$work/ternary-kld.json"
        options=${*//"$work/"/}
        write "$name" "$n" "${options//"$(dirname "$text")/"/}"
    done
    rm -f "$out"
}

write() { # NAME TOKENS OPTIONS
    python3 - "$1" "$2" "$(basename "$model")" "$3" "$work/ternary.json" \
        "$work/ternary-kld.json" >>"$csv" <<'PY'
import csv, datetime, json, os, sys
name, tokens, model, options, report, kld = sys.argv[1:]
r, k = json.load(open(report)), json.load(open(kld))
linear = [x for x in r["tensors"] if x["name"].startswith("blk.") and x["values"] > x["width"]]
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), model, name, options, tokens, r["output_bytes"],
    "%.4f" % (8 * sum(x["bytes"] for x in linear) / sum(x["values"] for x in linear)),
    "%.4f" % k["mean_kld"], "%.4f" % k["kld_stderr"],
    "%.4f" % k["same_top1"], "%.4g" % k["ppl"], "%.4g" % k["ppl_ratio"], k["ctx"],
    k["chunks"], os.path.basename(k["text"]), k["text_sha256"][:16], int(k["exact"]), k["kernel"],
    k["version"]])
PY
    tail -n 1 "$csv"
}

cal=(--calib "$calib" --calib-tokens "$tokens" --avoid "$text")
keep=(--rule 'token_embd.weight=keep')
type=B2_T64 more=("${keep[@]}") source=$model
mix() { row "$1" "$tokens" --calib "mix:$1" --calib-tokens "$tokens" --avoid "$text"; }
for name in ${*:-absmean ls rotation compensation mismatch refinement}; do
    case $name in
    absmean) row $name 0 --ternary-rule round ;;
    ls) row $name 0 ;;
    rotation) row $name 0 --rotate each ;;
    compensation) row $name "$tokens" "${cal[@]}" --mismatch 0 --refine 0 ;;
    mismatch) row $name "$tokens" "${cal[@]}" --refine 0 ;;
    refinement) row $name "$tokens" "${cal[@]}" ;;
    removed)
        source=$work/removed.gguf
        "$bonsai2" prune "$model" -o "$source" --force --layers 2 --calib "$calib" --calib-tokens 4096 \
            --avoid "$text" --rounds 1 >/dev/null
        row $name "$tokens" "${cal[@]}"
        rm -f "$source"
        source=$model
        ;;
    words) type=B2_C64 row $name "$tokens" "${cal[@]}" ;;
    words128)
        more+=(--rule '*.ffn_down.weight=B2_C128') # SmolLM2: 1,536; the others have 576
        type=B2_C64 row $name "$tokens" "${cal[@]}"
        more=("${keep[@]}")
        ;;
    unrotated) row $name "$tokens" "${cal[@]}" --rotate none ;;
    fold-*) row $name "$tokens" "${cal[@]}" --fold "${name#fold-}" ;;
    unrotated-fold-*) row $name "$tokens" "${cal[@]}" --rotate none --fold "${name#unrotated-fold-}" ;;
    zeros-*) row $name "$tokens" "${cal[@]}" --zero-groups "${name#zeros-}" ;;
    sorted) row $name "$tokens" "${cal[@]}" --sort ;;
    sorted-stream)
        source=$work/floats.gguf
        "$bonsai2" export "$model" -o "$source" --format gguf-f32 --force >/dev/null
        row $name "$tokens" "${cal[@]}" --sort
        rm -f "$source"
        source=$model
        ;;
    full-width) row $name "$tokens" "${cal[@]}" --rotate whole ;;
    one-block) row $name "$tokens" "${cal[@]}" --rotate auto ;;
    all-mismatch) row $name "$tokens" "${cal[@]}" --mismatch 1 ;;
    wiki-maths | no-wiki) mix $name ;;
    whole | whole-1.76 | whole-2.3)
        more=()
        [ $name = whole ] || {
            type=''
            types=ternary,B2_Q2,B2_Q3,Q4_0
            [ $name = whole-2.3 ] || types+=,B2_C64,B2_C128
            more=(--budget "${name#whole-}bpw" --types $types --costs "$work/costs-$name-$tokens.json")
        }
        row $name "$tokens" "${cal[@]}"
        type=B2_T64 more=("${keep[@]}")
        ;;
    *) echo "ternary.sh: no row $name" >&2; exit 2 ;;
    esac
done
