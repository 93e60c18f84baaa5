#!/usr/bin/env bash
# test_compress_normal.sh BONSAI2 TINY_MODEL ARCHS - effort normal from outside: the same bytes
# at any number of threads and after kills, calibration recorded and refused, budgets
# kept, and every architecture of ARCHS walks as its model does (hardly rounded, it hardly
# diverges). Prints only on failure; 77: no OpenBLAS.
set -u
bin=$1 tiny=$2 archs=$3
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-normal-XXXXXX")
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    [ -f "$dir/err" ] && tail -5 "$dir/err"
    exit 1
}
sum() { sha256sum "$1" | cut -c1-64; }
run() { "$bin" compress "$@" >"$dir/out" 2>"$dir/err"; }

"$tiny" "$dir/source.gguf" 7 6 || fail "tiny model"
# Words in an order that nothing else has.
awk 'BEGIN { srand(3); for (i = 0; i < 1500; i++) { s = ""; for (j = 0; j < 9; j++)
    s = s sprintf("w%d ", int(rand() * 997)); print s } }' >"$dir/calib.txt"
tail -n 40 "$dir/calib.txt" >"$dir/eval.txt"
head -n 1300 "$dir/calib.txt" >"$dir/clean.txt"
args=("$dir/source.gguf" --rule '*=B2_T64' --calib "$dir/clean.txt" --calib-tokens 2048
    --calib-ctx 64 --refine 2 --quiet)

run "${args[@]}" --threads 1 -o "$dir/want.gguf"
code=$?
grep -q OpenBLAS "$dir/err" && { echo "skipped: no OpenBLAS"; exit 77; }
[ $code -eq 0 ] || fail "plain run"
want=$(sum "$dir/want.gguf")
"$bin" inspect "$dir/want.gguf" --verify >"$dir/out" 2>"$dir/err" || fail "inspect"
grep -q "B2_T64" "$dir/out" || fail "inspect: no B2_T64"
"$bin" run -m "$dir/want.gguf" -p ab -n 3 >"$dir/out" 2>"$dir/err" || fail "run"

for threads in 2 5; do
    run "${args[@]}" --threads $threads -o "$dir/t.gguf" --force || fail "$threads threads"
    [ "$(sum "$dir/t.gguf")" = "$want" ] || fail "$threads threads give other bytes"
done

# Statistics in parts: nothing where inputs are narrower, other bytes where they are not.
for width in 64 1000000; do
    run "${args[@]}" --metric-width $width --threads 2 -o "$dir/w$width.gguf" || fail "width $width"
done
"$bin" inspect "$dir/w64.gguf" --verify >"$dir/out" 2>"$dir/err" || fail "width 64: inspect"
end() { tail -c 8192 "$1" | sha256sum; } # of the last tensors
[ "$(end "$dir/w1000000.gguf")" = "$(end "$dir/want.gguf")" ] ||
    fail "a width that cuts nothing changed the weights"
[ "$(end "$dir/w64.gguf")" != "$(end "$dir/want.gguf")" ] ||
    fail "statistics in parts changed nothing"

# Killed after 1 to 4 pieces; then it goes on and ends with the same bytes.
for pieces in 1 3 4; do
    rm -f "$dir/k.gguf"
    "$bin" compress "${args[@]}" --threads 1 -o "$dir/k.gguf" >"$dir/out" 2>"$dir/err" &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        n=$(find "$dir/k.gguf.b2work" -maxdepth 1 -name '*.piece' 2>/dev/null | wc -l)
        [ "$n" -ge $pieces ] && break
        sleep 0.01
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    if [ ! -f "$dir/k.gguf" ]; then
        # As if the layers came from another processor: said, and the bytes are the same.
        [ $pieces -ne 3 ] || echo -n Prescott >"$dir/k.gguf.b2work/kernels"
        run "${args[@]:0:${#args[@]}-1}" -o "$dir/k.gguf" || fail "going on" # not --quiet
        [ $pieces -ne 3 ] || grep -q "Prescott kernels" "$dir/err" || fail "no word on kernels"
    fi
    [ "$(sum "$dir/k.gguf")" = "$want" ] || fail "other bytes after a kill at $pieces"
done

# Another calibration is another recipe: its state is not taken over.
run "$dir/source.gguf" --rule '*=ternary' --calib "$dir/clean.txt" --calib-tokens 1024 \
    --calib-ctx 64 --refine 0 --mismatch 0 --rotate none -o "$dir/o.gguf" || fail "other"
[ "$(sum "$dir/o.gguf")" != "$want" ] || fail "another recipe gave the same bytes"

# Evaluation texts: a few pieces dropped, the text itself refused, a known one by hash.
run "${args[@]}" --calib "$dir/calib.txt" --avoid "$dir/eval.txt" --json -o "$dir/a.gguf" ||
    fail "overlap"
grep -Eq '"dropped[^0-9]*[1-9]' "$dir/out" || fail "no dropped pieces in the report"
run "$dir/source.gguf" --rule '*=ternary' --calib "$dir/eval.txt" --avoid "$dir/eval.txt" \
    --calib-ctx 64 -o "$dir/b.gguf" && fail "an evaluation text was taken"
grep -q "evaluation text" "$dir/err" || fail "evaluation text: no word on it"
run "$dir/source.gguf" --rule '*=ternary' --calib "$dir/source.txt" -o "$dir/b.gguf" &&
    fail "a missing text was taken"
run "$dir/source.gguf" --rule '*=ternary' --effort normal -o "$dir/b.gguf" &&
    fail "no text was taken"

# Budgets are kept and used, from the smallest file to the source, and a dry run says what
# the run does. Costs are measured once, and the same wherever they come from.
number() { sed -n "s/.*\"$1\":[^0-9-]*\([0-9.e-]*\).*/\1/p" "$dir/out" | head -1; }
size=$(stat -c %s "$dir/source.gguf")
budget_args=("$dir/source.gguf" --calib "$dir/clean.txt" --calib-tokens 1024 --calib-ctx 64
    --refine 1 --json --quiet)
run "${budget_args[@]}" --budget 2000 --costs "$dir/costs.json" --dry-run &&
    fail "a budget of 2000 bytes"
least=$(sed -n 's/.*types give has \([0-9]*\).*/\1/p' "$dir/err")
[ -n "$least" ] || fail "no word on the smallest file"
for tenth in 0 1 3 6 9; do
    budget=$((least + (size - least) * tenth / 10))
    run "${budget_args[@]}" --budget $budget --costs "$dir/costs.json" --dry-run ||
        fail "dry run of $budget"
    planned=$(number output_bytes)
    [ $(($(number tensor_bytes) + $(number other_bytes))) -eq "$planned" ] || fail "sum of bytes"
    run "${budget_args[@]}" --budget $budget --costs "$dir/costs.json" -o "$dir/g.gguf" \
        --force || fail "budget $budget"
    got=$(stat -c %s "$dir/g.gguf")
    [ "$got" -le $budget ] || fail "budget $budget: $got bytes"
    [ "$got" -ge $((budget * 97 / 100)) ] || fail "budget $budget: only $got bytes used"
    [ "$got" -eq "$planned" ] || fail "budget $budget: planned $planned, got $got"
done
want=$(sum "$dir/g.gguf")
cp "$dir/costs.json" "$dir/costs2.json"
run "${budget_args[@]}" --budget $budget --threads 3 -o "$dir/g.gguf" --force ||
    fail "costs that are not kept"
[ "$(sum "$dir/g.gguf")" = "$want" ] || fail "other bytes from costs that are not kept"
run "${budget_args[@]}" --budget $budget --calib-tokens 512 --costs "$dir/costs.json" \
    --dry-run && fail "costs of another calibration"
grep -q "another source, calibration or recipe" "$dir/err" || fail "costs: no word"
cmp -s "$dir/costs.json" "$dir/costs2.json" || fail "costs that are refused were changed"
echo '{"bonsai2_costs":2,"of":[],"tensors":{}}' >"$dir/costs2.json"
run "${budget_args[@]}" --budget $budget --costs "$dir/costs2.json" --dry-run &&
    fail "costs that are none"

# A list of types, and of layers.
run "${budget_args[@]}" --budget 6bpw --types ternary,Q8_0,keep -o "$dir/g.gguf" --force ||
    fail "types"
grep -q '"type":[^"]*"Q4_0"' "$dir/out" && fail "a type that --types does not name"
run "${budget_args[@]}" --budget 6bpw --types Q9_9 --dry-run && fail "a type that is none"
# Four bits beside types that are rotated are rotated too; alone they stay as they are.
for types in B2_Q2,B2_Q3,Q4_0,Q8_0 Q4_0,Q8_0; do
    run "$dir/source.gguf" --calib "$dir/clean.txt" --calib-tokens 1024 --calib-ctx 64 \
        --refine 1 --budget 5.2bpw --types $types -o "$dir/g.gguf" --force --verbose ||
        fail "$types"
    grep -q '^blk.* Q4_0 ' "$dir/out" || fail "$types: no Q4_0"
    [ $types = Q4_0,Q8_0 ] && want=0 || want=1
    [ "$(grep -c '^blk.* Q4_0 .*rotated' "$dir/out")" -eq \
        "$(($(grep -c '^blk.* Q4_0 ' "$dir/out") * want))" ] || fail "$types: rotation"
    "$bin" run -m "$dir/g.gguf" -p ab -n 3 >"$dir/out" 2>"$dir/err" || fail "$types: run"
done
# Rows of 192 and 256 in blocks of 64, of 64 and 256, whole: with and without the rotation a
# file is the same model.
for rotate in 64 each whole; do
    run "${args[@]}" --rotate $rotate -o "$dir/r.gguf" --force || fail "rotate $rotate"
    "$bin" export "$dir/r.gguf" --unrotate --format gguf-f32 -o "$dir/back.gguf" --force \
        >"$dir/out" 2>"$dir/err" || fail "rotate $rotate: export"
    "$bin" inspect "$dir/back.gguf" | grep -q 'rotation *none declared' ||
        fail "rotate $rotate: rotated back, and the keys say it is not"
    "$bin" eval kld -m "$dir/r.gguf" --baseline "$dir/back.gguf" --exact --text \
        "$dir/eval.txt" --ctx 32 --chunks 4 --json >"$dir/out" 2>"$dir/err" || fail "kld"
    python3 - "$dir/out" <<'PY' || fail "rotate $rotate: another model"
import json, sys
sys.exit(not abs(json.load(open(sys.argv[1]))["mean_kld"]) < 1e-6)
PY
done
run "${args[@]}" --layers 1 -o "$dir/l.gguf" --json || fail "layers"
python3 - "$dir/out" <<'PY' || fail "layers: other tensors"
import json, sys
t = {x["name"]: x["type"] for x in json.load(open(sys.argv[1]))["tensors"]}
sys.exit(not (t["blk.0.ffn_up.weight"] == "B2_T64" != t["blk.1.ffn_up.weight"]))
PY

for arch in bitnet gemma3 gemma3-cap llama-llama3 llama-yarn mistral qwen2 qwen3 qwen35; do
    run "$archs/$arch" --rule '*=Q8_0' --tail keep --calib "$dir/clean.txt" --calib-ctx 16 \
        --calib-tokens 256 --force --json -o "$dir/arch.gguf" || fail "$arch"
    python3 - "$dir/out" <<'PY' || fail "$arch diverges"
import json, sys
kld = [s["kld"] for s in json.load(open(sys.argv[1]))["stages"] if s["name"] == "round"][0]
sys.exit(not 0 <= kld < 0.005)
PY
done
# Gated delta nets too are better off with compensation, of all four inputs of a layer.
# Fused matrices have no way yet.
for eta in 0 0.5; do
    run "$archs/qwen35" --rule '*=keep' --rule 'blk.*.weight=Q4_0' --tail keep --calib "$dir/clean.txt" --calib-ctx 64 --calib-tokens 1024 --force \
        --mismatch $eta --verbose -o "$dir/arch.gguf" || fail "qwen35"
    for part in attn_qkv attn_gate ssm_alpha ssm_beta ssm_out ffn_gate ffn_up ffn_down; do
        grep -q "blk.1.$part.weight: 0.00.* of the output's energy" "$dir/err" ||
            fail "qwen35: $part was not compensated"
    done
done
run "$archs/phi3" --rule '*=ternary' --tail keep --calib "$dir/clean.txt" -o "$dir/no.gguf" &&
    fail "an architecture that has no way was taken"
grep -q "effort fast" "$dir/err" || fail "phi3: no way out named"
[ -e "$dir/no.gguf.b2work" ] && fail "phi3: state left behind"
exit 0
