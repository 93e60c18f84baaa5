#!/usr/bin/env bash
# memory.sh FOLDER TRAIN [ROW...] - what compensation takes of memory and time, as rows of
# memory.csv.
#
# ROW is MODEL:TOKENS:LIMIT[:LAYERS]. MODEL is a GGUF, or 27b: a random file with the shapes
# of Ternary Bonsai 2 27B, LAYERS layers, F16, made in FOLDER and deleted afterwards. The
# linear layers become ternary (B2_T64; in the 27B PTQ1_0), everything else stays. 27b-head is the
# same file, of which the head alone becomes PTQ1_0: 248,320 rows in the metric of its inputs,
# without refinement, which takes several times as long and next to no memory.
# LIMIT is --mem-limit, or none. Calibration: TOKENS tokens of TRAIN. Default: 27b:512:8GB:3
#
# peak_rss is the most that lay in memory at once, mapped pages of the source included;
# peak_anon what of it belonged to the process, seen five times a second; planned what the
# program asked of --mem-limit. layer_s: seconds of each layer, by the clock.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: memory.sh FOLDER TRAIN [MODEL:TOKENS:LIMIT[:LAYERS]...]"
folder=${1:?$usage} train=${2:?$usage}
shift 2
[ $# -gt 0 ] || set -- 27b:512:8GB:3
csv=$here/memory.csv
mkdir -p "$folder"
[ -s "$csv" ] || echo 'date,processor,model,layers,file_bytes,calib_tokens,mem_limit,planned,peak_rss,peak_anon,wall_s,cpu_s,layer_s,threads,version' >"$csv"

for case in "$@"; do
    IFS=: read -r model tokens limit layers <<<"$case"
    file=$model type=B2_T64
    if [[ $model = 27b* ]]; then
        file=$folder/b27-$layers-f16.gguf type=PTQ1_0
        # The vendor's file is rotated; compensation starts from weights that are not.
        [ -e "$file" ] || {
            "$bonsai2" synth --like bonsai2-27b --type ptq1_0 --layers "$layers" --seed 1 \
                --force -o "$folder/b27.gguf" >/dev/null
            "$bonsai2" export "$folder/b27.gguf" --unrotate --format gguf-f16 --force \
                -o "$file" >/dev/null
            rm -f "$folder/b27.gguf"
        }
    fi
    python3 - "$bonsai2" "$file" "$model" "$type" "$tokens" "$limit" "$train" \
        "$folder/memory-out.gguf" "$csv" <<'PY'
import csv, datetime, json, os, re, resource, subprocess, sys, tempfile, threading, time
program, file, model, kind, tokens, limit, train, out, rows = sys.argv[1:]
words = [program, "compress", file, "--rule", "*=keep"]
linear = ["blk.*.attn_*", "blk.*.ffn_*"] + ["blk.*.ssm_out.*"] * (model == "27b")
for glob in linear if model != "27b-head" else ["output.weight"]:
    words += ["--rule", glob + "=" + kind]
words += ["--refine", "0"] * (model == "27b-head")
words += ["--calib", train, "--calib-tokens", tokens, "-o", out, "--force", "--json", "--verbose"]
if limit != "none":
    words += ["--mem-limit", limit]
report = tempfile.TemporaryFile("w+") # a pipe would fill up while stderr is read
start = time.time()
p = subprocess.Popen(words, stdout=report, stderr=subprocess.PIPE, text=True)
most = 0
def watch():
    global most
    while p.poll() is None:
        try:
            with open("/proc/%d/status" % p.pid) as f:
                most = max(most, int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) << 10)
        except (OSError, AttributeError):
            break
        time.sleep(0.2)
seen = threading.Thread(target=watch)
seen.start()
took, last, notes = [], None, []
for line in p.stderr:
    notes.append(line)
    if re.search(r"layer \d+ of \d+: kld", line):
        took.append(time.time() - (last or start))
        last = time.time()
    elif last is None and "memory planned" in line:
        last = time.time()
seen.join()
if p.wait():
    sys.exit("".join(notes[-5:]))
report.seek(0)
r, planned = json.load(report), re.search(r"memory planned: (\d+) MB", "".join(notes))
use = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "?")
layers = max([int(m.group(1)) + 1 for t in r["tensors"]
              if (m := re.match(r"blk\.(\d+)\.", t["name"]))])
with open(rows, "a", newline="") as f:
    csv.writer(f, lineterminator="\n").writerow([
        datetime.date.today().isoformat(), cpu, os.path.basename(model), layers,
        os.path.getsize(file), tokens, limit,
        int(planned.group(1)) << 20 if planned else "", r["peak_rss_bytes"], most,
        "%.0f" % (time.time() - start), "%.0f" % (use.ru_utime + use.ru_stime),
        " ".join("%.1f" % t for t in took), len(os.sched_getaffinity(0)), r.get("version", "")])
PY
    tail -n 1 "$csv"
    rm -f "$folder/memory-out.gguf"
    [[ $model != 27b* ]] || rm -f "$file"
done
