#!/usr/bin/env bash
# sampler.sh [OUT.csv] - rows to sampler.csv: what choosing a token costs, by filter.
#
# build/release/bench_sampler (B2_BENCH_SAMPLER) three times at each size of vocabulary;
# a row has the median of its milliseconds a token, and the slowest. Seconds in all.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=${B2_BENCH_SAMPLER:-$here/../build/release/bench_sampler}
out=${1:-$here/sampler.csv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
load=$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo)
for vocabulary in 32000 151936 262144; do
    for i in 1 2 3; do
        "$program" "$vocabulary" | tail -n +2 >>"$work/rows.csv"
    done
done
[ -s "$out" ] || echo 'date,processor,logits,vocabulary,filter,runs,median_ms,max_ms,load' >"$out"
python3 - "$work/rows.csv" "$load" >>"$out" <<'EOP'
import csv, datetime, statistics, sys
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
found = {}
for logits, vocabulary, name, ms in csv.reader(open(sys.argv[1])):
    found.setdefault((logits, vocabulary, name), []).append(float(ms))
w = csv.writer(sys.stdout, lineterminator="\n")
for key, ms in found.items():
    w.writerow([datetime.date.today().isoformat(), cpu, *key, len(ms),
                "%.3f" % statistics.median(ms), "%.3f" % max(ms), sys.argv[2]])
EOP
echo "$out"
