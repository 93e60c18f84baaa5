#!/usr/bin/env bash
# test_compress_best.sh BONSAI2 TINY_MODEL - effort best from outside: it ends nearer to the
# source than effort normal, with the same bytes at any number of threads and after kill -9
# in every stage, inside its budget of bytes, and leaves nothing behind. Prints only on
# failure; 77: no OpenBLAS.
set -u
bin=$1 tiny=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-best-XXXXXX")
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}
sum() { sha256sum "$1" | cut -c1-64; }
run() { "$bin" compress "$@" >"$dir/out" 2>"$dir/err"; }
kld() {
    "$bin" eval kld -m "$1" --baseline "$dir/source.gguf" --text "$dir/held.txt" --ctx 64 \
        --chunks 8 --exact --json --quiet 2>"$dir/err" |
        sed -n 's/.*"mean_kld":[^0-9]*\([0-9.e-]*\).*/\1/p'
}

"$tiny" "$dir/source.gguf" 7 3 || fail "tiny model"
awk 'BEGIN { srand(3); for (i = 0; i < 900; i++) { s = ""; for (j = 0; j < 9; j++)
    s = s sprintf("w%d ", int(rand() * 97)); print s } }' >"$dir/all.txt"
head -n 700 "$dir/all.txt" >"$dir/train.txt"
tail -n 200 "$dir/all.txt" >"$dir/held.txt"
plain=("$dir/source.gguf" --rule '*=B2_T64' --rule 'token_embd*=keep' --calib "$dir/train.txt"
    --calib-tokens 1024 --calib-ctx 64 --refine 0 --mismatch 0 --rotate none --quiet)
args=("${plain[@]}" --effort best --held "$dir/held.txt" --held-tokens 512 --ctx 64 --batch 2
    --steps 20 --eval-every 5 --rate 0.003 --scale-rate 0.003)

run "${args[@]}" --threads 1 --report "$dir/report.json" -o "$dir/want.gguf"
code=$?
grep -q OpenBLAS "$dir/err" && { echo "skipped: no OpenBLAS"; exit 77; }
[ $code -eq 0 ] || fail "plain run"
want=$(sum "$dir/want.gguf")
[ "$(ls "$dir" | grep -c want.gguf)" -eq 1 ] || fail "left behind: $(ls "$dir")"
grep -q '"distil"' "$dir/report.json" && grep -q '"distillation"' "$dir/report.json" ||
    fail "the report has no distillation"
"$bin" inspect "$dir/want.gguf" --verify >"$dir/out" 2>"$dir/err" || fail "inspect"
run "${plain[@]}" -o "$dir/normal.gguf" || fail "effort normal"
before=$(kld "$dir/normal.gguf") after=$(kld "$dir/want.gguf")
awk -v a="$after" -v b="$before" 'BEGIN { exit !(a > 0 && a < 0.97 * b) }' ||
    fail "eval kld: $before normal, $after best"

run "${args[@]}" --threads 3 -o "$dir/t.gguf" || fail "3 threads"
[ "$(sum "$dir/t.gguf")" = "$want" ] || fail "3 threads give other bytes"

# Killed as soon as a file appears, a little later too; then the same bytes.
for seen in 00000.piece student.gguf trained.gguf.b2distill; do
    for wait in 0 0.15; do
        rm -rf "$dir/k.gguf" "$dir/k.gguf.b2work"
        "$bin" compress "${args[@]}" --threads 1 -o "$dir/k.gguf" >"$dir/out" 2>"$dir/err" &
        pid=$!
        while kill -0 $pid 2>/dev/null && ! [ -e "$dir/k.gguf.b2work/$seen" ]; do
            sleep 0.005
        done
        sleep $wait
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        [ -f "$dir/k.gguf" ] || run "${args[@]}" -o "$dir/k.gguf" || fail "going on, $seen"
        [ "$(sum "$dir/k.gguf")" = "$want" ] || fail "other bytes after a kill at $seen"
        [ -e "$dir/k.gguf.b2work" ] && fail "a state was left behind"
    done
done

# A budget counts the whole file, what training writes into it too.
bytes=$(stat -c %s "$dir/want.gguf")
budget=("$dir/source.gguf" --budget $((bytes + 6000)) "${args[@]:5}")
run "${budget[@]}" -o "$dir/b.gguf" || fail "budget"
[ "$(stat -c %s "$dir/b.gguf")" -le $((bytes + 6000)) ] || fail "above the budget"

# A started run with other settings is refused, and thrown away on demand.
"$bin" compress "${args[@]}" --steps 100000 -o "$dir/o.gguf" >"$dir/out" 2>"$dir/err" &
pid=$!
while kill -0 $pid 2>/dev/null && ! [ -e "$dir/o.gguf.b2work/trained.gguf.b2distill" ]; do
    sleep 0.01
done
run "${args[@]}" -o "$dir/o.gguf" && fail "two processes at one output"
grep -q "another process" "$dir/err" || fail "two processes: $(cat "$dir/err")"
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
run "${args[@]}" -o "$dir/o.gguf" && fail "another run's state was taken"
grep -q -- "--force" "$dir/err" || fail "another run's state: $(cat "$dir/err")"
run "${args[@]}" -o "$dir/o.gguf" --force || fail "--force"
[ "$(sum "$dir/o.gguf")" = "$want" ] || fail "other bytes with --force"

run "$dir/source.gguf" --rule '*=B2_T64' --effort best -o "$dir/x.gguf"
[ $? -eq 2 ] || fail "no --calib: not a usage error"
run "${plain[@]}" --held "$dir/held.txt" -o "$dir/x.gguf"
[ $? -eq 2 ] || fail "--held without effort best: not a usage error"
exit 0
