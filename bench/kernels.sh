#!/usr/bin/env bash
# kernels.sh BASE NEW [TOKENS...] - two bench_kernels programs in turn, rows to kernels.csv.
#
# Each program runs three times, alternating, at B2_CPU (default: the machine's highest
# level); a row has the medians and their ratio. Times are processor time of one thread,
# so a busy neighbour costs little but memory speed; the load stands in the row.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { echo "usage: kernels.sh BASE NEW [TOKENS...]" >&2; exit 2; }
base=$1 new=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
load=$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo)
for i in 1 2 3; do
    "$base" "$@" >"$work/base.$i"
    "$new" "$@" >"$work/new.$i"
done
python3 - "$work" "$load" "$here/kernels.csv" <<'EOP'
import csv, datetime, glob, os, statistics, sys
work, load, out = sys.argv[1:]
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
def rows(name):
    found = {}
    for path in sorted(glob.glob(work + "/" + name + ".*")):
        for r in csv.DictReader(open(path)):
            key = (r["type"], r["tokens"], r["rows"], r["cols"])
            found.setdefault(key, []).append((float(r["gmacs"]), r["level"]))
    return found
base, new = rows("base"), rows("new")
fresh = not os.path.exists(out)
with open(out, "a", newline="") as f:
    w = csv.writer(f, lineterminator="\n")
    if fresh:
        w.writerow("date,processor,type,tokens,rows,cols,base_level,base_gmacs,level,gmacs,ratio,load".split(","))
    for key in base:
        b, n = (statistics.median(v for v, _ in d[key]) for d in (base, new))
        w.writerow([datetime.date.today().isoformat(), cpu, *key, base[key][0][1], "%.2f" % b,
                    new[key][0][1], "%.2f" % n, "%.2f" % (n / b), load])
EOP
tail -n 40 "$here/kernels.csv"
