#!/usr/bin/env python3
"""bonsai2 template seen from outside: prompts, JSON, errors, folders.

Usage: test_template.py PROGRAM GOLDEN_DIR     prints only what fails
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def run(*args, stdin=b""):
    done = subprocess.run([PROGRAM, "template", *map(str, args)], input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def expect(want, *args, code=0, stdin=b"", error=""):
    rc, out, err = run(*args, stdin=stdin)
    ok = want(out) if callable(want) else out == want
    if rc != code or not ok or error not in err:
        failures.append("%s: exit %d, %r, %r" % (args, rc, out, err))


def main():
    cases = json.loads((GOLDEN / "templates/cases.json").read_bytes())
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        # A sample of the cases; test_chat has them all.
        for template, conversation in (("Qwen-Qwen3-0.6B", "thinking_off"),
                                       ("Qwen3.5-4B", "system_late"),
                                       ("openai-gpt-oss-120b", "tool_round"),
                                       ("Apertus-8B-Instruct", "tools")):
            want = cases["expected"][template][conversation]
            args = ("--template", GOLDEN / ("templates/%s.jinja" % template), "--messages",
                    "-", "--bos", "<s>", "--eos", "</s>", "--now", cases["now"])
            request = json.dumps(cases["cases"][conversation]).encode()
            if "text" in want:
                expect(want["text"].encode(), *args, stdin=request)
                expect(lambda out: json.loads(out) == {"prompt": want["text"]}, *args,
                       "--json", stdin=request)
            else:
                expect(b"", *args, stdin=request, code=1, error=want["error"])
                expect(lambda out: json.loads(out) == {"error": want["error"]}, *args,
                       "--json", stdin=request, code=1)
        # A folder with a tokenizer and templates, but no weights.
        folder = tmp / "model"
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes(
            (GOLDEN / "tokenizer/spm_llama.json").read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": [
            {"name": "default", "template": "{{ bos_token }}D{{ messages[0].content }}"},
            {"name": "tool_use", "template": "T{{ tools is none }}{{ extra }}"}]}))
        chat = tmp / "chat.json"
        chat.write_text('{"messages": [{"role": "user", "content": "hi"}], "extra": 5}')
        model = ("-m", folder, "--messages", chat)
        expect(lambda out: out.endswith(b"Dhi"), *model)
        expect(b"[x]Dhi", *model, "--bos", "[x]")
        expect(b"TTrue5", *model, "--name", "tool_use")
        expect(b"", *model, "--name", "other", code=1, error="named other")
        (folder / "chat_template.jinja").write_text("J{{ messages[0]['content'] }}\n")
        expect(b"Jhi", *model)
        own = tmp / "own.jinja"
        own.write_text("{{ strftime_now('%d %b %Y %H:%M') }}")
        expect(b"29 Feb 2024 23:59", "--template", own, "--messages", chat, "--now",
               "2024-02-29T23:59:00")
        expect(b"01 Jan 1970 00:00", "--template", own, "--messages", chat, "--now",
               "1970-01-01")
        bad = tmp / "bad.json"
        for text, error in (("[1]", "no JSON object"), ("{", "not valid JSON"),
                            ("[" * 500, "nested")):
            bad.write_text(text)
            expect(b"", "-m", folder, "--messages", bad, code=1, error=error)
        own.write_text("line\n{% if x %}")
        expect(b"", "--template", own, "--messages", chat, code=1,
               error="TemplateSyntaxError")
        own.write_text("{% for a in range(99999) %}{% for b in range(99999) %}"
                       "{% endfor %}{% endfor %}")
        expect(b"", "--template", own, "--messages", chat, code=1, error="steps")
    expect(b"", code=2, error="which template")
    expect(b"", "-m", "x", code=2, error="which conversation")
    expect(b"", "-m", "x", "--messages", "y", "--now", "today", code=2, error="today")
    expect(b"", "-m", "none.gguf", "--messages", "y", code=1, error="none.gguf")
    expect(b"", "--template", "none.jinja", "--messages", "y", code=1,
           error="none.jinja")
    for what in failures:
        print(what)
    sys.exit(len(failures) > 0)


main()
