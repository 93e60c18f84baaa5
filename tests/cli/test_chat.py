#!/usr/bin/env python3
"""bonsai2 chat seen from outside: through pipes, and on a pseudo-terminal.

Usage: test_chat.py PROGRAM STORIES.gguf     prints only what fails

The small model has no chat template, so one is given; what it answers does not matter.
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

PROGRAM, MODEL = sys.argv[1:3]
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ m.role[0] }}: {{ m.content }}\n"
            "{% endfor %}a:")
failures = []


def check(what, ok, *shown):
    if not ok:
        failures.append(" ".join([what] + [repr(s) for s in shown]))


def run(command, *args, stdin=""):
    done = subprocess.run([PROGRAM, command, "-m", MODEL, *map(str, args)],
                          input=stdin.encode(), capture_output=True, check=False,
                          timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Terminal:
    """The program on a pseudo-terminal of 30 columns."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(PROGRAM, [PROGRAM, "chat", "-m", MODEL, *map(str, args)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        self.seen = ""

    def wait_for(self, what, seconds=20):
        """Reads until what has come behind the last match; the text so far."""
        end = time.time() + seconds
        while what not in self.seen and time.time() < end:
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode("utf-8", "replace")
        at = self.seen.find(what)
        check("terminal shows %r" % what, at >= 0, self.seen[-300:])
        before, self.seen = self.seen[:at], self.seen[at + len(what):] if at >= 0 else ""
        return before

    def send(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Ctrl-D; the exit status."""
        self.send("\x04")
        deadline = time.time() + 20
        while time.time() < deadline:
            try:
                if select.select([self.fd], [], [], 0.1)[0]:
                    os.read(self.fd, 65536)
            except OSError:
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return "still running"


def test_pipe(tmp, own):
    saved = tmp / "saved.json"
    talk = ("Tell me a story.\n/system Be kind.\nAnd\\\nthen?\n\"\"\"\ntwo\nlines 你好\n\"\"\"\n"
            "/save %s\n/save %s\n/stats\n/system\n/regen\n/clear\n/nosuch\n/load %s\n"
            "/save -f %s\n/help\n/exit\nnever read\n" % ((saved,) * 4))
    rc, out, err = run("chat", *own, "-n", 12, "--temp", 0, stdin=talk)
    check("exit", rc == 0, rc, err)
    messages = json.loads(saved.read_text())["messages"]
    check("roles", [m["role"] for m in messages] ==
          ["system"] + ["user", "assistant"] * 3, messages)
    check("system", messages[0]["content"] == "Be kind.", messages[0])
    check("continued line", messages[3]["content"] == "And\nthen?", messages[3])
    check("fenced lines", messages[5]["content"] == "two\nlines 你好", messages[5])
    check("the answers are shown", all(m["content"] in out for m in messages[2::2]), out)
    check("system is shown", "Be kind." in out)
    for words in ("exists; /save -f", "unknown command /nosuch", "[7 messages]", "[saved]",
                  "reused tokens"):
        check("says " + words, words in err, err)
    check("help and stats", "/regen" in out and "positions of the context" in out)
    # An answer reuses what the session has of the conversation.
    reused = [int(n) for n in re.findall(r"\+ (\d+) reused", err)]
    check("reuse", len(reused) == 4 and reused[0] == 0 and reused[2] > reused[1] >= 0 and
          reused[3] >= reused[2], reused)
    again = run("chat", *own, "-n", 12, "--temp", 0, stdin=talk.replace("/save", "/exit"))
    check("the same again", out.startswith(again[1]), out, again[1])


def test_context(own):
    """Old turns are dropped with a word; a message too long for all is an error."""
    talk = "/system S\n" + "".join("This is question number %d.\n" % i for i in range(9))
    rc, out, err = run("chat", *own, "-n", 20, "--ctx", 128, "--temp", 0, stdin=talk)
    check("long talk: exit", rc == 0, err)
    check("says what is dropped", "the context of 128 tokens is full" in err and
          "the system message is kept" in err, err)
    check("all answered", err.count("tok/s") == 9, err)
    rc, out, err = run("chat", *own, "--ctx", 64, stdin="word " * 200 + "\n")
    check("too long: exit", rc == 1, rc)
    check("too long: both numbers", re.search(r"prompt of \d+ tokens.* has 64", err), err)
    rc, out, err = run("chat", *own, "--ctx", 100, "--temp", 0, stdin="Once upon a time\n")
    check("full while answering", "the context of 100 tokens is full" in err, err)


def test_run_chat(tmp, own):
    rc, out, err = run("run", "--chat", "-p", "hi", stdin="")
    check("no template", rc == 1 and "no chat template" in err, rc, err)
    rc, out, err = run("run", "-p", "hi", "--system", "x")
    check("system needs chat", rc == 2 and "--chat" in err, err)
    rc, out, err = run("run", "-p", "hi", "--template", "x")
    check("template needs chat", rc == 2 and "--chat" in err, err)
    rc, out, err = run("chat", stdin="hi\n")
    check("chat without template", rc == 1 and "--template" in err, err)
    rc, out, err = run("chat", *own, "--json")
    check("no json", rc == 2, rc)
    bad = tmp / "bad.jinja"
    bad.write_text("{{ raise_exception('no way') }}")
    rc, out, err = run("chat", "--template", bad, stdin="hi\n")
    check("raise_exception", rc == 1 and "TemplateError: no way" in err, rc, err)


def test_think(tmp):
    """The prompt begins a thought; nothing ends it, so all is thought."""
    thinking = tmp / "think.jinja"
    thinking.write_text("{{ bos_token }}{{ enable_thinking is defined }}<think>\n")
    args = ("--template", thinking, "-n", 8, "--temp", 0, "-q")
    rc, shown, err = run("chat", *args, stdin="hi\n")
    check("shown", rc == 0 and len(shown) > 2, shown, err)
    rc, hidden, err = run("chat", *args, "--think", "hide", stdin="hi\n")
    check("hidden", rc == 0 and hidden == "\n", hidden, err)
    rc, off, err = run("chat", *args, "--think", "off", stdin="hi\n")
    check("off", rc == 0 and off == "\n", off)


def test_terminal(own):
    t = Terminal(*own, "--temp", 0, "-n", 8)
    t.wait_for("> ")
    # Typing, going back, and a line that is wider than the screen, in Chinese.
    t.send("Hello wrld\x1b[D\x1b[D\x1b[Do\x01Oh, \x05!")
    t.wait_for("Oh, Hello world!")
    t.send("\x15")
    t.send("你好世界这是一个很长的句子用来测试")
    t.wait_for("测试")
    t.send("\x7f\x7f")
    time.sleep(0.3)
    t.send("\x03")
    t.send("\x03")
    t.wait_for("Ctrl-D or /exit")
    t.send("/system 你好é\r")
    t.wait_for("is set]")
    t.send("/system\r")
    t.wait_for("你好é\r\n")
    # History: up twice; a pasted text of two lines stays one message.
    t.send("\x1b[A\x1b[A")
    t.wait_for("/system 你好é")
    t.send("\x15\x1b[200~one\rtwo\x1b[201~")
    t.wait_for("... two")
    t.send("\r")
    t.wait_for("tok/s")
    t.wait_for("> ")
    check("exit after Ctrl-D", t.end() == 0)


def test_interrupt(own):
    """Ctrl-C stops the answer and not the program, again and again."""
    t = Terminal(*own, "--temp", 0, "--ctx", 512)
    for _ in range(2):
        t.wait_for("> ")
        t.send("Tell me a story\r")
        t.wait_for("\r\n")
        time.sleep(0.1)
        t.send("\x03")
        t.wait_for("tok/s")
        t.wait_for("]")
    t.wait_for("> ")
    t.send("/stats\r")
    t.wait_for("in 2 answers")
    check("exit after interrupts", t.end() == 0)


def test_end_typed_ahead(own):
    """Ctrl-D while the answer is still written ends the program after it."""
    t = Terminal(*own, "--temp", 0, "--ctx", 512)
    t.wait_for("> ")
    t.send("Tell me a story\r")
    t.wait_for("\r\n")
    time.sleep(0.1)
    check("exit after an early Ctrl-D", t.end() == 0)


def test_killed(own):
    """Who ends the program from outside finds the terminal as it was."""
    t = Terminal(*own)
    t.wait_for("> ")
    time.sleep(0.2)
    raw = termios.tcgetattr(t.fd)[3]
    os.kill(t.pid, signal.SIGTERM)
    _, status = os.waitpid(t.pid, 0)
    now = termios.tcgetattr(t.fd)[3]
    check("killed", os.waitstatus_to_exitcode(status) == -signal.SIGTERM, status)
    check("keys came one by one", not raw & (termios.ICANON | termios.ECHO), raw)
    check("echo is back", now & termios.ICANON and now & termios.ECHO, now)
    os.close(t.fd)


def has_terminals():
    try:
        for fd in os.openpty():
            os.close(fd)
    except OSError:
        return False
    return True


def main():
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        (tmp / "own.jinja").write_text(TEMPLATE)
        own = ("--template", tmp / "own.jinja")
        test_pipe(tmp, own)
        test_context(own)
        test_run_chat(tmp, own)
        test_think(tmp)
        terminals = has_terminals()
        if terminals:
            test_terminal(own)
            test_interrupt(own)
            test_end_typed_ahead(own)
            test_killed(own)
    for what in failures:
        print(what)
    if not failures and not terminals:
        print("skipped: the terminal's part, this system gives no pseudo-terminal")
        sys.exit(77)
    sys.exit(len(failures) > 0)


main()
