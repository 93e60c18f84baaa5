#!/usr/bin/env bash
# test_distill_data.sh BONSAI2 TINY_MODEL - what distill learns from: the teacher's own
# answers are made once, gone on with after kill -9 and used again, with the same bytes at
# any number of threads; calibration reads them. Prints only on failure; 77: no OpenBLAS.
set -u
bin=$1 tiny=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-data-XXXXXX")
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}
sum() { sha256sum "$1" | cut -c1-64; }
run() { "$bin" distill "$@" >"$dir/out" 2>"$dir/err"; }

"$tiny" "$dir/teacher.gguf" 7 3 || fail "tiny model"
awk 'BEGIN { srand(3); for (i = 0; i < 500; i++) { s = ""; for (j = 0; j < 9; j++)
    s = s sprintf("w%d ", int(rand() * 97)); print s } }' >"$dir/text.txt"
awk 'BEGIN { srand(5); for (i = 0; i < 120; i++) printf "{\"question\": \"what is %d and %d?\", \"answer\": \"it is %d\"}\n",
    rand() * 97, rand() * 97, rand() * 97 }' >"$dir/asked.jsonl"
"$bin" compress "$dir/teacher.gguf" --rule '*=B2_T64' --rule 'token_embd*=keep' --rotate none \
    -o "$dir/student.gguf" --quiet >"$dir/out" 2>"$dir/err" || fail "student"
args=(--teacher "$dir/teacher.gguf" --student "$dir/student.gguf" --calib "$dir/text.txt"
    --calib "$dir/asked.jsonl=2" --ctx 32 --batch 2 --steps 12 --eval-every 4 --held-tokens 64
    --self 40 --self-tokens 24 --quiet)

run "${args[@]}" --threads 1 --report "$dir/report.json" -o "$dir/want.gguf"
code=$?
grep -q OpenBLAS "$dir/err" && { echo "skipped: no OpenBLAS"; exit 77; }
[ $code -eq 0 ] || fail "plain run"
want=$(sum "$dir/want.gguf")
answers="$dir/want.gguf.answers.jsonl"
[ "$(wc -l <"$answers")" -eq 41 ] || fail "40 answers and a head: $(wc -l <"$answers")"
python3 - "$answers" <<'PY' || fail "the answers are no JSON lines"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert lines[0]["n"] == 40 and lines[0]["temperature"] == 0.7, lines[0]
assert all(set(line) == {"question", "answer"} for line in lines[1:])
assert sum(line["question"].startswith("what is") for line in lines[1:]) == 20
PY
grep -q 'answers.jsonl' "$dir/report.json" || fail "the report does not name the answers"

# Other threads; then killed while it answers and while it learns: the same bytes.
run "${args[@]}" --threads 3 -o "$dir/t.gguf" || fail "3 threads"
[ "$(sum "$dir/t.gguf.answers.jsonl")" = "$(sum "$answers")" ] || fail "other answers, 3 threads"
cmp -s <(tail -c +1 "$answers") "$dir/t.gguf.answers.jsonl" || fail "other answers"
for lines in 3 41; do
    rm -f "$dir"/k.gguf*
    "$bin" distill "${args[@]}" --threads 1 -o "$dir/k.gguf" --self-file "$dir/k.jsonl" \
        >"$dir/out" 2>"$dir/err" &
    pid=$!
    while kill -0 $pid 2>/dev/null &&
        [ "$(wc -l 2>/dev/null <"$dir/k.jsonl" || echo 0)" -lt $lines ]; do sleep 0.01; done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    printf '{"question":"half a li' >>"$dir/k.jsonl"
    run "${args[@]}" -o "$dir/k.gguf" --self-file "$dir/k.jsonl" || fail "going on at $lines"
    cmp -s "$dir/k.jsonl" "$answers" || fail "other answers after a kill at $lines"
    rm -f "$dir/k.jsonl"
done

# Used again, also by another command; another seed's are refused.
before=$(stat -c %Y.%s "$answers")
rm "$dir/want.gguf"
run "${args[@]}" -o "$dir/want.gguf" || fail "used again"
[ "$(sum "$dir/want.gguf")" = "$want" ] || fail "other bytes with the answers that were there"
[ "$(stat -c %Y.%s "$answers")" = "$before" ] || fail "the answers were written again"
"$bin" compress "$dir/teacher.gguf" --rule '*=B2_T64' --calib "$answers" --calib-tokens 256 \
    --calib-ctx 32 --rotate none -o "$dir/c.gguf" --quiet >"$dir/out" 2>"$dir/err" ||
    fail "compress --calib with answers"
run "${args[@]}" --seed 2 --force -o "$dir/want.gguf" && fail "another seed's answers taken"
grep -q "other settings" "$dir/err" || fail "another seed: $(cat "$dir/err")"
run "${args[@]}" --dry-run -o "$dir/n.gguf" || fail "dry run"
[ -e "$dir/n.gguf.answers.jsonl" ] && fail "a dry run wrote answers"
exit 0
