"""Standard streams that are closed, full or gone: no file is harmed, and the exit says it.

    test_streams.py BONSAI2 MODEL.gguf

A process may start without descriptors 0, 1 or 2. The next file it opens would take the
number, and progress lines or a result would be written into a model.
"""
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, MODEL = sys.argv[1:3]
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def exit_without(closed, *args):
    """The exit code of a program that starts with these descriptors closed."""
    def close():
        for fd in closed:
            os.close(fd)
    return subprocess.run([PROGRAM, *args], preexec_fn=close, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode


def test_outputs_are_the_same(folder):
    commands = {
        "export": ["export", MODEL, "-F", "gguf", "--force"],
        "compress": ["compress", MODEL, "--budget", "1MB", "--force", "-v"],
    }
    for name, command in commands.items():
        seen = set()
        for closed in ((), (0,), (1,), (2,), (1, 2), (0, 1, 2)):
            out = folder / (name + ".gguf")
            out.unlink(missing_ok=True)
            code = exit_without(closed, *command, "-o", str(out))
            check(f"{name} without {closed}", code == (1 if 1 in closed else 0), code)
            seen.add(hashlib.sha256(out.read_bytes()).hexdigest())
        check(name + " writes the same bytes", len(seen) == 1, seen)


def test_no_result_is_no_success():
    for args in (["inspect", MODEL], ["inspect", MODEL, "--json"], ["--help"],
                 ["run", "-m", MODEL, "-p", "Once", "-n", "4"],
                 ["run", "-m", MODEL, "-p", "Once", "-n", "4", "--json"]):
        check("closed stdout", exit_without((1,), *args) == 1, args)
        with open("/dev/full", "wb") as full:
            code = subprocess.run([PROGRAM, *args], stdout=full, stderr=subprocess.DEVNULL,
                                  check=False).returncode
        check("full stdout", code == 1, args, code)
    check("closed stdin", exit_without((0,), "run", "-m", MODEL) == 1)


def test_file_shortened_while_mapped(folder):
    model = folder / "model.gguf"
    shutil.copy(MODEL, model)
    p = subprocess.Popen([PROGRAM, "run", "-m", str(model), "-n", "4"],
                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30  # the model is opened before the prompt is read
    while time.monotonic() < deadline and p.poll() is None and \
            str(model) not in pathlib.Path(f"/proc/{p.pid}/maps").read_text():
        time.sleep(0.01)
    time.sleep(0.5)  # the tokenizer is read, the weights are not
    os.truncate(model, 4096)
    _, err = p.communicate(b"Once upon a time", timeout=30)
    check("dies of the signal", p.returncode == -signal.SIGBUS, p.returncode)
    check("says why", err.count(b"was shortened") == 1 and err.count(b"\n") == 1, err)


with tempfile.TemporaryDirectory() as name:
    test_outputs_are_the_same(pathlib.Path(name))
    test_file_shortened_while_mapped(pathlib.Path(name))
test_no_result_is_no_success()
sys.exit(1 if failures else 0)
