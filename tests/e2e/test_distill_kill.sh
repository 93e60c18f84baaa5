#!/usr/bin/env bash
# test_distill_kill.sh BONSAI2 TINY_MODEL - distill killed with kill -9 at several moments,
# with latents on the disk and while the teacher's distributions are made and used: the
# same command goes on and ends with the same bytes, nothing stays behind. A second process
# with the same output is refused and disturbs nothing. Prints only on failure; 77: no
# OpenBLAS.
set -u
bin=$1 tiny=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-kill-XXXXXX")
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null; rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}
sum() { sha256sum "$1" | cut -c1-64; }
run() { "$bin" distill "$@" >"$dir/out" 2>"$dir/err"; }
start() { # in the background, as $pid
    "$bin" distill "$@" >"$dir/out.bg" 2>"$dir/err.bg" &
    pid=$!
}
alive() { kill -0 $pid 2>/dev/null; }
slay() {
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    pid=
}
size() { stat -c %s "$1" 2>/dev/null || echo 0; }
changes() { # waits until the state was replaced N times more
    local n=$1 was now
    was=$(stat -c %i "$state" 2>/dev/null)
    while alive && [ "$n" -gt 0 ]; do
        now=$(stat -c %i "$state" 2>/dev/null)
        [ "$now" = "$was" ] && sleep 0.005 && continue
        was=$now n=$((n - 1))
    done
}
left() { # what a run leaves beside its output
    ls -A "$dir" | grep '^k\.gguf..*'
}

"$tiny" "$dir/teacher.gguf" 7 3 || fail "tiny model"
awk 'BEGIN { srand(3); for (i = 0; i < 700; i++) { s = ""; for (j = 0; j < 9; j++)
    s = s sprintf("w%d ", int(rand() * 97)); print s } }' >"$dir/text.txt"
"$bin" compress "$dir/teacher.gguf" --rule '*=B2_T64' --rule 'token_embd*=keep' --rotate each \
    --ternary-rule round -o "$dir/student.gguf" --quiet >"$dir/out" 2>"$dir/err" ||
    fail "student"
args=(--teacher "$dir/teacher.gguf" --student "$dir/student.gguf" --calib "$dir/text.txt"
    --held-tokens 256 --ctx 64 --batch 2 --micro 1 --steps 20 --eval-every 4 --patience 0
    --rate 0.003 --scale-rate 0.003 --quiet)
state=$dir/k.gguf.b2distill

run "${args[@]}" -o "$dir/want.gguf"
code=$?
grep -q OpenBLAS "$dir/err" && { echo "skipped: no OpenBLAS"; exit 77; }
[ $code -eq 0 ] || fail "plain run"
want=$(sum "$dir/want.gguf")

# The least memory with which a plan exists: every layer's latents lie on the disk.
run "${args[@]}" --dry-run --mem-limit 1MB && fail "a plan within 1 MB"
least=$(sed -n 's/.*needs [^(]*(\([0-9]*\) bytes).*/\1/p' "$dir/err")
[ "${least:-0}" -gt 1000000 ] || fail "no smallest plan: $(cat "$dir/err")"
run "${args[@]}" --dry-run --mem-limit "$least" --json || fail "dry run within $least bytes"
grep -q '"layers_in_memory":[[:space:]]*0,' "$dir/out" || fail "layers stay in memory"

windows=(--mem-limit "$least")
cache=(--teacher-cache "$dir/cache" --teacher-k 16)
run "${args[@]}" "${cache[@]}" -o "$dir/cached.gguf" || fail "run with a cache"
want_cached=$(sum "$dir/cached.gguf")
made=$(sum "$dir/cache") made_bytes=$(size "$dir/cache")

# Killed after so many evaluations, in the middle of what comes then.
for after in 1 2 4; do
    for way in windows cache; do
        rm -f "$dir"/k.gguf*
        declare -n more=$way
        start "${args[@]}" "${more[@]}" -o "$dir/k.gguf"
        changes $after
        alive && sleep 0.0$((after * 2))
        slay
        [ -f "$dir/k.gguf" ] || run "${args[@]}" "${more[@]}" -o "$dir/k.gguf" ||
            fail "going on, $way, $after"
        [ $way = windows ] && right=$want || right=$want_cached
        [ "$(sum "$dir/k.gguf")" = "$right" ] || fail "other bytes, $way, killed after $after"
        [ -z "$(left)" ] || fail "left behind, $way: $(left)"
    done
done
# A run that was killed with latents on the disk goes on without, and the other way round.
rm -f "$dir"/k.gguf*
start "${args[@]}" "${windows[@]}" -o "$dir/k.gguf"
changes 2
slay
[ -f "$dir/k.gguf" ] || run "${args[@]}" -o "$dir/k.gguf" || fail "going on in memory"
[ "$(sum "$dir/k.gguf")" = "$want" ] || fail "other bytes when it goes on in memory"

# Killed while the teacher's file is made: a third of it, two thirds.
for third in 1 2; do
    rm -f "$dir"/k.gguf* "$dir/cache"*
    start "${args[@]}" "${cache[@]}" -o "$dir/k.gguf"
    while alive && [ "$(cat "$dir"/cache* 2>/dev/null | wc -c)" -lt $((made_bytes * third / 3)) ]; do
        sleep 0.002
    done
    slay
    [ -f "$dir/k.gguf" ] || run "${args[@]}" "${cache[@]}" -o "$dir/k.gguf" ||
        fail "going on with a cache of $third thirds"
    [ "$(sum "$dir/k.gguf")" = "$want_cached" ] || fail "other bytes, cache of $third thirds"
    [ "$(sum "$dir/cache")" = "$made" ] || fail "another cache after $third thirds"
done

# Two with one output: the second says so at once; the first ends as if it were alone.
rm -f "$dir"/k.gguf*
start "${args[@]}" -o "$dir/k.gguf"
changes 1
kill -STOP $pid 2>/dev/null
if alive && [ ! -f "$dir/k.gguf" ]; then
    run "${args[@]}" --force -o "$dir/k.gguf" && fail "two processes with one output"
    grep -q 'another `bonsai2 distill`' "$dir/err" || fail "the second: $(cat "$dir/err")"
fi
kill -CONT $pid 2>/dev/null
wait $pid || fail "the first: $(cat "$dir/err.bg")"
pid=
[ "$(sum "$dir/k.gguf")" = "$want" ] || fail "the first was disturbed"
[ -z "$(left)" ] || fail "left behind: $(left)"
exit 0
