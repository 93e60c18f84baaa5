#!/usr/bin/env bash
# test_compress_real.sh BONSAI2 - compress on SmolLM2-135M: peak memory below 400 MB,
# budgets held to the byte, killed runs resume. Skipped (77) without the model.
set -u
bin=$1
cache=${B2_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bonsai2}
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$model" ]; then
    echo "skipped: the model is not in the cache: run tools/fetch_model.sh"
    exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-real-XXXXXX")
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

number() { sed -n "s/^.*\"$1\":[^0-9]*\([0-9]*\).*/\1/p" "$dir/out" | tail -1; }

for budget in 90000000 38000000; do
    "$bin" compress "$model" --budget $budget -o "$dir/o.gguf" --force --json --quiet \
        >"$dir/out" || fail "budget $budget"
    size=$(stat -c %s "$dir/o.gguf")
    [ "$size" -le $budget ] || fail "budget $budget: $size bytes"
    [ "$size" -gt $((budget * 98 / 100)) ] || fail "budget $budget: only $size bytes used"
    rss=$(number peak_rss_bytes)
    [ "$rss" -lt 400000000 ] || fail "budget $budget: peak memory $rss bytes"
done
if "$bin" compress "$model" --budget 20MB -o "$dir/s.gguf" --quiet 2>"$dir/err"; then
    fail "20 MB were taken"
fi
grep -q "smallest file" "$dir/err" || fail "20 MB: the smallest size is not named"
exec "$(dirname "$0")/test_compress_resume.sh" "$bin" "$model" 2
