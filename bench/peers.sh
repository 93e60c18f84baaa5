#!/usr/bin/env bash
# peers.sh S|M|L [OUT.csv] - bench/peers.py on random files of one size, made as needed.
#
# Files go to $B2_BENCH_DIR (default bench/files): S needs 0.7 GB of disk, M 4, L 26.
# Python with the packages of tests/oracle/requirements.txt: $B2_PYTHON. Keep the machine
# quiet; B2_ROUNDS, B2_THREADS (1,2) and B2_TYPES shorten a run; B2_OURS="--repack fast"
# runs our program with these words beside the plain one. Types that llama.cpp reads
# (B2_TYPES="q8_0 q4_0 q4_k") meet it on the same file, others on TQ2_0 and TQ1_0.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
python=${B2_PYTHON:-python3}
size=${1:?usage: peers.sh S|M|L [OUT.csv]}
machine=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -cs 'A-Za-z0-9\n' '-')
out=${2:-$here/results/${machine%-}.csv}
dir=${B2_BENCH_DIR:-$here/files}
mkdir -p "$dir" "$(dirname "$out")"
types=${B2_TYPES:-tq2_0 ptq1_0 pq2_0}
make_file() {
    local file=$dir/$size-$1.gguf
    [ -s "$file" ] || "$bonsai2" synth --like "$size" --type "$1" -o "$file"
}
case $size in
    S) shape=(--prompts 64,512 --predict 64) ;;
    M) shape=(--prompts 64,512 --predict 32) ;;
    *) shape=(--prompts 32 --predict 8) ;;
esac
files=()
peers=()
for type in $types; do
    make_file "$type"
    files+=("$dir/$size-$type.gguf")
    case $type in
        ptq1_0 | pq2_0 | q2_0 | b2_*)
            make_file tq2_0
            make_file tq1_0
            peers+=(--peer "$dir/$size-$type.gguf=$dir/$size-tq2_0.gguf,$dir/$size-tq1_0.gguf")
            ;;
    esac
done
"$python" "$here/peers.py" "$out" "${files[@]}" ${peers[@]+"${peers[@]}"} "${shape[@]}" \
    --threads "${B2_THREADS:-1,2}" --rounds "${B2_ROUNDS:-3}" --ours="" ${B2_OURS:+--ours="$B2_OURS"}
echo "$out"
