"""bonsai2 run from the outside: streams, JSON keys, settings, errors, exit codes.

    test_run.py BONSAI2 STORIES.gguf

The small model tells a known story (tests/golden/stories260K/SOURCE.txt); with a begin
token in front, an empty prompt is one token and starts it.
"""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM, MODEL = sys.argv[1:3]
BEGIN = " Once upon a time, there was a little girl named Lily."
KEYS = {  # of the command-line contract
    "prompt_tokens": int, "prompt_ids": list, "tokens": list, "text": str,
    "finish_reason": str, "first_logits": list, "prefill_tps": (int, float),
    "decode_tps": (int, float), "first_token_ms": (int, float), "peak_rss_bytes": int,
    "logits_sha256": str, "fingerprint": str, "seed": int, "threads": int,
    "kernel": str, "exact": bool,
}
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(*args, stdin=b"", env=None):
    done = subprocess.run([PROGRAM, "run", *args], input=stdin, check=False,
                          capture_output=True, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def run_json(*args, **kw):
    code, out, err = run("-m", MODEL, "--json", *args, **kw)
    check("exit of " + " ".join(args), code == 0, err)
    check("only JSON on stdout", out.startswith("{"), out[:80])
    return json.loads(out) if code == 0 else {}


def test_text():
    code, out, err = run("-m", MODEL, "-p", "", "-n", "40")
    check("exit", code == 0, err)
    check("the story", out.startswith(BEGIN), repr(out))
    check("ends with a newline", out.endswith("\n"))
    for word in ("prompt", "generated", "tok/s", "first after", "at most", "thread",
                 "kernels", "seed"):
        check("timing has " + word, word in err, err)
    code, quiet_out, err = run("-m", MODEL, "-p", "", "-n", "40", "--quiet")
    check("quiet", code == 0 and err == "" and quiet_out == out, err)
    code, from_stdin, _ = run("-m", MODEL, "-n", "40", "-q")
    check("standard input", code == 0 and from_stdin == out)
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"Once upon")
        f.flush()
        code, from_file, _ = run("-m", MODEL, "-f", f.name, "-n", "10", "-q")
        _, given, _ = run("-m", MODEL, "-p", "Once upon", "-n", "10", "-q")
        check("file", code == 0 and from_file == given)


def test_json():
    j = run_json("-p", "Once upon a time", "-n", "20")
    for key, kind in KEYS.items():
        check("key " + key, isinstance(j.get(key), kind), j.get(key))
    check("prompt_tokens", j["prompt_tokens"] == len(j["prompt_ids"]))
    check("begin token", j["prompt_ids"][0] == 1)
    check("tokens", len(j["tokens"]) == 20)
    check("first_logits", len(j["first_logits"]) == 5 and
          [p[1] for p in j["first_logits"]] ==
          sorted((p[1] for p in j["first_logits"]), reverse=True) and
          j["first_logits"][0][0] == j["tokens"][0], j["first_logits"])
    check("length", j["finish_reason"] == "length")
    check("memory", 0 < j["peak_rss_bytes"] < 150e6)
    _, out, _ = run("-m", MODEL, "-p", "Once upon a time", "-n", "20", "-q")
    check("stream and JSON say the same", out.rstrip("\n") == j["text"].rstrip("\n"))
    j = run_json("-p", "", "--stop", "girl", "--stop", "never")
    check("stop", j["finish_reason"] == "stop" and
          j["text"] == BEGIN[:BEGIN.index("girl")], j["text"])


def test_same_everywhere():
    """One text and one hash of the logits under all conditions."""
    prompt = ("-p", "Once upon a time, there was a dog. It was " * 3, "-n", "24")
    ways = [(), ("--threads", "1"), ("--threads", "2"), ("-b", "7"), ("-b", "1"),
            ("--ctx", "512")]
    for exact in ((), ("--exact",)):
        base = run_json(*prompt, *exact)
        for way in ways:
            j = run_json(*prompt, *exact, *way)
            check("bits under %s %s" % (exact, way),
                  j["logits_sha256"] == base["logits_sha256"] and
                  j["tokens"] == base["tokens"])
        j = run_json(*prompt, *exact, env={"B2_CPU": "scalar"})
        check("scalar", j["kernel"] == "scalar" and
              j["logits_sha256"] == base["logits_sha256"] and
              j["tokens"] == base["tokens"])


def test_sampling():
    args = ("-p", "One day", "-n", "40", "--temp", "1.2", "--top-k", "50", "--top-p",
            "0.95", "--min-p", "0.01", "--repeat-penalty", "1.1", "--presence-penalty",
            "0.1", "--frequency-penalty", "0.1", "--penalty-last-n", "-1")
    a = run_json(*args, "--seed", "5")
    b = run_json(*args, "--seed", "5", "--threads", "1")
    c = run_json(*args, "--seed", "6")
    check("one seed, one text", a["tokens"] == b["tokens"])
    check("another seed", a["tokens"] != c["tokens"])
    check("settings are told", a["seed"] == 5 and a["top_k"] == 50 and
          a["temperature"] == 1.2)


def test_errors():
    with tempfile.TemporaryDirectory() as d:
        empty = os.path.join(d, "empty.gguf")
        open(empty, "wb").close()
        cut = os.path.join(d, "cut.gguf")
        with open(MODEL, "rb") as f, open(cut, "wb") as out:
            out.write(f.read()[:-100000])
        cases = [
            (("-p", "x"), 2, "-m FILE is missing"),
            (("-m", MODEL, "-p", "x", "-f", "y"), 2, "do not go together"),
            (("-m", MODEL, "-p", "x", "--stop", ""), 2, "empty"),
            (("-m", MODEL, "-p", "x", "--tempo", "1"), 2, "--temp"),
            (("-m", MODEL, "-p", "x", "--top-p", "1.5"), 2, "top-p"),
            (("-m", MODEL, "-p", "x", "-n", "many"), 2, "many"),
            (("-m", "no.gguf", "-p", "x"), 1, "no.gguf"),
            (("-m", MODEL, "-f", "no.txt"), 1, "no.txt"),
            (("-m", empty, "-p", "x"), 1, "empty.gguf"),
            (("-m", cut, "-p", "x"), 1, "cut.gguf"),
            (("-m", MODEL, "-p", "once " * 600), 1, "context"),
            (("-m", MODEL, "-p", "a b c d e f", "--ctx", "4"), 1, "context of 4"),
            (("-m", MODEL, "-p", "x", "--ctx", "1000"), 1, "1..512"),
            (("-m", MODEL, "-p", "x", "--mem-limit", "100KB"), 1, "limit"),
        ]
        for args, want, says in cases:
            code, out, err = run(*args)
            check("%s: exit %d" % (args[-3:], want), code == want and out == "",
                  code, out, err)
            check("%s says %s" % (args[-3:], says), says in err, err)
        code, _, err = run("-m", MODEL, "-p", "x", env={"B2_CPU": "z80"})
        check("unknown level", code == 1 and "z80" in err, err)


def main():
    for test in (test_text, test_json, test_same_everywhere, test_sampling, test_errors):
        test()
    sys.exit(1 if failures else 0)


main()
