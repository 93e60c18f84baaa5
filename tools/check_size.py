#!/usr/bin/env python3
"""Prints the largest files and functions, so that growth is seen before it hurts.

Judges nobody: the exit code is always 0. Guides: files 150-600 lines, headers under
250, functions under 60 (kernels 150), lines of 88 columns.
"""
import pathlib
import re
import sys


def functions(path):
    """Yields (name, lines) of each function: a line that ends a signature, '{' alone."""
    lines = path.read_text(encoding="utf-8").split("\n")
    start = None
    for number, line in enumerate(lines):
        if line == "{" and number:
            head = " ".join(lines[max(0, number - 4):number])
            names = re.findall(r"(\w+)\s*\(", head)
            start = (names[0] if names else "?", number)
        elif line == "}" and start:
            yield start[0], number - start[1] + 1
            start = None


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = [p for d in ("src", "include") for p in sorted((root / d).rglob("*.[ch]"))]
    sizes = sorted(((len(p.read_text(encoding="utf-8").split("\n")) - 1,
                     p.relative_to(root).as_posix()) for p in files), reverse=True)
    longest = sorted(((n, name, p.relative_to(root).as_posix())
                      for p in files if p.suffix == ".c" for name, n in functions(p)),
                     reverse=True)
    print(f"sizes: {len(files)} files, {sum(n for n, _ in sizes)} lines")
    print("largest files:")
    for n, name in sizes[:10]:
        print(f"  {n:5d}  {name}")
    print("longest functions:")
    for n, name, where in longest[:10]:
        print(f"  {n:5d}  {name}  {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
