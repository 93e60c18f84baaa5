#!/usr/bin/env bash
# fuzz.sh - builds the fuzz targets with clang and runs each for a while.
#
#   tools/fuzz.sh SECONDS [NAME...]     e.g. tools/fuzz.sh 60 gguf
#
# Starts from tests/fuzz/corpus/NAME and from what earlier runs found, kept under
# build/fuzz-corpus/NAME. An input that crashes, hangs (10 s) or takes more than 2 GB is
# kept under build/fuzz-crash/ and makes the script fail; repeat it with
# build/fuzz/tests/fuzz/fuzz_NAME FILE. Two targets run at a time. B2_FUZZ_SEED=N makes
# the tries the same each time: from the corpus of the repository alone, as many as a
# minute of a quick machine holds, without what depends on addresses (comparisons as
# hints). The test command sets it, so that its result is the same everywhere; without it
# each run tries something new.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS [NAME...]}
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    mapfile -t names < <(sed -n 's/^b2_fuzz(\([a-z0-9_]*\) .*/\1/p' tests/fuzz/targets.cmake)
fi

mkdir -p build
if ! { cmake --preset fuzz && cmake --build --preset fuzz --target "${names[@]/#/fuzz_}"; } >build/fuzz-build.log 2>&1; then
    tail -30 build/fuzz-build.log >&2
    exit 1
fi

# Tries in a repeatable run, about a minute's.
declare -A tries=([gguf]=4500000 [opt]=3500000 [safetensors]=2500000 [hf_config]=700000
    [tokenizer_json]=850000 [tok_text]=400000 [jinja]=280000 [table]=290000
    [task_desc]=200000 [teacher]=2100000 [page]=400000 [sensitivity]=600000
    [costs]=1500000 [checkpoint]=200000)

run_one() {
    local name=$1 bin=build/fuzz/tests/fuzz/fuzz_$1 log=build/fuzz-$1.log
    local found=build/fuzz-corpus/$name how=() fixed=()
    if [ -n "${B2_FUZZ_SEED:-}" ]; then
        found=build/fuzz-repeat/$name
        rm -rf "$found"
        how=(-seed="$B2_FUZZ_SEED" -runs="${tries[$name]:--1}" -use_cmp=0 -entropic=0)
        ! setarch -R true 2>/dev/null || fixed=(setarch -R)
    fi
    mkdir -p "$found" build/fuzz-crash
    local rc=0
    UBSAN_OPTIONS=print_stacktrace=1 "${fixed[@]}" "$bin" "$found" \
        "tests/fuzz/corpus/$name" "${how[@]}" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 \
        -artifact_prefix="build/fuzz-crash/$name-" -print_final_stats=1 \
        >"$log" 2>&1 || rc=$?
    local runs
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    local cov
    cov=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    if [ "$rc" -eq 0 ]; then
        printf 'fuzz %-16s ok: %s runs, %s edges, %s s\n' "$name" "${runs:-0}" \
            "${cov:-0}" "$seconds"
    else
        printf 'fuzz %-16s FAILED (exit %s), see %s and build/fuzz-crash/\n' "$name" \
            "$rc" "$log"
        grep -m1 -E 'SUMMARY|ERROR|runtime error|broken:' "$log" || tail -5 "$log"
        return 1
    fi
}

failed=0
pids=()
for name in "${names[@]}"; do
    run_one "$name" &
    pids+=($!)
    if [ ${#pids[@]} -ge 2 ]; then
        wait "${pids[0]}" || failed=1
        pids=("${pids[@]:1}")
    fi
done
for pid in "${pids[@]}"; do
    wait "$pid" || failed=1
done
exit $failed
