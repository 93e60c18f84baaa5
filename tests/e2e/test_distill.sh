#!/usr/bin/env bash
# test_distill.sh BONSAI2 TINY_MODEL - distill from outside: the divergence of the written
# file falls as another measure of ours sees it, the same bytes at any number of threads
# and after kill -9, nothing left behind, bad words refused. Prints only on failure; 77: no
# OpenBLAS.
set -u
bin=$1 tiny=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-distill-XXXXXX")
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}
sum() { sha256sum "$1" | cut -c1-64; }
run() { "$bin" distill "$@" >"$dir/out" 2>"$dir/err"; }
kld() { # mean divergence of a file, in F32 as training computes
    "$bin" eval kld -m "$1" --baseline "$dir/teacher.gguf" --text "$dir/held.txt" --ctx 64 \
        --chunks 8 --exact --json --quiet 2>"$dir/err" |
        sed -n 's/.*"mean_kld":[^0-9]*\([0-9.e-]*\).*/\1/p'
}

"$tiny" "$dir/teacher.gguf" 7 3 || fail "tiny model"
awk 'BEGIN { srand(3); for (i = 0; i < 900; i++) { s = ""; for (j = 0; j < 9; j++)
    s = s sprintf("w%d ", int(rand() * 97)); print s } }' >"$dir/all.txt"
head -n 700 "$dir/all.txt" >"$dir/train.txt"
tail -n 200 "$dir/all.txt" >"$dir/held.txt"
# A student whose scales are far from the best ones, rotated, in our own type.
"$bin" compress "$dir/teacher.gguf" --rule '*=B2_T64' --rule 'token_embd*=keep' --rotate each \
    --ternary-rule round -o "$dir/student.gguf" --quiet >"$dir/out" 2>"$dir/err" ||
    fail "student"
args=(--teacher "$dir/teacher.gguf" --student "$dir/student.gguf" --calib "$dir/train.txt"
    --held "$dir/held.txt" --held-tokens 512 --ctx 64 --batch 2 --steps 24 --eval-every 6
    --rate 0.003 --scale-rate 0.003 --quiet)

run "${args[@]}" --threads 1 --report "$dir/report.json" -o "$dir/want.gguf"
code=$?
grep -q OpenBLAS "$dir/err" && { echo "skipped: no OpenBLAS"; exit 77; }
[ $code -eq 0 ] || fail "plain run"
want=$(sum "$dir/want.gguf")
[ -e "$dir/want.gguf.b2distill" ] && fail "the state was left behind"
grep -q '"curve"' "$dir/report.json" || fail "no curve in the report"
python3 -c 'import json, sys; r = json.load(open(sys.argv[1]))["recipe"]; assert r["loss"]["kl"] == 1, r' \
    "$dir/report.json" || fail "no recipe in the report"
"$bin" inspect "$dir/want.gguf" --verify >"$dir/out" 2>"$dir/err" || fail "inspect"
[ "$(stat -c %s "$dir/want.gguf")" -lt $(($(stat -c %s "$dir/student.gguf") + 4096)) ] ||
    fail "the file grew"
before=$(kld "$dir/student.gguf") after=$(kld "$dir/want.gguf")
awk -v a="$after" -v b="$before" 'BEGIN { exit !(a > 0 && a < 0.9 * b) }' ||
    fail "eval kld: $before before, $after after"

run "${args[@]}" --threads 3 -o "$dir/t.gguf" || fail "3 threads"
[ "$(sum "$dir/t.gguf")" = "$want" ] || fail "3 threads give other bytes"
run "${args[@]}" -o "$dir/t.gguf" && fail "an output was replaced without --force"

# Killed early and late; then it goes on and ends with the same bytes.
for wait in 0.05 0.3 0.8; do
    rm -f "$dir/k.gguf" "$dir/k.gguf.b2distill"
    "$bin" distill "${args[@]}" --threads 1 -o "$dir/k.gguf" >"$dir/out" 2>"$dir/err" &
    pid=$!
    while kill -0 $pid 2>/dev/null && ! [ -e "$dir/k.gguf.b2distill" ]; do sleep 0.01; done
    sleep $wait
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ -f "$dir/k.gguf" ] || run "${args[@]}" -o "$dir/k.gguf" || fail "going on"
    [ "$(sum "$dir/k.gguf")" = "$want" ] || fail "other bytes after a kill at $wait s"
done

# Other ways and losses: written as scored, parts of the loss and regions in the report.
for way in "--train scales" "--train lora --rank 8 --ce 0.1" "--free blk.0.ffn_down.*" \
    "--recipe brief --rate 0.003 --temperature 2" "--soft 0.5 --freeze blk.0.*=4" \
    "--schedule wsd --hidden 0.3 --hidden-layers 1, --hidden-until 0.5 --scale-weight 0.1"; do
    read -ra words <<<"$way"
    run "${args[@]}" "${words[@]}" --force --report "$dir/w.json" --curve "$dir/w.svg" \
        -o "$dir/w.gguf" || fail "$way"
    grep -q '"held_regions"' "$dir/w.json" || fail "$way: no regions in the curve"
    grep -q '</svg>' "$dir/w.svg" || fail "$way: no picture"
    now=$(kld "$dir/w.gguf")
    awk -v a="$now" -v b="$before" 'BEGIN { exit !(a > 0 && a < b) }' ||
        fail "$way: $before before, $now after"
done
"$bin" inspect "$dir/w.gguf" --verify >"$dir/out" 2>"$dir/err" || fail "inspect"
for way in "--train some" "--recipe mine" "--kl 0" "--rank 0" "--hidden-layers 1,x" "--hidden-layers 0"; do
    read -ra words <<<"$way"
    run "${args[@]}" "${words[@]}" -o "$dir/x.gguf"
    [ $? -eq 2 ] || fail "$way: not a usage error"
done
run "${args[@]}" --free 'blk.77.*' -o "$dir/x.gguf" && fail "--free of nothing was taken"
grep -q 'names are like' "$dir/err" || fail "--free: $(cat "$dir/err")"

# What cannot be written is said before the work, and nothing is left of it.
for way in "--report $dir/none/r.json" "--curve $dir/none/c.svg" "--report $dir/x.gguf" \
    "--teacher-cache $dir/none/cache" "-o $dir/none/x.gguf"; do
    read -ra words <<<"$way"
    run "${args[@]}" -o "$dir/x.gguf" "${words[@]}" && fail "$way was taken"
    grep -q "none\|is the output" "$dir/err" || fail "$way: $(cat "$dir/err")"
    [ -z "$(ls "$dir" | grep '^x.gguf')" ] || fail "$way left $(ls "$dir")"
done

run "${args[@]}" --dry-run --json || fail "dry run"
plan=$(sed -n 's/.*"plan_bytes":[^0-9]*\([0-9]*\).*/\1/p' "$dir/out")
[ "${plan:-0}" -gt 1000000 ] || fail "dry run: no plan"
saved=$(sed -n 's/.*"checkpoint_bytes":[^0-9]*\([0-9]*\).*/\1/p' "$dir/out")
"$bin" distill "${args[@]}" --steps 100000 -o "$dir/s.gguf" >"$dir/out" 2>"$dir/err" &
pid=$!
while kill -0 $pid 2>/dev/null && ! [ -e "$dir/s.gguf.b2distill" ]; do sleep 0.01; done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
bytes=$(stat -c %s "$dir/s.gguf.b2distill")
[ "$saved" -le "$bytes" ] && [ $((bytes - saved)) -lt 8192 ] ||
    fail "a checkpoint of $saved bytes was announced, it has $bytes"
run "${args[@]}" --dry-run --mem-limit 1MB && fail "a plan above the limit was taken"
grep -q "more than --mem-limit" "$dir/err" || fail "--mem-limit: $(cat "$dir/err")"
run --teacher "$dir/teacher.gguf" --student "$dir/student.gguf" -o "$dir/x.gguf"
[ $? -eq 2 ] || fail "no --calib: not a usage error"
run "${args[@]}" --calib "$dir/held.txt" -o "$dir/x.gguf" && fail "a held-out text was taken"
exit 0
