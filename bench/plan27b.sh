#!/usr/bin/env bash
# plan27b.sh FOLDER [CTX:LAYERS[:fill]...] - what `plan` says of a 27B file against what a
# process takes, and whether both packings and any number of threads say the same.
#
# Makes random files with the shapes of Ternary Bonsai 2 27B as PTQ1_0 and PQ2_0 from one
# seed in FOLDER (13 GB for all 64 layers; they stay), fills a context, and appends rows to
# plan27b.csv. A prompt of 8192 tokens through 64 layers takes a quarter of an hour; with
# :fill the cache gets random keys and values instead (`bench --fill`), behind which a prompt
# of 512 and single tokens run. Tokens stand in rows of prompts: with two threads, with one,
# and with one and F32 activations (exact), which both packings must agree in: 8-bit
# activations are rounded in groups that follow the packing. Default: 512:64 8192:8
# 8192:8:fill 8192:64:fill.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
folder=${1:?usage: plan27b.sh FOLDER [CTX:LAYERS[:fill]...]}
shift
[ $# -gt 0 ] || set -- 512:64 8192:8 8192:8:fill 8192:64:fill
csv=$here/plan27b.csv
mkdir -p "$folder"
[ -s "$csv" ] || echo 'date,processor,type,layers,bytes,ctx,prompt,how,threads,planned,planned_program,peak_rss,peak_to_plan,load_warm_ms,prefill_tps,decode_tps,tokens,kernel' >"$csv"

for case in "$@"; do
    IFS=: read -r ctx layers fill <<<"$case"
    # With two threads the prompt fills the context; with one it is short, for the tokens.
    for type in ptq1_0 pq2_0; do
        file=$folder/b27-$layers-$type.gguf
        [ -e "$file" ] || "$bonsai2" synth --like bonsai2-27b --type $type --layers "$layers" \
            --seed 1 -o "$file" >/dev/null
        cat "$file" >/dev/null # warm
        ways="2 1 exact"
        [ -z "${fill:-}" ] || ways=fill
        for way in $ways; do
            python3 - "$bonsai2" "$file" "$type" "$layers" "$ctx" $way "$csv" <<'PY'
import csv, datetime, json, os, subprocess, sys
bonsai2, file, kind, layers, ctx, way, out = sys.argv[1:]
ctx, new = int(ctx), 16
def ask(*words):
    return json.loads(subprocess.run([bonsai2, *words, "--json", "--quiet"], check=True, capture_output=True, text=True).stdout)
def talk(prompt, *words):
    return ask("run", "-m", file, "-p", prompt, "--temp", "0", "-n", str(new), "--ignore-eos", "--ctx", str(ctx), *words)
plan = ask("plan", file, "--ctx", str(ctx))
began = datetime.datetime.now()
first = ask("run", "-m", file, "-p", "1", "-n", "1", "--ctx", "64")["first_token_ms"]
load_ms = (datetime.datetime.now() - began).total_seconds() * 1e3 - first  # until the prompt begins
threads, short = "2" if way in ("2", "fill") else "1", "1 2 3 4 5 6"
if way == "fill":
    run = ask("bench", "-m", file, "--fill", "-d", str(ctx - new), "-n", str(new), "-p", "512", "-r", "1", "-t", threads, "--no-cold")
    speed = {("pp" if r["test"].startswith("pp") else "tg"): r["median_tps"] for r in run["rows"]}
    filled, pp, tg, tokens = ctx - new, speed["pp"], speed["tg"], []
else:
    run = talk("1 " * ((ctx - new) // 2 - 2) if way == "2" else short, "--threads", threads, *(["--exact"] if way == "exact" else []))
    filled, pp, tg = run["prompt_tokens"], run["prefill_tps"], run["decode_tps"]
    tokens = talk(short, "--threads", threads)["tokens"] if way == "2" else run["tokens"]
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
with open(out, "a", newline="") as f:
    csv.writer(f, lineterminator="\n").writerow([
        datetime.date.today().isoformat(), cpu, kind.upper(), layers, os.path.getsize(file), ctx, filled,
        {"fill": "filled", "exact": "exact prompt"}.get(way, "prompt"), threads, plan["total_bytes"],
        plan["program_bytes"], run["peak_rss_bytes"], "%.4f" % (run["peak_rss_bytes"] / plan["total_bytes"]),
        "%.0f" % load_ms, "%.2f" % pp, "%.2f" % tg, " ".join(map(str, tokens)), run["kernel"]])
PY
            tail -n 1 "$csv"
        done
    done
done
