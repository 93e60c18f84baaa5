"""Speed beside busy neighbours: what threads that share their cores with others keep.

    bench/neighbour.py OUT.csv FILE [--ours="" --ours="--repack fast"] [--peer PEER_FILE]
                       [--threads 1,2] [--neighbours 0,1,2] [--rounds 3]

A neighbour is a process of the same priority that computes without end and reads no
memory. Each round runs every contender (bench/peers.py) beside each number of them in
turn. of_alone is the speed over that of the same contender and threads without a
neighbour, of_one_thread over that of one thread without one: the row of 2 threads and 0
neighbours says how two threads scale.
"""
import argparse
import csv
import datetime
import itertools
import os
import statistics
import subprocess
import sys

import peers

FIELDS = ["date", "processor", "cpus", "load_before", "file", "contender", "threads",
          "neighbours", "test", "rounds", "median_tps", "min_tps", "max_tps", "of_alone",
          "of_one_thread"]


class Neighbours:
    """n busy processes for the length of a with statement. Each looks now and then at a
    pipe from its parent and ends where that ends, so that none outlives it."""

    LOOP = ("import os\nos.set_blocking(0, False)\nx = 0\n"
            "while True:\n"
            "    for i in range(100000):\n        x = x * 5 + i & 0xffffffff\n"
            "    try:\n        if os.read(0, 1) == b'':\n            break\n"
            "    except BlockingIOError:\n        pass\n")

    def __init__(self, n):
        self.n = n
        self.busy = []

    def __enter__(self):
        for _ in range(self.n):
            self.busy.append(subprocess.Popen([sys.executable, "-c", self.LOOP],
                                              stdin=subprocess.PIPE))

    def __exit__(self, *unused):
        for p in self.busy:
            p.stdin.close()
            p.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("file")
    p.add_argument("--ours", action="append", metavar="WORDS",
                   help='further words of our command line, such as "--repack fast"; '
                   'given several times ("" is none), each is a contender')
    p.add_argument("--peer", help="the file that llama.cpp reads; default: no llama.cpp")
    p.add_argument("--threads", type=peers.numbers, default=[1, 2])
    p.add_argument("--neighbours", type=lambda t: [int(v) for v in t.split(",")],
                   default=[0, 1, 2])
    p.add_argument("--prompts", type=peers.numbers, default=[64])
    p.add_argument("--predict", type=int, default=64)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()

    tests = {"prompts": a.prompts, "predict": a.predict, "depth": [0], "parallel": [1],
             "cache": "f16"}
    speed = {}  # (contender, threads, neighbours, test): one number a round
    load = os.getloadavg()[0]
    for _, threads, n in itertools.product(range(a.rounds), a.threads, a.neighbours):
        with Neighbours(n):
            found = [("bonsai2 " + words if words else "bonsai2",
                      peers.ours(a.file, "best", words, threads, tests))
                     for words in a.ours or [""]]
            if a.peer:
                found.append(("llama.cpp", peers.peer(a.peer, threads, tests)))
        for who, got in found:
            for test, tps in got.items():
                speed.setdefault((who, threads, n, test), []).append(tps)

    median = {key: statistics.median(v) for key, v in speed.items()}
    new = not os.path.exists(a.out) or os.path.getsize(a.out) == 0
    with open(a.out, "a", newline="") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        for (who, threads, n, test), v in sorted(speed.items()):
            alone, one = (who, threads, 0, test), (who, 1, 0, test)
            m = median[who, threads, n, test]
            writer.writerow({
                "date": datetime.date.today().isoformat(), "processor": peers.processor(),
                "cpus": os.cpu_count(), "load_before": "%.1f" % load,
                "file": os.path.basename(a.peer if who == "llama.cpp" else a.file),
                "contender": who, "threads": threads, "neighbours": n, "test": test,
                "rounds": len(v), "median_tps": "%.3g" % m, "min_tps": "%.3g" % min(v),
                "max_tps": "%.3g" % max(v),
                "of_alone": "%.2f" % (m / median[alone]) if alone in median else "",
                "of_one_thread": "%.2f" % (m / median[one]) if one in median else ""})


if __name__ == "__main__":
    main()
