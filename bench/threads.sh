#!/usr/bin/env bash
# threads.sh [OUT.csv] - how decoding gains from a second thread, as rows of threads.csv.
#
# Random files of sizes S, M and, with B2_SIZES="S M L", L (PTQ1_0), in place and repacked,
# at the best level and held at AVX2; one and two threads in turn, B2_ROUNDS (default 3)
# times 48 tokens each (L: 8), medians. ratio: two threads by one; share_one and share_two:
# of what as many threads read from memory in the same run. Files go to $B2_BENCH_DIR
# (default bench/files, 1 GB; L 6 GB). Some eight minutes, L as many; nothing else should run
# meanwhile.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
dir=${B2_BENCH_DIR:-$here/files}
out=${1:-$here/threads.csv}
mkdir -p "$dir"
[ -s "$out" ] || echo 'date,processor,file,repack,kernel,one_tps,two_tps,ratio,memory_one_gbps,memory_two_gbps,share_one,share_two,rounds,version' >"$out"

for size in ${B2_SIZES:-S M}; do
    tokens=48
    [ "$size" != L ] || tokens=8
    file=$dir/$size-ptq1_0.gguf
    [ -s "$file" ] || "$bonsai2" synth --like $size --type ptq1_0 -o "$file" >/dev/null
    for repack in off same fast; do
        for level in "" avx2; do
            B2_CPU=$level python3 - "$bonsai2" "$file" $repack "${B2_ROUNDS:-3}" $tokens >>"$out" <<'PY'
import csv, datetime, json, os, statistics, subprocess, sys
program, file, repack, rounds, tokens = sys.argv[1:]
if not os.environ["B2_CPU"]:
    del os.environ["B2_CPU"]
seen = {1: [], 2: []}
for _ in range(int(rounds)):
    for threads in seen:
        done = subprocess.run([program, "bench", "-m", file, "-t", str(threads), "-p", "0", "-n",
                               tokens, "-r", "1", "--no-cold", "--repack", repack, "--json", "-q"],
                              check=True, capture_output=True, text=True)
        seen[threads].append(json.loads(done.stdout))
mid = lambda t, get: statistics.median(get(r) for r in seen[t])
tps = {t: mid(t, lambda r: r["rows"][0]["median_tps"]) for t in seen}
memory = {t: mid(t, lambda r: r["dram"][0]["gbps"]) for t in seen}
share = {t: mid(t, lambda r: r["rows"][0]["gbps"]) / memory[t] for t in seen}
version = subprocess.run([program, "--version"], check=True, capture_output=True,
                         text=True).stdout.split()[-1]
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), seen[1][0]["processor"], os.path.basename(file), repack,
    seen[1][0]["kernel"], *("%.4g" % tps[t] for t in seen), "%.3f" % (tps[2] / tps[1]),
    *("%.3g" % memory[t] for t in seen), *("%.2f" % share[t] for t in seen), rounds, version])
PY
            tail -n 1 "$out"
        done
    done
done
