#!/usr/bin/env python3
"""Checks the one direction of the folders: who may include whom.

The table is the one of docs/ARCHITECTURE.md. Every include of our own shows its folder
("base/error.h"); operating-system headers stay in base/, serve/http and cli/terminal;
intrinsics in kernel/x86 and kernel/arm; each external library in the folders that
DESIGN names for it. Prints one line per broken arrow and exits 1.
"""
import pathlib
import re
import sys

ALL = "base tensor kernel format text backend model train compress eval serve api cli".split()
BEFORE_TRAIN = "base tensor kernel format text backend model".split()
MAY = {
    "base": [],
    "tensor": ["base"],
    "text": ["base"],
    "kernel": ["base", "tensor"],
    "format": ["base", "tensor"],
    "backend": ["base", "tensor", "kernel"],
    "model": ["base", "tensor", "format", "text", "backend"],
    "train": BEFORE_TRAIN,
    "compress": BEFORE_TRAIN + ["train"],
    "eval": ["base", "tensor", "format", "text", "backend", "model"],
    "serve": ["base", "tensor", "format", "text", "backend", "model"],
    "api": [folder for folder in ALL if folder not in ("api", "cli")],
    "cli": ALL,
}
EXTRA = {"compress": ["eval/divergence.h", "eval/teacher.h", "eval/textset.h"]}

C_HEADERS = set("""assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h
limits.h locale.h math.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h
stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h threads.h time.h uchar.h
wchar.h wctype.h""".split())
LIBRARIES = {  # header: folders that may use it
    "cjson/cJSON.h": {"format", "compress", "eval", "serve", "cli", "api"},
    "pcre2.h": {"text"},
    "utf8proc.h": {"text"},
    "openssl/evp.h": {"format", "cli"},
    "zlib.h": {"format", "eval"},
}
INTRINSICS = {"immintrin.h": "kernel/x86", "arm_neon.h": "kernel/arm"}
SYSTEM_OK = ("base/", "serve/http", "cli/terminal")
BANNED = re.compile(
    r"(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|sscanf|scanf|"
    r"alloca|system|rand|srand|setenv)\s*\(")
ALLOCATORS = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free)\s*\(")


def strip_comments(text):
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    text = re.sub(r"//[^\n]*", blank, text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: m.group(0) if "/" in m.group(0) or
                  m.group(0).endswith('.h"') else '""', text)


def check_include(rel, folder, inc, quoted):
    if quoted:
        target = inc.split("/")[0]
        if "/" not in inc:
            return None if inc == "bonsai2.h" else f'include "{inc}" does not show its folder'
        if target == folder or target in MAY[folder] or inc in EXTRA.get(folder, []):
            return None
        return f"{folder}/ may not include {inc}"
    if inc in LIBRARIES:
        return None if folder in LIBRARIES[inc] else f"{folder}/ may not use <{inc}>"
    if inc in INTRINSICS:
        return None if rel.startswith(INTRINSICS[inc]) else f"<{inc}> outside {INTRINSICS[inc]}"
    if inc in C_HEADERS or rel.startswith(SYSTEM_OK):
        return None
    return f"<{inc}> is an operating-system header; only base/ and cli/terminal have those"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent / "src"
    problems = []
    for path in sorted(root.rglob("*.[ch]")):
        rel = path.relative_to(root).as_posix()
        folder = rel.split("/")[0]
        if folder not in MAY:
            problems.append(f"src/{rel}: folder {folder}/ is not in the design")
            continue
        text = strip_comments(path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if match:
                problem = check_include(rel, folder, match.group(2), match.group(1) == '"')
                if problem:
                    problems.append(f"src/{rel}:{number}: {problem}")
                continue
            match = BANNED.search(line)
            if match:
                problems.append(f"src/{rel}:{number}: {match.group(1)}() is banned")
            match = ALLOCATORS.search(line)
            if match and folder != "base":
                problems.append(f"src/{rel}:{number}: {match.group(1)}() outside base/; use base/mem.h")
    print("\n".join(problems) if problems else "layers: every include points the right way")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
