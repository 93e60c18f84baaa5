"""program.py - what the tests that run the program from the outside share; BONSAI2 is their
first word."""
import json, os, signal, subprocess, sys, time

BIN = sys.argv[1]


def call(*args, ok=True, code=None, **env):
    """Runs it. code: that exit code; else 0 where ok, or any other that is no signal."""
    p = subprocess.run([BIN, *args], capture_output=True, text=True, env={**os.environ, **env})
    if "needs OpenBLAS" in p.stderr:
        print("skipped: no OpenBLAS")
        sys.exit(77)
    right = p.returncode == code if code is not None else ok == (p.returncode == 0)
    if not right or p.returncode < 0:
        sys.exit(f"FAILED: {' '.join(args)}: exit {p.returncode}\n{p.stderr[-2000:]}")
    return p


def js(*args, **env):
    return json.loads(call(*args, "--json", "--quiet", **env).stdout)


def check(cond, what):
    if not cond:
        sys.exit(f"FAILED: {what}")


def killed(args, out, seconds):
    """Runs it towards the file `out`, kills it after so many seconds, and lets the same
    command go on if it was not done."""
    p = subprocess.Popen([BIN, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    p.send_signal(signal.SIGKILL)
    p.wait()
    if not os.path.exists(out):
        call(*args)


def write_words(path, lines, kinds):
    """A text of nine words a line, of so many kinds."""
    with open(path, "w") as f:
        f.write("\n".join(" ".join(f"w{(i * 31 + k * k * 17) % kinds}" for k in range(9))
                          for i in range(lines)))


def data(path):
    with open(path, "rb") as f:
        return f.read()
