#!/usr/bin/env bash
# cache.sh MODEL TEXT [CHUNKS] - appends rows to cache.csv: what a smaller cache costs.
#
# One file is candidate and baseline, on the first CHUNKS windows (default 4) of 512 tokens
# of TEXT, llama.cpp's convention. Rows with activations f32 have them in both (--exact), so
# that keys and values are the only difference: these are the cost of the cache. Rows with
# activations 8bit compare the usual path with the exact one: what 8-bit activations cost
# alone (f16) and with the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=${1:?usage: cache.sh MODEL TEXT [CHUNKS]}
text=${2:?usage: cache.sh MODEL TEXT [CHUNKS]}
chunks=${3:-4}
csv=$here/cache.csv
[ -s "$csv" ] || echo 'date,model,cache,activations,kld,kld_stderr,p99_kld,same_top1,ppl_ratio,ctx,chunks,text,text_sha256,kernel,version' >"$csv"

measure() { # CACHE ACTIVATIONS FLAG
    "$bonsai2" eval kld -m "$model" --baseline "$model" --cache "$1" --text "$text" \
        --ctx 512 --chunks "$chunks" "$3" --json --quiet |
        python3 -c '
import csv, datetime, json, os, sys
k = json.load(sys.stdin)
csv.writer(sys.stdout, lineterminator="\n").writerow([
    datetime.date.today().isoformat(), os.path.basename(k["model"]), k["cache"], sys.argv[1],
    "%.6f" % k["mean_kld"], "%.6f" % k["kld_stderr"], "%.5f" % k["p99_kld"],
    "%.4f" % k["same_top1"], "%.5f" % k["ppl_ratio"], k["ctx"], k["chunks"],
    os.path.basename(k["text"]), k["text_sha256"][:16], k["kernel"], k["version"]])' "$2" >>"$csv"
    tail -n 1 "$csv"
}

measure q8_0 f32 --exact
measure q4_0 f32 --exact
measure f16 8bit --baseline-exact
measure q8_0 8bit --baseline-exact
