#!/usr/bin/env bash
# plan27b.sh FOLDER [CTX:LAYERS...] - what `plan` says of a 27B file against what a process
# takes, and whether both packings and any number of threads say the same.
#
# Makes random files with the shapes of Ternary Bonsai 2 27B as PTQ1_0 and PQ2_0 from one
# seed in FOLDER (13 GB for all 64 layers; they stay), fills a context with a prompt, and
# appends rows to plan27b.csv. CTX:LAYERS defaults to 512:64 8192:8 (a prompt of 8192
# tokens through 64 layers takes a quarter of an hour: ask for 8192:64).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
folder=${1:?usage: plan27b.sh FOLDER [CTX:LAYERS...]}
shift
[ $# -gt 0 ] || set -- 512:64 8192:8
csv=$here/plan27b.csv
mkdir -p "$folder"
[ -s "$csv" ] || echo 'date,processor,type,layers,bytes,ctx,prompt,threads,planned,planned_program,peak_rss,peak_to_plan,load_warm_ms,prefill_tps,decode_tps,tokens,kernel' >"$csv"

for case in "$@"; do
    ctx=${case%:*} layers=${case#*:}
    # With two threads the prompt fills the context; with one it is short, for the tokens.
    for type in ptq1_0 pq2_0; do
        file=$folder/b27-$layers-$type.gguf
        [ -e "$file" ] || "$bonsai2" synth --like bonsai2-27b --type $type --layers "$layers" \
            --seed 1 -o "$file" >/dev/null
        cat "$file" >/dev/null # warm
        for threads in 2 1; do
            python3 - "$bonsai2" "$file" "$type" "$layers" "$ctx" $threads "$csv" <<'PY'
import csv, datetime, json, os, subprocess, sys
bonsai2, file, kind, layers, ctx, threads, out = sys.argv[1:]
ctx = int(ctx)
def ask(*words):
    return json.loads(subprocess.run([bonsai2, *words, "--json", "--quiet"], check=True, capture_output=True, text=True).stdout)
new = 16
text = "1 2 3 4 5 6" if threads == "1" else "1 " * ((ctx - new) // 2 - 2)
plan = ask("plan", file, "--ctx", str(ctx))
run = ask("run", "-m", file, "-p", text, "--temp", "0", "-n", str(new), "--ignore-eos", "--ctx", str(ctx), "--threads", threads)
short = run if threads == "1" else ask("run", "-m", file, "-p", "1 2 3 4 5 6", "--temp", "0", "-n", str(new), "--ignore-eos", "--ctx", str(ctx), "--threads", threads)
began = datetime.datetime.now()
first = ask("run", "-m", file, "-p", "1", "-n", "1", "--ctx", "64")["first_token_ms"]
load_ms = (datetime.datetime.now() - began).total_seconds() * 1e3 - first  # until the prompt begins
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
filled = run["prompt_tokens"]
with open(out, "a", newline="") as f:
    csv.writer(f, lineterminator="\n").writerow([
        datetime.date.today().isoformat(), cpu, kind.upper(), layers, os.path.getsize(file), ctx, filled, threads,
        plan["total_bytes"], plan["program_bytes"], run["peak_rss_bytes"],
        "%.4f" % (run["peak_rss_bytes"] / plan["total_bytes"]), "%.0f" % load_ms, "%.2f" % run["prefill_tps"],
        "%.2f" % run["decode_tps"], " ".join(map(str, short["tokens"])), run["kernel"]])
PY
            tail -n 1 "$csv"
        done
    done
done
