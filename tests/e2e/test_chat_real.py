"""The real model's own chat template, end to end.

    test_chat_real.py BONSAI2 GOLDEN_DIR

The prompt of `template` is the one of the oracle (greedy.json) and becomes its tokens; so
does what `run --chat` makes of the same message.
"""
import json
import subprocess
import sys

from real_model import find_model

PROGRAM, GOLDEN = sys.argv[1:3]
MODEL = find_model()
QUESTION = "What is the difference between a lake and a river?"


def run(*args, stdin=""):
    done = subprocess.run([PROGRAM, *args], input=stdin.encode(), capture_output=True,
                          check=False)
    if done.returncode:
        sys.exit("%s: exit %d\n%s" % (args, done.returncode, done.stderr.decode()))
    return done.stdout.decode(), done.stderr.decode()


def main():
    with open(GOLDEN + "/model/greedy.json", encoding="utf-8") as f:
        cases = [c for c in json.load(f)["cases"]
                 if c["kind"] == "chat-template" and c["model"] == "smollm2"]
    assert cases, "no case of the kind chat-template"
    request = json.dumps({"messages": [{"role": "user", "content": QUESTION}],
                          "add_generation_prompt": True})
    prompt = json.loads(run("template", "-m", MODEL, "--messages", "-", "--json",
                            stdin=request)[0])["prompt"]
    assert prompt == cases[0]["prompt"], prompt
    ids = json.loads(run("tokenize", "-m", MODEL, "--json", "--no-bos", prompt)[0])["ids"]
    assert ids == cases[0]["prompt_ids"], ids
    answer = json.loads(run("run", "-m", MODEL, "--chat", "-p", QUESTION, "-n", "1",
                            "--temp", "0", "--json")[0])
    assert answer["prompt_ids"] == cases[0]["prompt_ids"], answer["prompt_ids"]
    # A conversation begins with the answer that run --chat gives.
    settings = ("-m", MODEL, "-n", "24", "--temp", "0", "-q")
    answer, _ = run("run", "--chat", "-p", QUESTION, *settings)
    talk, _ = run("chat", *settings, stdin=QUESTION + "\n")
    assert talk == answer and len(answer) > 20, (talk, answer)


main()
