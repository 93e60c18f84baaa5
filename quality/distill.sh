#!/usr/bin/env bash
# distill.sh MODEL TRAIN TEXT [TOKENS [ROW...]] - what distillation wins back, as rows of
# distill.csv, its curve in distill-curve.csv and, of the last row trained, in distill.svg.
#
# The student is what ternary.sh measures: all linear layers at 1.75 bits a weight
# (B2_T64), the embedding as in MODEL, error compensation on B2_COMPENSATE (default 65536)
# tokens. It is trained on TOKENS (default 300000) from the first four fifths of TRAIN and,
# with B2_CHATS=FILE.jsonl, to two fifths on the questions and answers in there; the last
# fifth of TRAIN and the last 400 chats are regions that choose the state and are never
# learnt from. Scored: the first 32 windows of 512 of TEXT (B2_EXACT=0: activations in 8
# bits, a thousandth of a nat off) and, with B2_ALSO="FILE|FOLDER...", 16 of each of those
# (of a folder: of its region_*.txt). B2_OPTIONS="OPTION...": more options of distill, for all
# rows (a --teacher-cache pays where the vocabulary is large).
# ROW: some of
#   student   before the training
#   ours      the program's default: every latent
#   brief     --recipe brief
#   scales lora    --train scales, --train lora
#   pruned-student pruned    MODEL without two layers (prune --layers 2), made ternary in the same
#             way, before and after it learnt from the whole MODEL (--original)
# One row takes about an hour on two quiet cores; a run that was stopped goes on: give the
# same command again. B2_THREADS: how many threads (default: all).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: distill.sh MODEL TRAIN TEXT [TOKENS [ROW...]]"
model=${1:?$usage} train=${2:?$usage} text=${3:?$usage} tokens=${4:-300000}
shift $(($# < 4 ? $# : 4))
exact=--exact
[ "${B2_EXACT:-1}" = 1 ] || exact=
work=$here/../build/quality
csv=$here/distill.csv curve=$here/distill-curve.csv
threads=(--threads "${B2_THREADS:-0}")
mkdir -p "$work"
[ -s "$csv" ] || echo 'date,model,row,options,tokens,bytes,bpw_linear,kld,kld_stderr,same_top1,ppl,ppl_ratio,ctx,chunks,text,text_sha256,exact,held_before,held_after,best_step,steps,changed_codes,seconds,tokens_per_s,plan_bytes,peak_rss_bytes,blas,version' >"$csv"
[ -s "$curve" ] || echo 'model,row,tokens_of_run,step,tokens,loss,kld,cross_entropy,hidden,scale,held_kld,regions' >"$curve"

base=$work/$(basename "$train")
size=$(wc -c <"$train")
head -c $((size * 4 / 5)) "$train" | sed '$d' >"$base.first-four-fifths.txt"
tail -c $((size / 5)) "$train" | sed 1d >"$base.last-fifth.txt"
data=(--calib "$base.first-four-fifths.txt=0.6") held=(--held "$base.last-fifth.txt")
if [ -n "${B2_CHATS:-}" ]; then
    head -n -400 "$B2_CHATS" >"$work/chats-train.jsonl"
    tail -n 400 "$B2_CHATS" >"$work/chats-held.jsonl"
    data+=(--calib "$work/chats-train.jsonl=0.4")
    held+=(--held "$work/chats-held.jsonl")
fi

read -ra more <<<"${B2_OPTIONS:-}"
of_more=${more[*]:+-$(cksum <<<"${more[*]}" | cut -d' ' -f1)} # in names: other options, another run
also=()
for each in ${B2_ALSO:-}; do
    if [ -d "$each" ]; then also+=("$each"/region_*.txt); else also+=("$each"); fi
done

name=$(basename "$model" .gguf)
make_student() { # MODEL: $student of it, unless it is there
    [ ! -e "$student" ] || return 0
    "$bonsai2" compress "$1" -o "$student.new" --force --rule '*=B2_T64' \
        --rule 'token_embd.weight=keep' --calib "$base.first-four-fifths.txt" \
        --calib-tokens "${B2_COMPENSATE:-65536}" --avoid "$text" \
        --report "$student.json" "${threads[@]}" >/dev/null
    mv "$student.new" "$student"
}

use_whole() {
    student=$work/distill-$name-student.gguf original=()
    make_student "$model"
}

use_pruned() {
    local pruned=$work/distill-$name-pruned.gguf
    if [ ! -e "$pruned" ]; then
        "$bonsai2" prune "$model" -o "$pruned.new" --force --layers 2 --rounds 1 --calib-tokens 4096 \
            --calib "$base.first-four-fifths.txt" --avoid "$text" >/dev/null
        mv "$pruned.new" "$pruned"
    fi
    student=$work/distill-$name-pruned-student.gguf original=(--original "$pruned")
    make_student "$pruned"
}

score() { # ROW FILE OPTIONS REPORT
    local each
    for each in "$text:32" "${also[@]/%/:16}"; do
        "$bonsai2" eval kld -m "$2" --baseline "$model" --text "${each%:*}" --ctx 512 \
            --chunks "${each##*:}" $exact --json >"$work/distill-kld.json"
        python3 - "$1" "$2" "$(basename "$model")" "$3" "$student.json" "$4" \
            "$work/distill-kld.json" >>"$csv" <<'PY'
import csv, datetime, json, os, sys
row, path, model, options, student, report, kld = sys.argv[1:]
s, k = json.load(open(student)), json.load(open(kld))
r = json.load(open(report)) if report else {}
num = lambda key, form: form % r[key] if key in r else ""
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), model, row, options, num("tokens", "%d") or 0,
    os.path.getsize(path), "%.4f" % s["bits_per_weight_ternary"], "%.4f" % k["mean_kld"],
    "%.4f" % k["kld_stderr"], "%.4f" % k["same_top1"], "%.4g" % k["ppl"],
    "%.4g" % k["ppl_ratio"], k["ctx"], k["chunks"], os.path.basename(k["text"]),
    k["text_sha256"][:16], int(k["exact"]), num("kld_before", "%.4f"), num("kld", "%.4f"),
    num("best_step", "%d"), num("steps", "%d"), num("changed_codes", "%d"),
    num("seconds", "%.0f"), num("tokens_per_s", "%.1f"), num("plan_bytes", "%d"),
    num("peak_rss_bytes", "%d"), " + ".join(filter(None, [r.get("blas"), r.get("gemm_library")])), k["version"]])
PY
        tail -n 1 "$csv"
    done
}

learn() { # ROW OPTION...
    local row=$1 out=$work/distill-$name-$1-$tokens$of_more
    shift
    if [ ! -e "$out.gguf" ]; then
        "$bonsai2" distill --teacher "$model" --student "$student" "${data[@]}" "${held[@]}" \
            --avoid "$text" --held-tokens 3072 --tokens "$tokens" "${threads[@]}" "${original[@]}" "$@" "${more[@]}" \
            -o "$out.gguf" --report "$out.json" --curve "$here/distill.svg" >/dev/null
    fi
    grep -q "^$(basename "$model"),$row$of_more,$tokens," "$curve" ||
        python3 - "$(basename "$model")" "$row$of_more" "$tokens" "$out.json" >>"$curve" <<'PY'
import json, sys
model, row, tokens, report = sys.argv[1:]
r = json.load(open(report))
for p in r["curve"]:
    parts = ("%.5g" % p[k] if k in p else "" for k in ("loss", "kld", "cross_entropy", "hidden", "scale"))
    regions = " ".join("%s=%.4f" % (g["name"].replace(",", "_"), v)
                       for g, v in zip(r["regions"], p["held_regions"]))
    print(model, row, tokens, p["step"], p["tokens"], *parts, "%.4f" % p["held_kld"], regions, sep=",")
PY
    score "$row" "$out.gguf" "$*${more[*]:+ ${more[*]}}" "$out.json"
}

for row in ${*:-student ours}; do
    case $row in
    pruned*) use_pruned ;;
    *) use_whole ;;
    esac
    case $row in
    student | pruned-student) score "$row" "$student" "" "" ;;
    ours | pruned) learn "$row" ;;
    brief) learn brief --recipe brief ;;
    scales | lora) learn "$row" --train "$row" ;;
    *) echo "distill.sh: no row $row" >&2; exit 2 ;;
    esac
done
