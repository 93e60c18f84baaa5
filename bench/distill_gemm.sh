#!/usr/bin/env bash
# distill_gemm.sh TEACHER STUDENT STEPS OPTION... - one short training with products of F32
# and one of BF16, from the same start: what it costs in processor seconds (user, all of the
# run: steps, three evaluations in F32, writing) and what is won, to distill_gemm.csv.
# OPTION: of `distill`, texts at least: --calib TRAIN --held HELD --held-tokens 2048
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: distill_gemm.sh TEACHER STUDENT STEPS OPTION..."
teacher=${1:?$usage} student=${2:?$usage} steps=${3:?$usage}
shift 3
csv=$here/distill_gemm.csv
tmp=$(mktemp -d "${TMPDIR:-/tmp}/b2-gemm-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
[ -s "$csv" ] || echo 'date,processor,load,student,batch,ctx,steps,gemm,library,held_before,held_half,held_after,user_s,tokens_per_s,version' >"$csv"
for gemm in f32 bf16; do
    load=$(cut -d' ' -f1 /proc/loadavg)
    TIMEFORMAT=%U
    { time "$bonsai2" distill --teacher "$teacher" --student "$student" "$@" \
        --steps "$steps" --eval-every $(((steps + 1) / 2)) --gemm "$gemm" --quiet --report "$tmp/$gemm.json" -o "$tmp/$gemm.gguf" >/dev/null; } 2>"$tmp/user"
    python3 - "$tmp/$gemm.json" "$(basename "$student")" "$load" "$(tail -n 1 "$tmp/user")" \
        "$("$bonsai2" --version | cut -d' ' -f2)" >>"$csv" <<'PY'
import csv, datetime, json, sys
path, student, load, user, version = sys.argv[1:]
r = json.load(open(path))
s, c = r["recipe"], r["curve"]
cpu = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "unknown")
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), cpu, load, student, s["batch"], s["ctx"], r["steps"], r["gemm"],
    r.get("gemm_library", r["blas"]), "%.4f" % c[0]["held_kld"], "%.4f" % c[1]["held_kld"],
    "%.4f" % c[-1]["held_kld"], user, "%.1f" % r["tokens_per_s"], version])
PY
    tail -n 1 "$csv"
done
