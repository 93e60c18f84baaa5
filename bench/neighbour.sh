#!/usr/bin/env bash
# neighbour.sh [OUT.csv] - bench/neighbour.py on a random file of size S, made as needed.
#
# Our program with PTQ1_0 in place and repacked, and llama.cpp on the TQ2_0 file, on 1 and
# 2 threads beside 0, 1 and 2 busy processes: some two minutes. Files go to $B2_BENCH_DIR
# (default bench/files, 0.3 GB). Python with the packages of tests/oracle/requirements.txt:
# $B2_PYTHON; B2_PEER=no leaves llama.cpp out. Nothing else should run meanwhile.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
dir=${B2_BENCH_DIR:-$here/files}
out=${1:-$here/neighbour.csv}
mkdir -p "$dir"
for type in tq2_0 ptq1_0; do
    file=$dir/S-$type.gguf
    [ -s "$file" ] || "$bonsai2" synth --like S --type "$type" -o "$file"
done
peer=(--peer "$dir/S-tq2_0.gguf")
[ "${B2_PEER:-}" != no ] || peer=()
"${B2_PYTHON:-python3}" "$here/neighbour.py" "$out" "$dir/S-ptq1_0.gguf" ${peer[@]+"${peer[@]}"} \
    --ours="" --ours="--repack fast" --rounds "${B2_ROUNDS:-3}"
echo "$out"
