#!/usr/bin/env bash
# test.sh - every check and every test, then one line: "N passed, N failed[, N skipped]".
#
# Called by ./run test, which has installed what this needs. Each ctest test, each house
# rule and each fuzz target counts as one. B2_FUZZ_S sets the seconds for a fuzz target
# (60). Long measurements live in bench/ and quality/, not here.
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0 skipped=0
failures=()
log=build/test-logs
mkdir -p $log
start_s=$SECONDS

say() { printf '\n==> [%d s] %s\n' $((SECONDS - start_s)) "$*"; }

# step NAME COMMAND...: one check; its output goes to a file that is shown on failure.
step() {
    local name=$1
    shift
    if "$@" >"$log/$name.log" 2>&1; then
        echo "  passed  $name"
        passed=$((passed + 1))
    else
        echo "  FAILED  $name (see $log/$name.log)"
        tail -n 40 "$log/$name.log"
        failed=$((failed + 1))
        failures+=("$name")
    fi
}

junit_head() { tr '\n' ' ' <"$1" | grep -o '<testsuite[^>]*>' | head -n 1 | tr '\t' ' '; }

# tests PRESET CTEST_ARGS...: all tests of one build; counted one by one.
tests() {
    local preset=$1 xml=$PWD/$log/$1.xml
    shift
    rm -f "$xml"
    ctest --test-dir "build/$preset" --output-on-failure --output-junit "$xml" "$@" |
        grep -vE '^ *Start |^(Test project|Internal ctest|Label Time|$)'
    if [ ! -s "$xml" ]; then
        failed=$((failed + 1))
        failures+=("ctest-$preset")
        return
    fi
    local head total bad left
    head=$(junit_head "$xml")
    total=$(sed 's/.* tests="\([0-9]*\)".*/\1/' <<<"$head")
    bad=$(sed 's/.* failures="\([0-9]*\)".*/\1/' <<<"$head")
    left=$(sed 's/.* skipped="\([0-9]*\)".*/\1/' <<<"$head")
    passed=$((passed + total - bad - left))
    failed=$((failed + bad))
    skipped=$((skipped + left))
    [ "$bad" -eq 0 ] || failures+=("ctest-$preset")
}

configure_and_build() {
    cmake --preset "$1" "${@:2}" && cmake --build --preset "$1"
}

# Every fuzz target; tools/fuzz.sh prints one line for each.
fuzz_all() {
    local lines=$log/fuzz.lines source name
    B2_FUZZ_SEED=${B2_FUZZ_SEED:-1} tools/fuzz.sh "${B2_FUZZ_S:-60}" >"$lines" 2>&1
    for source in tests/fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        step "$name" grep -E "^fuzz ${name#fuzz_} +ok:" "$lines"
    done
    grep -E 'ok:' "$lines"
    grep -qE FAILED "$lines" && cat "$lines"
}

# arm_level PROCESSOR LEVEL: the kernel checks on a processor whose highest level it is.
arm_level() {
    local qemu
    qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || return 1
    timeout 300 "$qemu" -cpu "$1" build/arm64/kernel_levels "$2"
}

arm_all() {
    say "kernels of 64-bit ARM, built across and run in an emulator"
    step build-arm64 configure_and_build arm64
    step arm64-neon arm_level cortex-a72 neon
    step arm64-dotprod arm_level cortex-a76 dotprod
    step arm64-i8mm arm_level max,pauth-impdef=on i8mm
}

finish() {
    say "done"
    [ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[*]}"
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
}

say "house rules"
step house-rules tools/check.sh

say "builds: gcc release, gcc with sanitizers, clang (warnings are errors in the last two)"
step build-release configure_and_build release -DB2_BUILD_TESTS=ON
step build-asan configure_and_build asan
step build-clang configure_and_build clang
step clang-tidy tools/check.sh --tidy

say "fetching the real models and the oracle (kept for the next time)"
step fetch-model tools/fetch_model.sh
step fetch-gemma tools/fetch_model.sh gemma3
step fetch-oracle tools/fetch_oracle.sh

say "tests, release build"
tests release -j "$(nproc)"

say "tests, address and undefined-behaviour sanitizers"
tests asan -j "$(nproc)" -LE 'model|oracle|e2e|oom'

say "tests with threads, thread sanitizer"
step build-tsan configure_and_build tsan
tests tsan -L threads

[ "$(uname -m)" != x86_64 ] || arm_all

say "fuzzing, ${B2_FUZZ_S:-60} s each"
step build-fuzz configure_and_build fuzz
fuzz_all
finish
