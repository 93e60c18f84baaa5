#!/usr/bin/env bash
# distill_memory.sh TEACHER STUDENT TEXT [LIMIT...] - what `distill` plans to take against
# what its process takes, without a limit (-) and under each LIMIT (default: - 700MB).
#
# Three steps of 512 tokens and two evaluations each; rows go to distill_memory.csv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
teacher=${1:?usage: distill_memory.sh TEACHER STUDENT TEXT [LIMIT...]}
student=${2:?} text=${3:?}
shift 3
[ $# -gt 0 ] || set -- - 700MB
csv=$here/distill_memory.csv
tmp=$(mktemp -d "${TMPDIR:-/tmp}/b2-distill-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
[ -s "$csv" ] || echo 'date,processor,teacher,student,ctx,batch,micro,threads,limit,planned,mapped,disk,layers,layers_in_memory,peak_rss,peak_to_plan,kld_before,kld,version' >"$csv"

for limit in "$@"; do
    words=()
    [ "$limit" = - ] || words=(--mem-limit "$limit" --micro 1)
    "$bonsai2" distill --teacher "$teacher" --student "$student" --calib "$text" --ctx 256 \
        --batch 2 --steps 3 --eval-every 3 --held-tokens 512 --warmup 1 --threads 2 \
        -o "$tmp/out.gguf" --force --json --quiet "${words[@]}" >"$tmp/report.json"
    python3 - "$tmp/report.json" "$limit" "$csv" "$("$bonsai2" --version | head -n 1)" <<'PY'
import csv, datetime, json, os, sys
report, limit, out, version = sys.argv[1:]
r = json.load(open(report))
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
with open(out, "a", newline="") as f:
    csv.writer(f, lineterminator="\n").writerow([
        datetime.date.today().isoformat(), cpu, os.path.basename(r["teacher"]), os.path.basename(r["student"]),
        256, 2, 2 if limit == "-" else 1, r["threads"], limit, r["plan_bytes"], r["mapped_bytes"], r["disk_bytes"],
        r["layers"], r["layers_in_memory"], r["peak_rss_bytes"],
        "%.4f" % (r["peak_rss_bytes"] / (r["plan_bytes"] + r["mapped_bytes"])),
        "%.4f" % r["kld_before"], "%.4f" % r["kld"], version.split()[-1]])
PY
    tail -n 1 "$csv"
done
