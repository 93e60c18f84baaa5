"""Speed of this build against llama.cpp, run after run in turn, on the same files.

    bench/peers.py OUT.csv FILE... [--threads 1,2] [--prompts 64,512] [--predict 32]
                   [--levels best,avx2] [--rounds 3] [--peer FILE=PEER_FILE]
                   [--ours="" --ours="--repack fast"] [--depth 4096] [--parallel 1,4]
                   [--cache q8_0]

Each round runs every contender once on every test, so that what other work on the machine
does to the speed meets all of them. A contender is our program at a processor level
(B2_CPU), with the words of --ours, or llama.cpp out of the wheel `xllamacpp`, driven through the declarations of
`llama-cpp-py-sync` (tests/oracle/llama.py). llama.cpp reads only its own types: --peer
names the file that it gets in place of another, for example TQ2_0 for PTQ1_0. Rows are
medians over the rounds; ratio is ours over llama.cpp's of the same test. Tests: pp N is a
prompt of N tokens from an empty cache, tg N is N tokens one by one behind one other (tgN@D: behind
D others, which our program fills in at random and llama.cpp reads; tgNxP: in P sequences
together, all of their tokens counted).
"""
import argparse
import csv
import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("B2_PROGRAM",
                         os.path.join(HERE, "..", "build", "release", "bonsai2"))
FIELDS = ["date", "processor", "cpus", "load_before", "file", "file_bytes", "contender",
          "peer_file", "threads", "test", "rounds", "median_tps", "min_tps", "max_tps",
          "ratio"]


def processor():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return "unknown"


def peer_main(path, threads, a):
    """Runs llama.cpp once on all tests and prints {test: tokens per second}."""
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "oracle"))
    import llama

    ffi, lib = llama.ffi, llama.lib
    step = max(a["prompts"] + [512 if max(a["depth"]) else 256])
    mp = lib.llama_model_default_params()
    mp.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(os.fsencode(path), mp)
    if model == ffi.NULL:
        raise SystemExit("llama.cpp does not load " + path)
    cp = lib.llama_context_default_params()
    cp.n_batch = cp.n_ubatch = (step + 255) // 256 * 256
    cp.n_seq_max = max(a["parallel"])
    cp.n_ctx = cp.n_seq_max * (cp.n_batch + max(a["depth"]))
    cp.n_threads = cp.n_threads_batch = threads
    if a["cache"] == "q8_0":
        cp.type_k = cp.type_v = lib.GGML_TYPE_Q8_0
        cp.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
    context = lib.llama_init_from_model(model, cp)
    if context == ffi.NULL:
        raise SystemExit("llama.cpp makes no context for " + path)

    def decode(n, first, sequences=1):
        """n tokens of each sequence from position first on; only the last has logits,
        or with several sequences each one's."""
        batch = lib.llama_batch_init(n * sequences, 0, 1)
        batch.n_tokens = n * sequences
        for i in range(n * sequences):
            batch.token[i] = 1000 + (first + i) % 1000
            batch.pos[i] = first + i // sequences
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = i % sequences
            batch.logits[i] = i >= (n - 1) * sequences
        begin = time.perf_counter()
        if lib.llama_decode(context, batch) != 0:
            raise SystemExit("llama_decode fails")
        lib.llama_synchronize(context)
        spent = time.perf_counter() - begin
        lib.llama_batch_free(batch)
        return spent

    def clear():
        lib.llama_memory_clear(lib.llama_get_memory(context), True)

    out, predict = {}, a["predict"]
    decode(2, 0)  # the weights' pages
    for n in a["prompts"]:
        clear()
        out["pp%d" % n] = n / decode(n, 0)
    for depth in a["depth"] if predict else []:
        for sequences in a["parallel"]:
            clear()
            for at in range(0, depth, cp.n_batch):
                decode(min(cp.n_batch, depth - at), at)
            first = max(depth, 1)
            if not depth:
                decode(1, 0, sequences)
            spent = sum(decode(1, first + i, sequences) for i in range(predict))
            name = "tg%d" % predict + ("x%d" % sequences if sequences > 1 else "")
            name += "@%d" % depth if depth else ""
            out[name] = predict * sequences / spent
    print(json.dumps(out))


def ours(path, level, words, threads, a):
    env = dict(os.environ, B2_CPU="" if level == "best" else level)
    join = lambda v: ",".join(map(str, v))
    command = [PROGRAM, "bench", "-m", path, "-t", str(threads), "-r", "1", "--no-cold",
               "-n", str(a["predict"]), "-p", join(a["prompts"] or [0]), "-d",
               join(a["depth"]), "--parallel", join(a["parallel"]), "--cache", a["cache"],
               "--json", "--quiet", *words.split()]
    if max(a["depth"]):
        command.append("--fill")
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return {row["test"]: row["median_tps"] for row in json.loads(run.stdout)["rows"]}


def peer(path, threads, a):
    command = [sys.executable, os.path.abspath(__file__), "--peer-run", path,
               str(threads), json.dumps(a)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def numbers(text):
    return [int(v) for v in text.split(",") if v and int(v) > 0]


def measure(a, file, threads, writer):
    """All rounds of one file and number of threads; one row for each contender and test."""
    peers = dict(p.split("=", 1) for p in a.peer)
    theirs = [f for f in peers.get(file, file).split(",") if f != "none"]
    speed = {}  # (contender, its file, test): one number a round
    load = os.getloadavg()[0]
    for _ in range(a.rounds):
        for level, words in itertools.product(a.levels.split(","), a.ours or [""]):
            who = " ".join(("bonsai2", level, *words.split()))
            for test, tps in ours(file, level, words, threads, a.tests).items():
                speed.setdefault((who, file, test), []).append(tps)
        for path in theirs:
            for test, tps in peer(path, threads, a.tests).items():
                speed.setdefault(("llama.cpp", path, test), []).append(tps)
    base = {test: statistics.median(v) for (who, path, test), v in speed.items()
            if who == "llama.cpp" and path == theirs[0]}
    for (who, path, test), v in speed.items():
        median = statistics.median(v)
        writer.writerow({
            "date": datetime.date.today().isoformat(), "processor": processor(),
            "cpus": os.cpu_count(), "load_before": "%.1f" % load,
            "file": os.path.basename(file), "file_bytes": os.path.getsize(path),
            "contender": who,
            "peer_file": os.path.basename(path) if who == "llama.cpp" else
            os.path.basename(theirs[0]) if theirs else "",
            "threads": threads, "test": test, "rounds": len(v),
            "median_tps": "%.3g" % median, "min_tps": "%.3g" % min(v),
            "max_tps": "%.3g" % max(v),
            "ratio": "%.2f" % (median / base[test]) if test in base else ""})


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--peer-run":
        peer_main(sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
        return
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("files", nargs="+")
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--prompts", type=numbers, default=[64, 512])
    p.add_argument("--predict", type=int, default=32)
    p.add_argument("--depth", type=lambda t: [int(v) for v in t.split(",")], default=[0])
    p.add_argument("--parallel", type=numbers, default=[1])
    p.add_argument("--cache", default="f16", choices=["f16", "q8_0"])
    p.add_argument("--levels", default="best,avx2")
    p.add_argument("--ours", action="append", metavar="WORDS",
                   help='further words of our command line, such as "--repack fast"; '
                   'given several times ("" is none), each is a contender')
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--peer", action="append", default=[],
                   help="FILE=PEER[,PEER...]; none: no peer; the first gives the ratio")
    a = p.parse_args()
    a.tests = {k: getattr(a, k) for k in ("prompts", "predict", "depth", "parallel", "cache")}
    new = not os.path.exists(a.out) or os.path.getsize(a.out) == 0
    os.makedirs(os.path.dirname(os.path.abspath(a.out)), exist_ok=True)
    with open(a.out, "a", newline="") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        for file in a.files:
            for threads in a.threads:
                measure(a, file, threads, writer)
                f.flush()


if __name__ == "__main__":
    main()
