"""What export and compress must not replace: the source, folders, devices, other files.

    test_outputs.py BONSAI2 MODEL.gguf

A device is played by a named pipe here: replacing a real one would harm the machine.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM, MODEL = sys.argv[1:3]
COMMANDS = {"export": ["-F", "gguf"], "compress": ["--budget", "1MB"]}
failures = 0


def check(what, ok, *shown):
    global failures
    if not ok:
        failures += 1
        print("FAILED", what, *shown)


def run(command, source, out, *more):
    done = subprocess.run([PROGRAM, command, str(source), *COMMANDS[command], "-o",
                           str(out), "-q", *more], capture_output=True, check=False,
                          timeout=60)
    return done.returncode, done.stderr.decode()


def test_refusals(folder):
    source = folder / "source.gguf"
    shutil.copy(MODEL, source)
    before = source.read_bytes()
    (folder / "link.gguf").symlink_to(source)
    os.link(source, folder / "hard.gguf")
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "other").write_text("precious")
    (folder / "elsewhere").symlink_to(folder / "other")
    (folder / "nowhere").symlink_to(folder / "absent")
    cases = (("source.gguf", "is the source itself", ["--force"]),
             ("link.gguf", "is the source itself", ["--force"]),
             ("hard.gguf", "is the source itself", ["--force"]),
             ("folder/../source.gguf", "is the source itself", ["--force"]),
             ("pipe", "is a device or pipe", ["--force"]),
             ("elsewhere", "is a link", ["--force"]),
             ("nowhere", "is a link", []),
             ("folder", "is a folder", ["--force"]),
             ("folder", "is a folder", []),
             ("other", "--force", []))
    names = sorted(os.listdir(folder))
    for command in COMMANDS:
        for out, words, more in cases:
            code, err = run(command, source, folder / out, *more)
            check(f"{command} -o {out} {more}",
                  code == 1 and words in err and err.count("\n") == 1, code, err)
        check(command + " left everything", source.read_bytes() == before and
              (folder / "pipe").is_fifo() and (folder / "link.gguf").is_symlink() and
              (folder / "other").read_text() == "precious" and
              sorted(os.listdir(folder)) == names, os.listdir(folder))
        code, err = run(command, source, folder / "other", "--force")
        check(command + " replaces when told", code == 0, err)
        (folder / "other").write_text("precious")


def test_report(folder):
    """A report that cannot be written is refused before the work, not after it."""
    out = folder / "out.gguf"
    shutil.copy(MODEL, folder / "source.gguf")
    (folder / "link").symlink_to("/proc/self/fd/1")
    for report, words in (("absent/r.json", "No such file"), (".", "is a folder"),
                          ("out.gguf", "is the output"), ("link", "is a link"),
                          ("source.gguf", "is the source")):
        code, err = run("compress", folder / "source.gguf", out, "--report",
                        str(folder / report))
        check("report in " + report, code == 1 and words in err and "--report" in err,
              code, err)
        check("no work for " + report, not out.exists())
    code, err = run("compress", MODEL, out, "--report", str(folder / "r.json"))
    check("report", code == 0 and "tensors" in json.loads((folder / "r.json").read_text()),
          err)


def test_memory_limit(folder):
    """A limit that cannot hold is a refusal; a roomy one changes nothing."""
    if re.search(rb"__[at]san_init", pathlib.Path(PROGRAM).read_bytes()):
        return  # the shadow memory of a sanitized build is over every limit
    out = folder / "out.gguf"
    for command in (["export", MODEL, "-F", "gguf-bf16", "-o", str(out)], ["inspect", MODEL],
                    ["compress", MODEL, "--budget", "1MB", "-o", str(out)],
                    ["tokenize", "-m", MODEL, "Once upon"]):
        for limit, want in (("10kB", 1), ("3GB", 0)):
            done = subprocess.run([PROGRAM, *command, "-q", "-t", "1", "--mem-limit", limit],
                                  capture_output=True, check=False, timeout=60)
            check(f"{command[0]} in {limit}", done.returncode == want, done)
            check(f"{command[0]} in {limit}: one line", want == 0 or not done.stdout and
                  done.stderr.count(b"\n") == 1 and b"memory" in done.stderr, done)
            check(f"{command[0]}: nothing is left", want == 0 or os.listdir(folder) == [])
        out.unlink(missing_ok=True)


def test_folder(folder):
    args = [PROGRAM, "export", MODEL, "-F", "hf-f32", "-o", str(folder / "hf"), "-q"]
    check("folder", subprocess.run(args, check=False, stdout=subprocess.DEVNULL).returncode == 0)
    args[2] = str(folder / "hf")
    done = subprocess.run([*args, "--force"], capture_output=True, check=False)
    check("a folder onto itself", done.returncode == 1 and
          b"is the source itself" in done.stderr, done)


for test in (test_refusals, test_report, test_memory_limit, test_folder):
    with tempfile.TemporaryDirectory() as name:
        test(pathlib.Path(name))
sys.exit(1 if failures else 0)
