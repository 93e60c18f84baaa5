#!/usr/bin/env bash
# speed.sh FILE... - appends rows to speed.csv: tokens a second and memory of `bonsai2 run`.
#
# A prompt of some 500 tokens (the start of examples/text/austen.txt) and 64 new tokens,
# greedy, past the end token. Five runs for each file and number of threads (B2_THREADS,
# default "1 2"); the row has the fastest and the median. Run it on an idle machine: the
# load average before the run stands in the row.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
csv=$here/speed.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || { echo "usage: speed.sh FILE..." >&2; exit 2; }
[ -s "$csv" ] || echo 'date,processor,kernel,threads,file,file_bytes,prompt_tokens,new_tokens,prefill_tps_best,prefill_tps_median,decode_tps_best,decode_tps_median,peak_rss_bytes,load_before,version' >"$csv"

head -c 2100 "$here/../examples/text/austen.txt" >"$work/prompt.txt"
for file in "$@"; do
    for threads in ${B2_THREADS:-1 2}; do
        load=$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo)
        for i in 1 2 3 4 5; do
            "$bonsai2" run -m "$file" -f "$work/prompt.txt" -n 64 --ignore-eos --temp 0 \
                --threads "$threads" --json --quiet >"$work/$i.json"
        done
        python3 - "$file" "$load" "$("$bonsai2" --version | cut -d' ' -f2)" "$work"/?.json >>"$csv" <<'EOF'
import csv, datetime, json, os, statistics, sys
file, load, version = sys.argv[1:4]
runs = [json.load(open(p)) for p in sys.argv[4:]]
name = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
r = runs[0]
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), name, r["kernel"], r["threads"], os.path.basename(file),
    os.path.getsize(file), r["prompt_tokens"], len(r["tokens"]),
    *["%.1f" % f(x[k] for x in runs) for k in ("prefill_tps", "decode_tps")
      for f in (max, statistics.median)],
    max(x["peak_rss_bytes"] for x in runs), load, version])
EOF
        tail -n 1 "$csv"
    done
done
