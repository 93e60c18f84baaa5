#!/usr/bin/env python3
"""bonsai2 tokenize seen from outside: ids, JSON, decoding, usage errors.

Usage: test_tokenize.py PROGRAM GOLDEN_DIR     prints only what fails
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def run(*args, stdin=b""):
    done = subprocess.run([PROGRAM, "tokenize", *map(str, args)], input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def expect(want, *args, code=0, stdin=b"", error=""):
    rc, out, err = run(*args, stdin=stdin)
    if callable(want):
        ok = want(out)
    else:
        ok = out == want
    if rc != code or not ok or error not in err:
        failures.append("%s: exit %d, %r, %r" % (args, rc, out, err))


def main():
    with tempfile.TemporaryDirectory() as tmp:
        folder, gguf = pathlib.Path(tmp), pathlib.Path(tmp) / "gpt-2.gguf"
        gguf.write_bytes(gzip.decompress((GOLDEN / "gpt-2.gguf.gz").read_bytes()))
        (folder / "tokenizer.json").write_bytes((GOLDEN / "spm_llama.json").read_bytes())
        model = ("-m", gguf)
        # The ids are those of gpt-2.out.
        expect(b"15496 995\n", *model, "Hello world")
        expect(b"37 9116 71 11751\n", *model, "--stdin", stdin="Führer".encode())
        expect(lambda out: json.loads(out) == {"ids": [15496, 995]}, *model, "--json",
               "Hello world")
        expect(lambda out: json.loads(out) == {"ids": [15496, 995],
                                               "pieces": ["Hello", " world"]},
               *model, "--json", "--verbose", "Hello world")
        expect(b"50256\n", *model, "<|endoftext|>")
        expect(lambda out: len(out.split()) > 1, *model, "--no-special", "<|endoftext|>")
        expect(b"Hello world\n", *model, "--decode", "15496", "995")
        expect(b"Hello world\n", *model, "--decode", "[15496, 995]")
        expect(b"Hello world\n", *model, "--decode", "--stdin", stdin=b"15496,995\n")
        expect(b"\n", *model, "--decode", "--no-special", "50256")
        expect(b"", *model, "--decode", "50257", code=1, error="no token id")
        expect(b"", *model, "--decode", "x", code=1, error="\"x\" is no token id")
        # A folder with a tokenizer and nothing else; a begin token by its template.
        expect(lambda out: out.startswith(b"1 "), "-m", folder, "a")
        expect(lambda out: not out.startswith(b"1 "), "-m", folder, "--no-bos", "a")
        expect(b"", *model, code=2, error="give a text")
        expect(b"", *model, "a", "b", code=2, error="one text")
        expect(b"", *model, "--stdin", "a", code=2, error="not both")
        expect(b"", *model, "--special", "--no-special", "a", code=2, error="not both")
        expect(b"", "a", code=2, error="which model")
        expect(b"", "-m", folder / "none.gguf", "a", code=1, error="none.gguf")
    for what in failures:
        print(what)
    sys.exit(len(failures) > 0)


main()
