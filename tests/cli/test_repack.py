"""--repack from the outside: the same bits, the planned memory, what is refused.

usage: test_repack.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys
import tempfile

program = sys.argv[1]


def call(*words, ok=True, cpu=None):
    env = dict(os.environ, **({"B2_CPU": cpu} if cpu else {}))
    p = subprocess.run([program, *words], capture_output=True, text=True, env=env,
                       timeout=300)
    if (p.returncode == 0) != ok:
        sys.exit(f"{words}: exit code {p.returncode}: {p.stderr}")
    return p


def expect(fact, what):
    if not fact:
        sys.exit(what)


def run(path, *words, **how):
    p = call("run", "-m", path, "-p", "In the beginning", "-n", "3", "--ctx", "64",
             "--ignore-eos", "--temp", "0", "--json", *words, **how)
    return json.loads(p.stdout), p.stderr


def plan(path, *words, **how):
    return json.loads(call("plan", path, "--ctx", "64", "--json", *words, **how).stdout)


def in_2_bits(text):
    m = re.search(r"(\d+) matrices are repacked, (\d+) of them in 2 bits", text)
    expect(m, text)
    return int(m[1]), int(m[2])


def check_bits(path):
    want = run(path)[0]
    for mode in ("same", "fast"):
        for cpu, threads in (("avx2", "1"), (None, "2"), (None, "7")):
            got, text = run(path, "--repack", mode, "--threads", threads, cpu=cpu)
            for key in ("tokens", "first_logits"):
                expect(got[key] == want[key], f"{mode} {cpu} {threads}: {key}")
            n, fast = in_2_bits(text)
            expect(n == 197 and fast == (n if mode == "fast" else 0), text)


def check_memory(path):
    """The process takes what the plan says; and a step more, the piece being repacked."""
    for mode in ("same", "fast"):
        p = plan(path, "--repack", mode)
        expect(p["repacked_bytes"] > 0.9 * p["weights_bytes"], p)
        expect(sum(p["weights_by_type"].values()) + p["copy_bytes"]
               + p["repacked_bytes"] == p["weights_bytes"], p)
        rss = run(path, "--repack", mode)[0]["peak_rss_bytes"]
        most = p["total_bytes"] + p["program_bytes"]
        expect(rss < 1.03 * most + (8 << 20), f"{mode}: {rss} bytes, planned {most}")
    off, same, fast = (plan(path, "--repack", m)["total_bytes"]
                       for m in ("off", "same", "fast"))
    expect(same < off < fast, (off, same, fast))
    # Between the two, as many matrices in 2 bits as there is room for.
    limit = str((same + fast) // 2)
    expect(plan(path, "--repack", "fast", "--mem-limit", limit)["fits"], limit)
    n, some = in_2_bits(run(path, "--repack", "fast", "--mem-limit", limit)[1])
    expect(0 < some < n, (some, n))
    text = call("run", "-m", path, "-p", "x", "--ctx", "64", "--repack", "fast",
                "--cache", "f16", "--mem-limit", str(same - 1000), ok=False).stderr
    expect("over the limit" in text, text)


def check_refused(path):
    words = ("--repack", "fast", "--exact")
    expect("nothing is repacked: --exact" in run(path, *words)[1], "exact")
    text = call("run", "-m", path, "-p", "x", "-n", "1", *words, "--strict",
                ok=False).stderr
    expect("nothing to repack" in text or "--strict" in text, text)
    expect("nothing is repacked" in run(path, "--repack", "same", cpu="scalar")[1],
           "scalar")


with tempfile.TemporaryDirectory() as folder:
    model = os.path.join(folder, "s.gguf")
    call("synth", "--like", "S", "--type", "ptq1_0", "-o", model)
    p = subprocess.run([program, "run", "-m", model, "-p", "x", "-n", "1", "--repack",
                        "same"], capture_output=True, text=True, timeout=300)
    if "nothing is repacked" in p.stderr:
        print("skipped: this processor has no kernels for repacked rows")
        sys.exit(77)
    check_bits(model)
    check_memory(model)
    check_refused(model)
