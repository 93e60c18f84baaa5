#!/usr/bin/env bash
# test_words.sh BONSAI2 TINY_MODEL - types of words of four codes from outside: compressed
# with compensation to the same bytes at any number of threads, run alike at every processor
# level, exported without loss, a loss that is said, trained. Prints only on failure; 77: no
# OpenBLAS.
set -u
bin=$1 tiny=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-words-XXXXXX")
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}
run() { "$bin" "$@" >"$dir/out" 2>"$dir/err"; }
number() { # the first of that name
    sed -n 's/.*"'"$1"'":[^0-9]*\([0-9.e+-]*\).*/\1/p' "$dir/out" | head -n 1
}

"$tiny" "$dir/source.gguf" 7 3 || fail "tiny model"
awk 'BEGIN { srand(3); for (i = 0; i < 900; i++) { s = ""; for (j = 0; j < 9; j++)
    s = s sprintf("w%d ", int(rand() * 97)); print s } }' >"$dir/all.txt"
head -n 700 "$dir/all.txt" >"$dir/train.txt"
tail -n 200 "$dir/all.txt" >"$dir/held.txt"
args=("$dir/source.gguf" --rule '*=B2_C64' --rule '*.ffn_down.weight=b2_c128'
    --rule 'token_embd*=keep' --calib "$dir/train.txt" --calib-tokens 2048 --calib-ctx 64
    --refine 2 --quiet --json)

run compress "${args[@]}" --threads 1 -o "$dir/words.gguf"
code=$?
grep -q OpenBLAS "$dir/err" && { echo "skipped: no OpenBLAS"; exit 77; }
[ $code -eq 0 ] || fail "compress"
bits=$(number bits_per_weight_ternary)
awk -v b="$bits" 'BEGIN { exit !(b > 1.5625 && b < 1.625) }' || fail "$bits bits a weight"
run compress "${args[@]}" --threads 3 -o "$dir/again.gguf" || fail "three threads"
cmp -s "$dir/words.gguf" "$dir/again.gguf" || fail "three threads give other bytes"
run inspect "$dir/words.gguf" --verify || fail "inspect"
grep -q B2_C64 "$dir/out" && grep -q B2_C128 "$dir/out" || fail "inspect: no such types"

# Compensation helps here as it does for free codes.
kld() {
    run eval kld -m "$1" --baseline "$dir/source.gguf" --text "$dir/held.txt" --ctx 64 \
        --chunks 8 --json --quiet || fail "eval of $1"
    number mean_kld
}
run compress "$dir/source.gguf" --rule '*=B2_C64' --rule 'token_embd*=keep' \
    --ternary-rule round --quiet -o "$dir/round.gguf" || fail "plain rounding"
awk -v a="$(kld "$dir/words.gguf")" -v b="$(kld "$dir/round.gguf")" \
    'BEGIN { exit !(a > 0 && a < 0.8 * b) }' || fail "compensation does not help"

# Every level that this machine has says the same.
run run -m "$dir/words.gguf" -p abc -n 8 --json || fail "run"
want=$(number first_logits)$(sed -n 's/.*"text": *\(.*\)/\1/p' "$dir/out")
for level in scalar avx2 avxvnni avx512vnni; do
    B2_CPU=$level "$bin" run -m "$dir/words.gguf" -p abc -n 8 --json >"$dir/out" \
        2>"$dir/err" || continue
    got=$(number first_logits)$(sed -n 's/.*"text": *\(.*\)/\1/p' "$dir/out")
    [ "$got" = "$want" ] || fail "other words at level $level"
done

# To plain numbers and back: nothing is lost. To words from free codes: that is said.
run export "$dir/words.gguf" --format gguf-f32 -o "$dir/f32.gguf" || fail "to F32"
run export "$dir/f32.gguf" --format gguf-b2_c64 --only '*attn_q.weight' -o "$dir/back.gguf" ||
    fail "back to words"
run eval kld -m "$dir/back.gguf" --baseline "$dir/f32.gguf" --text "$dir/held.txt" --ctx 64 \
    --chunks 2 --exact --json --quiet || fail "eval of what came back"
awk -v k="$(number mean_kld)" 'BEGIN { exit !(k < 1e-9) }' || fail "words are lost on the way"
run compress "$dir/source.gguf" --rule '*=B2_T64' --rule 'token_embd*=keep' --quiet \
    -o "$dir/free.gguf" || fail "free codes"
run export "$dir/free.gguf" --format gguf-b2_c64 -o "$dir/lossy.gguf" &&
    fail "a loss was not refused"
grep -q "changes values" "$dir/err" || fail "the loss is not named"

# A student of words learns, and stays one.
run distill --teacher "$dir/source.gguf" --student "$dir/round.gguf" --calib "$dir/train.txt" \
    --held "$dir/held.txt" --held-tokens 512 --ctx 64 --batch 2 --steps 16 --eval-every 8 \
    --rate 0.003 --scale-rate 0.003 --quiet -o "$dir/trained.gguf" || fail "distill"
awk -v a="$(kld "$dir/trained.gguf")" -v b="$(kld "$dir/round.gguf")" \
    'BEGIN { exit !(a > 0 && a < 0.95 * b) }' || fail "distillation does not help"
run inspect "$dir/trained.gguf" --verify || fail "inspect after training"
grep -q B2_C64 "$dir/out" || fail "the type was lost in training"
exit 0
