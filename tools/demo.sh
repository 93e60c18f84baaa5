#!/usr/bin/env bash
# demo.sh MODEL - inspect, compress, teach, measure, talk: what each bit of a real model is
# worth.
#
# Called by ./run demo, which has built build/release/bonsai2 and fetched MODEL. Writes a
# ladder of smaller files to build/demo/ and keeps them: a file that the same program made
# by the same recipe is used again, an interrupted compression goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:?usage: demo.sh MODEL}
bonsai2=${B2_PROGRAM:-build/release/bonsai2}
text=examples/text/austen.txt
calib=examples/text/chapters.txt # other chapters of the same novel
ctx=256 chunks=4                 # the first pages of text; its end is held out of the training
question='What is the capital of France?'
prompt=$'<|im_start|>user\n'$question$'<|im_end|>\n<|im_start|>assistant\n'
out=build/demo
held=$out/held.txt
start_s=$SECONDS

# The ladder: name, what it is, the options of compress (of distill for the last one).
rungs=(88MB 4bit mix-a mix-b ternary rotated repaired taught)
declare -A what=(
    [88MB]='a budget of 88 MB: 4 and 5 bits, chosen per tensor'
    [4bit]='4 bits everywhere (Q4_0)'
    [mix-a]='4 bits; ffn_up of ten middle layers ternary'
    [mix-b]='4 bits; ffn_up and ffn_gate of these ten ternary'
    [ternary]='every linear layer ternary, embedding 4 bits'
    [rotated]='the same, rotated before rounding (Hadamard)'
    [repaired]='the same, with error compensation (some minutes)'
    [taught]='that one, its scales and norms taught (24 steps)'
)
declare -A options=(
    [88MB]='--budget 88MB'
    [4bit]='--rule *=Q4_0'
    [mix-a]='--rule *=Q4_0 --rule blk.1[0-9].ffn_up.weight=ternary'
    [mix-b]='--rule *=Q4_0 --rule blk.1[0-9].ffn_[ug]*.weight=ternary'
    [ternary]='--rule *=ternary --rule token_embd.weight=Q4_0'
    [rotated]='--rule *=ternary --rule token_embd.weight=Q4_0 --rotate auto'
    [repaired]="--rule *=ternary --rule token_embd.weight=Q4_0 --calib $calib --calib-tokens 16384 --avoid $text"
    [taught]="--calib $calib --held $held --held-tokens 1024 --avoid $text --train scales --scale-rate 0.003 --norm-rate 0.001 --ctx 256 --batch 1 --steps 24 --eval-every 12"
)

bold='' plain=''
if [ -t 1 ]; then
    bold=$'\033[1m' plain=$'\033[0m'
fi
heading() { printf '\n%s== %s%s\n\n' "$bold" "$*" "$plain"; }

# value FILE EXPRESSION: one value out of a JSON file, j being its object.
value() { python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# json NAME COMMAND...: runs a command of bonsai2 with --json into out/NAME.json.
json() {
    local name=$1
    shift
    "$bonsai2" "$@" --json --quiet >"$out/$name.json.part"
    mv "$out/$name.json.part" "$out/$name.json"
}

# make RUNG FILE: by the options of the rung. A training that was cut off goes on, unless it
# was another one.
make() {
    read -ra words <<<"${options[$1]}"
    if [ "$1" != taught ]; then
        json "compress-$1" compress "$model" -o "$2" --force "${words[@]}"
        return
    fi
    rm -f "$2"
    words=(--teacher "$model" --student $out/repaired.gguf -o "$2" "${words[@]}")
    json "compress-$1" distill "${words[@]}" 2>"$out/taught.err" ||
        json "compress-$1" distill "${words[@]}" --force
}

row() { printf '  %-9s %9s  %6s  %8s  %8s  %10s\n' "$@"; }

mkdir -p $out
sed -n '/^CHAPTER XLV\./,$p' $text >$held
program_sha=$(sha256sum "$bonsai2" | cut -c1-16)

heading "1. The model as it comes"
json inspect-original inspect "$model"
value $out/inspect-original.json '"""  {}, architecture {}
  {:.1f} million weights in {:.1f} MB: {:.2f} bits for each, over all
  types: {}""".format("SmolLM2-135M-Instruct (Hugging Face, Apache-2.0)", j["arch"], j["n_params"] / 1e6,
    j["file_bytes"] / 1e6, j["bits_per_weight"], ", ".join("{} {}".format(
        sum(t["type"] == k for t in j["tensors"]), k) for k in sorted({t["type"] for t in j["tensors"]})))'

heading "2. Compress: a ladder of smaller files"
for r in "${rungs[@]}"; do
    file=$out/$r.gguf
    began=$SECONDS
    printf '  %-9s %-52s ' "$r" "${what[$r]}"
    made_by="$program_sha $model ${options[$r]}"
    [ "$r" != taught ] || made_by="$made_by of ${options[repaired]}"
    if [ -f "$file" ] && [ "$(cat "$file.made-by" 2>/dev/null)" = "$made_by" ]; then
        note='was there'
    else
        make "$r" "$file"
        echo "$made_by" >"$file.made-by"
        note="$((SECONDS - began)) s"
    fi
    json "inspect-$r" inspect "$file"
    echo "$note"
done
value $out/compress-taught.json '"""
  While it was taught, its divergence (KL) from the original on pages that neither the repair
  nor the training had seen: {}""".format(", ".join("{:.3f} {}".format(p["held_kld"],
    "after {} tokens".format(p["tokens"]) if p["tokens"] else "before") for p in j["curve"]))'

heading "3. Measure: what the smaller files lose"
cat <<EOF
  On Jane Austen (examples/text/austen.txt), $chunks windows of $ctx tokens, the second half of
  each scored, every file beside the original:
  KL      how far its next-word probabilities are from the original's (nat; 0 is the same)
  top     how often both think the same word most likely
  ppl     perplexity: between how many words it hesitates

EOF
row file bytes 'bits/w' KL top ppl
row '' '' 'all' nat % ''
for r in "${rungs[@]}"; do
    json "kld-$r" eval kld -m "$out/$r.gguf" --baseline "$model" --text $text \
        --ctx $ctx --chunks $chunks
    if [ "$r" = "${rungs[0]}" ]; then
        row original "$(value $out/inspect-original.json '"%.1f MB" % (j["file_bytes"] / 1e6)')" \
            "$(value $out/inspect-original.json '"%.2f" % j["bits_per_weight"]')" 0 100.0 \
            "$(value "$out/kld-$r.json" '"%.1f" % j["ppl_baseline"]')"
    fi
    row "$r" "$(value "$out/inspect-$r.json" '"%.1f MB" % (j["file_bytes"] / 1e6)')" \
        "$(value "$out/inspect-$r.json" '"%.2f" % j["bits_per_weight"]')" \
        "$(value "$out/kld-$r.json" '"%.3f" % j["mean_kld"]')" \
        "$(value "$out/kld-$r.json" '"%.1f" % (100 * j["same_top1"])')" \
        "$(value "$out/kld-$r.json" '"%.1f" % j["ppl"] if j["ppl"] < 1e5 else "%.0e" % j["ppl"]')"
done

heading "4. Talk: the same question to each"
printf '  %s\n\n' "$question"
for r in original "${rungs[@]}"; do
    file=$out/$r.gguf
    [ "$r" != original ] || file=$model
    json "run-$r" run -m "$file" -p "$prompt" -n 32 --temp 0
    printf '  %-9s ' "$r"
    value "$out/run-$r.json" '"".join(c if c.isprintable() else " " for c in j["text"].strip())[:150]'
done

cat <<EOF

  What this shows: a little below the original almost nothing is lost. From there each
  megabyte costs more, and rounding every layer to -1, 0, +1 in one shot leaves a model of
  this size that does not talk. Error compensation ("repaired", calibrated on other
  chapters of the same novel) keeps what each layer puts out instead of its weights, and
  brings most of it back. Distillation goes on from there: the original's next-word
  probabilities teach the smaller file. "taught" had a minute of that, enough for scales and
  norms; an hour teaches the codes too (quality/distill.csv).

  The files are in $out/. To go on:
    $bonsai2 run -m $out/4bit.gguf -p "Once upon a time" -n 64
    $bonsai2 eval kld -m $out/mix-a.gguf --baseline "$model" --text $text
  ($((SECONDS - start_s)) s)
EOF
