#!/usr/bin/env python3
"""Writes random.json: templates put together at random, and what Jinja2 makes of them.

    python3 make_random.py [SEED [N]] > random.json     (needs jinja2 3.1.6, Python 3.11)

Expressions of nonsense show what happens with the wrong types; random delimiters show
what happens to white space. Results that tell an address are left out.
"""
import json
import random
import sys
import warnings

from make_semantics import VARS, environment

ATOMS = ["1", "0", "-3", "7", "2.5", "-0.5", '"abc"', '"a b,c"', '""', "none", "true",
         "false", "l", "d", "s", "u", "i", "neg", "x", "missing", "items", "el", "ed",
         "[1,2,3]", "[]", '(1,"a")', '{"k":1}', '"你好"', "csv", "words", "nested", "10",
         '[["a",1],["b",2]]', "d.a", "items[0]", "range(3)"]
FILTERS = ["length", "upper", "lower", "trim", "first", "last", 'join(",")', "list",
           "string", "int", "float", "sort", "unique|list", "tojson", 'default("z")',
           'default("z",true)', "abs", "round", "title", "capitalize", "items|list",
           "dictsort", "min", "max", "sum", 'map("string")|list', "select|list",
           'reject("none")|list', 'replace("a","b")', "batch(2)|list",
           'map(attribute="n")|list', 'selectattr("v")|list', "escape", "center(9)",
           "count", "join", "sort(reverse=true)", "tojson(indent=1)", "round(1)", "int(3)",
           "reverse|list", "list|string"]
TESTS = ["defined", "none", "string", "number", "mapping", "sequence", "iterable", "odd",
         "even", "true", "boolean", "in l", "divisibleby 2", "eq 1", "lower", "integer",
         "float", "sameas none", "gt 1"]
METHODS = [".split()", '.split(",")', ".strip()", ".upper()", '.startswith("a")',
           '.get("a")', ".items()|list", ".keys()|list", "[0]", "[-1]", '["a"]', ".x", ".a",
           '["b"]', ".title()", '.replace("a","X")', '.find("b")', '.count("a")', "[-2]",
           ".index(1)", ".splitlines()", '.rsplit(" ",1)', ".values()|list", ".b", ".n",
           '.join(["x","y"])', '.endswith("c")', '.lstrip("a")']
OPS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in",
       "not in", "and", "or"]
SPACE = ["", " ", "  ", "\n", "\n\n", " \n ", "\t", "a", "b\n", "\r\n", "\n  ", "  c"]


def expression(r, depth):
    kind = r.random()
    if depth <= 0 or kind < .2:
        return r.choice(ATOMS)
    if kind < .42:
        op = r.choice(OPS)
        right = r.choice(["2", "0", "3", "-1", '"a"', "none"]) if op == "**" else \
            expression(r, depth - 1)
        return "(%s %s %s)" % (expression(r, depth - 1), op, right)
    if kind < .62:
        return "(%s|%s)" % (expression(r, depth - 1), r.choice(FILTERS))
    if kind < .72:
        return "(%s is %s%s)" % (expression(r, depth - 1), r.choice(["", "not "]),
                                 r.choice(TESTS))
    if kind < .9:
        return "((%s)%s)" % (expression(r, depth - 1), r.choice(METHODS))
    if kind < .94:
        return "(%s if %s else %s)" % tuple(expression(r, depth - 1) for _ in range(3))
    if kind < .97:
        return "[%s, %s]" % (expression(r, depth - 1), expression(r, depth - 1))
    return "(not %s)" % expression(r, depth - 1)


def statement(r, depth):
    kind = r.random()
    if kind < .5:
        return "{{ %s }}" % expression(r, 3)
    if kind < .7:
        return ("{%% for a in %s %%}{{ a }}{{ loop.index }}{%% set q = a %%}{%% else %%}E"
                "{%% endfor %%}{{ q }}" % expression(r, 2))
    if kind < .85:
        return ("{%% set q = %s %%}{%% if %s %%}{{ q }}{%% else %%}%s{%% endif %%}" %
                (expression(r, 2), expression(r, 2), statement(r, depth - 1) if depth else "x"))
    return "{%% for a, b in %s %%}{{ a }}:{{ b }};{%% endfor %%}" % expression(r, 2)


def spaced(r, depth):
    """Tags with all signs between pieces of white space."""
    out = []
    for _ in range(r.randint(1, 4)):
        out.append(r.choice(SPACE))
        a, b, c, d = (r.choice(["", "", "-", "+"]) for _ in range(4))
        end = r.choice(["", "-"])
        kind = r.random()
        if kind < .3:
            out.append("{{%s 1 %s}}" % (r.choice(["", "-"]), end))
        elif kind < .5:
            out.append("{#%s c %s#}" % (a, b))
        elif kind < .6:
            out.append("{%%%s raw %s%%}%s{{ x }}%s{%%%s endraw %s%%}" %
                       (a, end, r.choice(SPACE), r.choice(SPACE), c, d))
        elif depth:
            out.append("{%%%s if t %s%%}%s{%%%s endif %s%%}" % (a, b, spaced(r, depth - 1),
                                                               c, d))
        else:
            out.append("{%%%s set y = 1 %s%%}" % (a, b))
    out.append(r.choice(SPACE))
    return "".join(out)


def main():
    warnings.simplefilter("ignore")
    r = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    env, cases = environment(), []
    while len(cases) < n:
        text = spaced(r, 2) if r.random() < .3 else statement(r, 1)
        case = {"template": text}
        try:
            case["text"] = env.from_string(text).render(**VARS)
        except Exception as e:  # every kind of error is a result
            case["error"] = "%s: %s" % (type(e).__name__, e)
        if " at 0x" not in str(case) and len(str(case)) < 2000:
            cases.append(case)
    json.dump({"vars": VARS, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
