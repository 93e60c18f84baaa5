#!/usr/bin/env bash
# test_compress_resume.sh BONSAI2 SOURCE [ROUNDS] - a compression that is killed again and
# again gives the bytes of one that was left alone; so do 1, 2 and 7 threads, Ctrl-C, and
# a write that fails because no more bytes may be written.
#
# SOURCE is a GGUF, or "tiny:PROGRAM": PROGRAM OUT SEED LAYERS writes one. Prints only on
# failure.
set -u
bin=$1 source=$2 rounds=${3:-4}
seed=${B2_TEST_SEED:-$RANDOM}
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-resume-XXXXXX")
trap 'rm -rf "$dir"' EXIT
RANDOM=$seed

fail() {
    echo "FAILED: $* (seed $seed: repeat with B2_TEST_SEED=$seed)"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}

sum() { sha256sum "$1" | cut -c1-64; }

if [ "${source#tiny:}" != "$source" ]; then
    "${source#tiny:}" "$dir/source.gguf" 7 10 || fail "tiny model"
    source=$dir/source.gguf
fi
size=$(stat -L -c %s "$source")
args=("$source" --budget $((size / 2)) --quiet)

start=$(date +%s%N)
"$bin" compress "${args[@]}" -o "$dir/want.gguf" >"$dir/out" 2>"$dir/err" || fail "plain run"
took=$((($(date +%s%N) - start) / 1000)) # microseconds
want=$(sum "$dir/want.gguf")

for threads in 1 2 7; do
    "$bin" compress "${args[@]}" --threads $threads -o "$dir/t.gguf" --force \
        >"$dir/out" 2>"$dir/err" || fail "$threads threads"
    [ "$(sum "$dir/t.gguf")" = "$want" ] || fail "$threads threads give other bytes"
done

# Waits until process $1 has written $2 pieces of $3, or has ended.
await_pieces() {
    while kill -0 "$1" 2>/dev/null; do
        n=$(find "$3.b2work" -maxdepth 1 -name '*.piece' 2>/dev/null | wc -l)
        [ "$n" -ge "$2" ] && return
        sleep 0.01
    done
}

# Each round kills once as soon as some pieces are there, then at random moments, later
# rounds more often. The part of a run that a kill leaves behind is never taken for the
# whole.
resumed=0
for ((round = 1; round <= rounds; round++)); do
    rm -f "$dir/k.gguf"
    for ((kill = 0; kill < round; kill++)); do
        "$bin" compress "${args[@]}" -o "$dir/k.gguf" >"$dir/out" 2>"$dir/err" &
        pid=$!
        us=$((took * (20 + RANDOM % 75) / 100))
        if [ $kill -eq 0 ]; then
            await_pieces $pid $((1 + RANDOM % 5)) "$dir/k.gguf"
        else
            sleep "$((us / 1000000)).$(printf %06d $((us % 1000000)))"
        fi
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        [ -f "$dir/k.gguf" ] && break # it was faster than the kill
    done
    if [ ! -f "$dir/k.gguf" ]; then
        "$bin" compress "${args[@]}" --json -o "$dir/k.gguf" >"$dir/out" 2>"$dir/err" ||
            fail "round $round: the run that goes on"
        n=$(sed -n 's/.*"pieces_resumed":[^0-9]*\([0-9]*\).*/\1/p' "$dir/out")
        resumed=$((resumed + n))
    fi
    [ "$(sum "$dir/k.gguf")" = "$want" ] || fail "round $round: other bytes after a kill"
    [ -e "$dir/k.gguf.b2work" ] && fail "round $round: state left behind"
done
[ $resumed -gt 0 ] || fail "no run had anything to go on from"

# Ctrl-C: exit code 130, a message that says how to go on, then the same bytes.
"$bin" compress "${args[@]}" -o "$dir/c.gguf" >"$dir/out" 2>"$dir/err" &
pid=$!
us=$((took * 6 / 10))
sleep "$((us / 1000000)).$(printf %06d $((us % 1000000)))"
kill -TERM $pid 2>/dev/null # a shell's background job ignores INT
wait $pid
code=$?
if [ ! -f "$dir/c.gguf" ]; then
    [ $code -eq 130 ] || fail "interrupted: exit code $code"
    grep -q "interrupted" "$dir/err" || fail "interrupted: no message"
fi
"$bin" compress "${args[@]}" -o "$dir/c.gguf" --force >"$dir/out" 2>"$dir/err" ||
    fail "after an interruption"
[ "$(sum "$dir/c.gguf")" = "$want" ] || fail "other bytes after an interruption"

# A write that fails: no file may pass half the output's size, so the pieces are written
# and the output is not. Exit code 1, and a state that goes on.
half=$(($(stat -c %s "$dir/want.gguf") / 2048))
(
    trap '' XFSZ
    ulimit -f $half
    exec "$bin" compress "${args[@]}" -o "$dir/f.gguf"
) >"$dir/out" 2>"$dir/err"
code=$?
[ $code -eq 1 ] || fail "a write that fails: exit code $code"
grep -q "same command" "$dir/err" || fail "a write that fails: no word on going on"
[ -f "$dir/f.gguf" ] && fail "a write that fails: there is an output"
[ -d "$dir/f.gguf.b2work" ] || fail "a write that fails: no state"
"$bin" compress "${args[@]}" -o "$dir/f.gguf" --json >"$dir/out" 2>"$dir/err" ||
    fail "after a write that failed"
grep -q '"pieces_resumed":[^0-9]*0,' "$dir/out" && fail "nothing was taken over"
[ "$(sum "$dir/f.gguf")" = "$want" ] || fail "other bytes after a write that failed"
exit 0
