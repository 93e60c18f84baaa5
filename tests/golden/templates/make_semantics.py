#!/usr/bin/env python3
"""Writes semantics.json: small templates and what Jinja2 makes of them.

    python3 make_semantics.py > semantics.json      (needs jinja2 3.1.6, Python 3.11)

For what the templates of real models do not use. The settings are those of transformers
(SOURCE.txt). A template that fails gives "TYPE: message".
"""
import json
import sys

import jinja2.exceptions
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARS = {
    "n": None, "t": True, "f": False, "zero": 0, "i": 7, "neg": -7, "x": 2.5,
    "s": "Hello World", "u": "Grüße, 你好 🙂!", "e": "", "html": "<a href='x'>&\"</a>",
    "l": [3, 1, 2], "el": [], "d": {"b": 1, "a": 2, "C": {"k": [1, None, True]}},
    "ed": {}, "items": [{"n": "b", "v": 2, "on": True}, {"n": "A", "v": 1},
                        {"n": "c", "v": 3, "on": False}],
    "words": "  the quick\tbrown \n fox ", "csv": "a,b,,c", "multi": "one\ntwo\n\nthree\n",
    "nested": {"a": {"b": [{"c": "deep"}]}},
}

# One line of the list is one template; "\n" in it is written as such.
TEMPLATES = r"""
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }}
{{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }} {{ (-2) ** 2 }} {{ 2 ** 3 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 0.0 * -1 }} {{ 1e308 * 10 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 1.5 // 0 }}
{{ 1.5 % 0 }}
{{ [0.1, 1.0, 1e16, 1e15, 123456789.125, 1e-5, 0.0001, 1.5e300, -0.0, 3.0e-7, 1e22, 12345678901234567.0] }}
{% for v in [0.1, 1.0, 1e16, 1e15, 1e-5, 0.0001, 100.0, 5e-324] %}{{ v }} {{ v|string }} {{ v|tojson }};{% endfor %}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 10.0 }} {{ 1e22 }} {{ 1e21 + 1 }} {{ 3.14159265358979 }}
{{ 1 + true }} {{ true + true }} {{ 1 == true }} {{ 0 == false }} {{ 1 == 1.0 }} {{ "1" == 1 }} {{ none == false }}
{{ 1 + "a" }}
{{ "a" + 1 }}
{{ "a" + none }}
{{ [1] + (2,) }}
{{ (1,) + [2] }}
{{ none + 1 }}
{{ {} + {} }}
{{ 1 - "a" }}
{{ "a" - "b" }}
{{ "a" * 3 }} {{ 3 * "ab" }} {{ [1, 2] * 2 }} {{ "a" * 0 }} {{ "a" * -1 }} {{ (1,) * 2 }}
{{ "a" * "b" }}
{{ [1] * 1.5 }}
{{ "a" / 2 }}
{{ "a" ** 2 }}
{{ -"a" }}
{{ +none }}
{{ -[1] }}
{{ -true }} {{ +true }} {{ - -3 }} {{ -x }} {{ not not 1 }} {{ not 0 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 > 1 }} {{ 1 == 1 == 1 }} {{ 1 < 2 == true }} {{ "a" < "b" }} {{ "Z" < "a" }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }}
{{ 1 < "a" }}
{{ none < 1 }}
{{ [1] >= 1 }}
{{ {} < {} }}
{{ "a" in "abc" }} {{ "" in "abc" }} {{ 1 in [1, 2] }} {{ "b" in d }} {{ "z" not in d }} {{ 1 in (1,) }} {{ 1.0 in [1] }} {{ none in [none] }}
{{ 1 in "abc" }}
{{ 1 in 5 }}
{{ 1 in none }}
{{ "a" in missing }} {{ missing in [1] }}
{{ missing in "abc" }}
{{ missing }}|{{ missing|default("x") }}|{{ missing is defined }}|{{ missing or "y" }}|{{ missing ~ "z" }}|{{ missing == missing2 }}|{{ missing != 1 }}
{{ missing.a }}
{{ missing["a"] }}
{{ missing[0] }}
{{ missing() }}
{{ missing + 1 }}
{{ 1 + missing }}
{{ missing < 1 }}
{{ -missing }}
{{ missing|length }} {{ missing|list }} {{ missing|join(",") }} {{ missing|string }} {{ missing|upper }}
{{ missing|int }}
{{ missing|tojson }}
{{ missing is sequence }} {{ d.zzz is sequence }} {{ missing is mapping }} {{ "a" % missing }} {{ "a%s" % [1] }} {{ "a" % [] }}
{{ missing|round }}
{{ missing|abs }}
{{ 5|truncate }}
{{ [1, 2]|truncate }} {{ missing|truncate }} {{ false|select|list }} {{ 0|map("nosuch")|list }} {{ none|selectattr("x")|list }}
{{ l|indent }}
{{ [missing]|tojson }}
{{ [missing] }}
{% for a in missing %}x{% else %}none{% endfor %}
{{ d.zzz }}|{{ d["zzz"] }}|{{ d.zzz is defined }}|{{ d.zzz|default(5) }}
{{ d.zzz.y }}
{{ d["zzz"]["y"] }}
{{ l.foo }}{{ l.foo.bar }}
{{ s.foo.bar }}
{{ i.foo.bar }}
{{ none.foo.bar }}
{{ n.foo }}|{{ n["foo"] }}
{{ n[0].x }}
{{ l[10] }}|{{ l[10] is defined }}
{{ l[10].x }}
{{ l["a"].x }}
{{ d[0].x }}
{{ d[[1]].x }}
{{ s[100].x }}
{{ d[""] }}|{{ d["pop popitem"] is defined }}|{{ l["sort"] is defined }}|{{ ""[""] }}|{{ s["format format_map"] is defined }}
{{ l[-1] }} {{ l[-3] }} {{ l[0] }} {{ s[-1] }} {{ u[1] }} {{ u[-2] }} {{ u[7] }} {{ l[true] }} {{ l.0 }} {{ nested.a.b.0.c }}
{{ l[:2] }} {{ l[1:] }} {{ l[-2:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[2:0:-1] }} {{ l[5:] }} {{ l[-10:2] }} {{ l[10::-1] }} {{ l[:0:-1] }} {{ l[1:1] }}
{{ s[:5] }} {{ s[6:] }} {{ s[::-1] }} {{ s[::3] }} {{ s[-5:-1] }} {{ s[4:1:-1] }} {{ u[::-1] }} {{ u[2:9] }} {{ u[:-3] }} {{ u[7:9] }} {{ (1,2,3)[1:] }} {{ s[none:3] }}
{{ l[::0] }}
{{ l["a":] }}
{{ s[1.5:] }}
{{ (l|map("int"))[1:] }}
{{ d[1:2] }}
{{ i[1:2] }}
{{ range(5)[1:3]|list }} {{ range(10)|list }} {{ range(2, 8, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(3) }} {{ range(1, 9, 2) }} {{ range(3)[1] }} {{ range(5)|length }}
{{ range(1, 2, 0) }}
{{ range(1000000) }}
{{ range("a") }}
{{ range() }}
{{ d }} {{ l }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ [] }} {{ {} }} {{ [none, true, 1.5, "a'b", 'a"b', "a'b\"c"] }}
{{ ["tab\t", "nl\n", "back\\slash", "nul\x00", "bell\x07", "e\u00e9", "zwsp\u200b", "nbsp\u00a0", "🙂", "\u4f60"] }}
{{ {"a": {1: [2, (3,)]}, none: true, 1.5: "x"} }}
{{ {1: "int", "1": "str", true: "bool"} }} {{ {"a": 1, "a": 2} }}
{{ {[1]: 2} }}
{{ {{}: 2} }}
{{ {(1, 2): 3}[(1, 2)] }} {{ {1: "a"}[1.0] }} {{ {true: "a"}[1] }}
{{ d|string }} {{ l|string|length }} {{ none|string }} {{ true|string }} {{ 1.0|string }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.items()|list }} {{ d|items|list }} {{ d|list }} {{ d.keys()|list }}
{{ d.get("a") }} {{ d.get("q") }} {{ d.get("q", 9) }}
{{ d.get("q", default=1) }}
{{ d.get() }}
{{ d.copy() }} {{ l.index(1) }} {{ l.count(3) }}
{{ l.index(9) }}
{{ {"items": 5}["items"] }} {{ {"foo": 6}.foo }} {{ {"get": 7}["get"] }}
{{ l.append(4) }}
{{ l.append }}
{{ l.append is defined }}|{{ l.sort is defined }}|{{ d.update is defined }}|{{ d.pop is callable }}
{{ d.update({}) }}
{{ d.pop("a") }}
{{ l.pop() }}
{{ "".__class__ }}
{{ l.__class__.__name__ }}
{{ s.lower() }} {{ s.upper() }} {{ s.title() }} {{ s.capitalize() }} {{ "straße ŉ ﬁ ǆ İ ΑΣ ΑΣΑ".upper() }} {{ "STRASSE İ ΑΣ ΑΣΑ Σ".lower() }} {{ "ǆabc ﬁne ß o'neil they're x1y2".title() }} {{ "ǆABC".capitalize() }}
{{ "they're bill's friends from the UK"|title }} {{ "foo-bar (baz) [q] {w} <e>"|title }} {{ "HELLO wORLD"|capitalize }} {{ u|upper }} {{ u|lower }} {{ 5|upper }}
{{ words.strip() }}|{{ words.lstrip() }}|{{ words.rstrip() }}|{{ words|trim }}|{{ "xxaxx".strip("x") }}|{{ "xyax".strip("yx") }}|{{ "\u00a0a\u3000".strip() }}|{{ "\x1fa\x1c".strip() }}|{{ "xax"|trim("x") }}|{{ "éaé".strip("é") }}
{{ s.strip(1) }}
{{ words.split() }} {{ words.split(none) }} {{ words.split(none, 1) }} {{ words.split(maxsplit=2) }} {{ words.rsplit(none, 1) }} {{ words.rsplit() }} {{ "".split() }} {{ "   ".split() }}
{{ csv.split(",") }} {{ csv.split(",", 1) }} {{ csv.split(",", 2) }} {{ csv.split(",", 0) }} {{ csv.split(",", -1) }} {{ csv.rsplit(",", 1) }} {{ csv.rsplit(",") }} {{ "".split(",") }} {{ "aXXbXXc".split("XX") }} {{ "aaa".split("a") }} {{ "aaaa".rsplit("aa", 1) }}
{{ csv.split("") }}
{{ csv.split(1) }}
{{ multi.splitlines() }} {{ multi.splitlines(true) }} {{ "a\r\nb\rc\x0bd\x85e\u2028f".splitlines() }} {{ "".splitlines() }} {{ "\n".splitlines() }}
{{ s.startswith("He") }} {{ s.endswith("ld") }} {{ s.startswith(("x", "H")) }} {{ s.endswith(()) }} {{ s.startswith("") }} {{ "a".startswith("ab") }}
{{ s.startswith(1) }}
{{ s.startswith(["H"]) }}
{{ s.replace("l", "L") }} {{ s.replace("l", "L", 1) }} {{ s.replace("", "-") }} {{ s.replace("o", "") }} {{ "aaa".replace("aa", "b") }} {{ "你好".replace("", ".") }} {{ s|replace("o", "0") }} {{ s|replace("o", "0", 1) }} {{ 1.5|replace(".", ",") }} {{ "".replace("", "x") }} {{ "aaa".replace("a", "b", 0) }}
{{ s.replace("a", 1) }}
{{ s.replace("a") }}
{{ s.find("o") }} {{ s.rfind("o") }} {{ s.find("zz") }} {{ u.find("好") }} {{ s.count("l") }} {{ s.count("") }} {{ "aaaa".count("aa") }} {{ u.rfind("!") }} {{ s.index("W") }}
{{ s.index("zz") }}
{{ ",".join(["a", "b"]) }} {{ "".join("abc") }} {{ "-".join(d) }} {{ ", ".join(l|map("string")) }}
{{ ",".join([1]) }}
{{ ",".join(5) }}
{{ "abc".isdigit() }} {{ "12".isdigit() }} {{ "".isdigit() }} {{ " \t".isspace() }} {{ "".isspace() }} {{ "abc".islower() }} {{ "aBc".islower() }} {{ "A1".isupper() }} {{ "1".isupper() }} {{ "abc".removeprefix("a") }} {{ "abc".removesuffix("bc") }} {{ "abc".removesuffix("") }}
{{ s|length }} {{ u|length }} {{ l|length }} {{ d|length }} {{ l|count }}
{{ 5|length }}
{{ none|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ u|last }} {{ d|first }} {{ d|last }} {{ el|first }} {{ el|last is defined }}
{{ 5|first }}
{{ (l|map("string"))|last }}
{{ l|map("string")|first }} {{ l|map("string")|list }} {{ l|map("int")|join("+") }}
{{ l|map("string")|length }}
{{ (l|map("string"))[0] }}
{{ (l|map("string"))[0].x }}
{% set g = l|map("string") %}{{ g|list }}{{ g|list }}
{% set g = l|select %}{{ g|first }}{{ g|list }}
{{ l|join }} {{ l|join(", ") }} {{ items|join("/", attribute="n") }} {{ ["a", none, 1.5, true]|join("|") }} {{ d|join }} {{ "abc"|join("-") }} {{ [[1],[2]]|join(";") }}
{{ 5|join }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ ["b", "A", "a", "B"]|sort }} {{ ["b", "A", "a", "B"]|sort(case_sensitive=true) }} {{ items|sort(attribute="n")|map(attribute="n")|list }} {{ items|sort(attribute="v", reverse=true)|map(attribute="v")|join }} {{ items|sort(attribute="on,n")|length }}
{{ items|sort(attribute="n,v")|map(attribute="n")|join }} {{ [[2, "b"], [1, "z"], [2, "a"]]|sort }} {{ ["b", "A", "a", "B"]|sort(true) }} {{ d|sort }} {{ "hello"|sort }} {{ [(1, "b"), (1, "a")]|sort(attribute=0) }}
{{ [1, "a"]|sort }}
{{ [none, 1]|sort }}
{{ [true, false, 0.5]|sort }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(reverse=true) }} {{ {"a": 2, "b": 1}|dictsort(by="value") }} {{ {"a": 2, "b": 1}|dictsort(false, "value", true) }}
{{ d|dictsort(by="x") }}
{{ l|dictsort }}
{{ {1: 2, "a": 3}|dictsort }}
{{ ["a", "A", "b", "a"]|unique|list }} {{ ["a", "A"]|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ items|unique(attribute="v")|list|length }}
{{ [[1]]|unique|list }}
{{ l|min }} {{ l|max }} {{ ["b", "A"]|min }} {{ el|min }} {{ items|max(attribute="v") }}
{{ l|sum }} {{ items|sum(attribute="v") }} {{ items|sum("v", 10) }} {{ el|sum }} {{ [[1], [2]]|sum(start=[]) }}
{{ ["a"]|sum }}
{{ l|reverse|list }} {{ "abc"|reverse }} {{ u|reverse }}
{{ 5|reverse }}
{{ l|select("odd")|list }} {{ l|reject("odd")|list }} {{ l|select("gt", 1)|list }} {{ [0, 1, "", "a", none]|select|list }} {{ [0, 1]|reject|list }} {{ l|select("in", [1, 2])|list }} {{ l|select("divisibleby", 3)|list }}
{{ items|selectattr("on")|map(attribute="n")|list }} {{ items|rejectattr("on")|map(attribute="n")|list }} {{ items|selectattr("v", "gt", 1)|map(attribute="n")|list }} {{ items|selectattr("on", "defined")|list|length }} {{ items|selectattr("n", "equalto", "b")|list|length }} {{ items|selectattr("n", "==", "A")|first }}
{{ l|select("nosuch")|list }}
{{ items|selectattr()|list }}
{{ items|map(attribute="on", default="?")|list }} {{ items|map(attribute="zz")|list }} {{ ["a", "b"]|map("upper")|list }} {{ ["a-b"]|map("replace", "-", "+")|list }} {{ [nested]|map(attribute="a.b.0.c")|list }}
{{ items|map("nosuch")|list }}
{{ l|map|list }}
{{ l|batch(2)|list }} {{ l|batch(2, "x")|list }}
{{ 0|default("x") }} {{ 0|default("x", true) }} {{ ""|d("x", true) }} {{ none|default("x") }} {{ none|default("x", boolean=true) }} {{ missing|default }}|{{ missing|default(none) }} {{ d.q.r|default("x") }}
{{ "42"|int }} {{ "4.7"|int }} {{ "x"|int }} {{ "x"|int(5) }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ none|int }} {{ "ff"|int(base=16) }} {{ "0x1f"|int(0, 16) }} {{ " 12 "|int }} {{ "1_000"|int }} {{ "1e3"|int }} {{ [1]|int }} {{ "-5"|int }} {{ "+5"|int }} {{ ""|int }}
{{ "4.5"|float }} {{ "x"|float }} {{ 3|float }} {{ "1e3"|float }} {{ none|float(1.5) }} {{ "inf"|float }} {{ " 2 "|float }} {{ "-0"|float }} {{ "nan"|float }} {{ "0x1"|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 42.55|round(1) }} {{ 42|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, "floor") }} {{ 42.1|round(method="ceil") }} {{ 1234|round(-2) }} {{ 1250.0|round(-2) }} {{ -2.5|round }}
{{ "a"|round }}
{{ -5|abs }} {{ (-5)|abs }} {{ (-1.5)|abs }} {{ true|abs }}
{{ "a"|abs }}
{{ multi|indent }}|{{ multi|indent(2) }}|{{ multi|indent(2, true) }}|{{ multi|indent(2, true, true) }}|{{ multi|indent(">> ") }}|{{ ""|indent }}|{{ "a"|indent(first=true) }}
{{ 5|indent }}
{{ "abcdefghij klm nop"|truncate(9) }} {{ "abcdefghij klm nop"|truncate(12) }} {{ "abcdefghij klm nop"|truncate(9, true) }} {{ "abcdefghij klm nop"|truncate(9, false, "…", 0) }} {{ "short"|truncate(5) }}
{{ "ab"|center(7) }}|{{ "abc"|center(6) }}|{{ "ab"|center(1) }}|
{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|safe|escape }} {{ html|forceescape }} {{ html|escape|escape }} {{ [html]|e }} {{ 5|e }}
{{ (html|safe) + "<b>" }} {{ "<b>" + (html|safe) }} {{ (html|safe) ~ "<b>" }} {{ (html|safe)|upper }} {{ (html|safe) is escaped }} {{ [("x"|safe)] }} {{ ("a<"|safe).strip() is escaped }}
{{ ("a"|safe) is string }} {{ ("a"|safe) == "a" }} {{ "a" in ("abc"|safe) }} {{ ("a"|safe) * 2 }} {{ ("ab"|safe)[0] }}
{{ "%s %s" % ("a", 1) }} {{ "%d%%" % 5 }} {{ "%5d|%-5d|%05d" % (1, 2, 3) }} {{ "%.2f" % 3.14159 }} {{ "%5.1f|" % 2.25 }} {{ "%x %X %o" % (255, 255, 8) }} {{ "%r" % "a" }} {{ "%s" % [1] }} {{ "%(a)s-%(b)d" % {"a": 1, "b": 2} }} {{ "%e" % 12345.678 }} {{ "%g" % 0.0001 }} {{ "%+d % d" % (3, 4) }} {{ "%s" % none }} {{ "%.2s|" % "abc" }} {{ "%5s|%-5s|" % ("a", "b") }} {{ "%c" % "x" }} {{ "%#x" % 255 }} {{ "%d" % 3.9 }}
{{ "%s %s" % "a" }}
{{ "%s" % (1, 2) }}
{{ "%d" % "a" }}
{{ "%f" % "a" }}
{{ "%q" % 1 }}
{{ "%" % 1 }}
{{ "%(a)s" % 1 }}
{{ "%(a)s" % {"b": 1} }}
{{ "%s, %s!"|format("Hello", "x") }} {{ "%(a)s"|format(a=5) }}
{{ d|tojson }} {{ l|tojson }} {{ html|tojson }} {{ u|tojson }} {{ none|tojson }} {{ true|tojson }} {{ 1.0|tojson }} {{ "a\n\t\"\\/\x01\x7f\u2028"|tojson }} {{ (1, 2)|tojson }} {{ {}|tojson }} {{ []|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {"a": []}|tojson(indent=2) }} {{ {"a": {}}|tojson(indent="--") }} {{ l|tojson(indent=0) }}
{{ d|tojson(separators=(",", ":")) }} {{ d|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} {{ "\x7f\x80"|tojson(ensure_ascii=true) }} {{ d|tojson(ensure_ascii=false, indent=1, separators=(",", ":")) }}
{{ range|tojson }}
{{ (l|map("string"))|tojson }}
{{ {(1,): 2}|tojson }}
{{ d.items()|tojson }}
{{ (l|map("string"))|list|tojson }} {{ 1e400|tojson }} {{ -1e400|tojson }}
{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ true is integer }} {{ 1 is integer }} {{ 1.0 is float }} {{ "a" is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ (l|map("int")) is sequence }} {{ (l|map("int")) is iterable }} {{ 5 is iterable }} {{ none is iterable }} {{ missing is iterable }} {{ range(3) is sequence }} {{ d.items() is sequence }} {{ d.items() is iterable }}
{{ none is none }} {{ missing is none }} {{ missing is undefined }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ true is boolean }} {{ 0 is boolean }} {{ range is callable }} {{ s.upper is callable }} {{ 5 is callable }}
{{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge(2) }} {{ 1 is in [1] }} {{ "a" is in "abc" }} {{ "abc" is lower }} {{ "ABC" is upper }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ "upper" is filter }} {{ "nosuch" is filter }} {{ "odd" is test }}
{{ 3 is not even }} {{ missing is not defined }} {{ not missing is defined }} {{ 1 is not none and 2 is defined }} {{ 5 is divisibleby 5 and true }} {{ s is string and s|length > 3 }}
{{ "a" is even }}
{{ none is divisibleby 2 }}
{{ "a" if t }}|{{ "a" if f }}|{{ "a" if f else "b" }}|{{ "a" if f else "b" if f else "c" }}|{{ ("x" if f) is defined }}
{{ ("x" if f).y }}
{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or "" }} {{ "" or "x" }} {{ none or false }} {{ 1 or missing.x }} {{ t and not f }} {{ [] or {} }} {{ not [] }}
{{ "a" "b" 'c' }} {{ "it's" }} {{ 'say "x"' }} {{ "tab\tnl\nq\"\\ \x41 \u00e9 \101 \q" }}
{{ "a" ~ 1 ~ none ~ 1.5 ~ [1] ~ missing }} {{ 1 ~ 2 + 3 }} {{ "a" ~ "b" * 2 }} {{ 1 + 2 ~ 3 }}
{% set a = 1 %}{% for k in l %}{% set a = k %}{{ a }}{% endfor %}{{ a }}
{% for k in l %}{% if loop.first %}{% set z = 9 %}{% endif %}{{ z }}{% endfor %}{{ z }}
{% set q = 1 %}{% for k in l %}{{ q }}{% set q = q + 1 %}{{ q }}{% endfor %}{{ q }}
{% if t %}{% set w = 1 %}{% endif %}{{ w }}{% if f %}{% set v = 1 %}{% endif %}{{ v is defined }}
{% set ns = namespace(a=1, b="x") %}{% for k in l %}{% set ns.a = ns.a + k %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}
{% set ns = namespace({"p": 1}, q=2) %}{{ ns.p }}{{ ns.q }}{{ ns["p"] }} {{ namespace(a=1) }}
{% set ns = namespace() %}{{ ns.x.y }}
{% set ns = {"a": 1} %}{% set ns.a = 2 %}
{% set missing.a = 2 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, e) = [3, 4] %}{{ c }}{{ e }}{% set a, b = "xy" %}{{ a }}{{ b }}{% set k = 1, 2 %}{{ k }}
{% set a, b = [1] %}
{% set a, b = [1, 2, 3] %}
{% set a, b = 5 %}
{% for a, b in [1, 2] %}{% endfor %}
{% for a, b in d.items() %}{{ a }}={{ b }};{% endfor %}{% for a in d %}{{ a }}{% endfor %}{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a in 5 %}{% endfor %}
{% for a in none %}{% endfor %}
{% for c in "añ🙂" %}[{{ c }}]{% endfor %}
{% for k in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle("a", "b") }};{% endfor %}
{% for k in l %}{{ loop.previtem.x }}{% endfor %}
{% for k in l %}{{ loop.nosuch }}{% endfor %}
{% for k in l %}{{ loop.nosuch.x }}{% endfor %}
{% for k in [1, 1, 2, 2] %}{{ loop.changed(k) }} {% endfor %}{% for k in l %}{{ loop }}{% endfor %}
{% for k in l %}{{ loop.cycle() }}{% endfor %}
{% for k in l if k > 1 %}{{ k }}{{ loop.index }}{{ loop.length }}{{ loop.last }};{% else %}none{% endfor %}{% for k in l if k > 5 %}x{% else %}none{% endfor %}
{% for k in l %}{% for m in el %}x{% else %}e{{ k }}{% endfor %}{% endfor %}{% for a in l %}{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% for k in range(9) %}{% if k == 2 %}{% continue %}{% endif %}{% if k == 5 %}{% break %}{% endif %}{{ k }}{% else %}never{% endfor %}
{% for n in [{"v": 1, "c": [{"v": 2, "c": []}]}, {"v": 3, "c": []}] recursive %}{{ n.v }}@{{ loop.depth }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for k in l %}{{ loop([1]) }}{% endfor %}
{% macro m(a, b=2, c="x") %}{{ a }}{{ b }}{{ c }}|{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c="z") }}{{ m(b=3, a=4) }}{{ m() }}{{ m }}{{ m.name }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}{% macro r(k) %}{{ k }}{% if k > 0 %}{{ r(k - 1) }}{% endif %}{% endmacro %}{{ r(3) }}{{ m(1)|upper }}{{ (m(1) ~ "x") is string }}
{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 2 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}{% set g = 5 %}{{ m() }}
{% for k in l %}{% macro m() %}{{ k }}{{ loop is defined }}{% endmacro %}{{ m() }}{% endfor %}
{% set b %}<{{ s }}>{% endset %}{{ b }}{{ b|length }}{% set b | upper | replace("L", "1") %}{{ s }}{% endset %}{{ b }}
{% filter upper %}a{{ s }}{% endfilter %}{% filter replace("a", "b")|upper %}banana{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with %}{% set q = 1 %}{% endwith %}{{ q is defined }}{% set a = 5 %}{% with a = 6, b = a %}{{ a }}{{ b }}{% endwith %}
{% raw %}{{ x }}{% if %}{% endraw %}{# comment {{ x }} #}|{%- raw -%} a {%- endraw -%} |
  {% if t %}\n  yes\n  {% endif %}\nend\n
a\n  {%- if t %}  b  {%- endif %}  c\n
a {{- " b " -}} c {{ "d" }}\n\n{{ "e" }}\n  {# c #}\nf
x\n  {%+ if t %}y{% endif +%}\nz
{% if t -%}\n\n  a\n{%- endif %}\n\n\nb
\r\n{{ 1 }}\r\nb\r
{% if f %}a{% elif t %}b{% else %}c{% endif %}{% if f %}a{% elif f %}b{% else %}c{% endif %}{% if missing %}a{% endif %}{% if 1, 2 %}t{% endif %}
{% print 5, 6 %}{{ 1, 2 }}{{ (1) }}
{{ dict(a=1, b=2) }} {{ dict([("x", 1)]) }} {{ dict({"a": 1}, b=2) }} {{ dict() }}
{{ dict(5) }}
{{ raise_exception("boom " ~ 1) }}
{{ raise_exception() }}
{{ strftime_now("%Y-%m-%d %H:%M:%S %d %b %B %a %A %j %y %I %p %% %-d %e %F %T %w %u") }}
{{ strftime_now(5) }}
{{ nosuch(1) }}
{{ s() }}
{{ l() }}
{{ d.a() }}
{{ none() }}
{{ s.upper(1) }}
{{ s|upper(1) }}
{{ s|replace }}
{{ s|default(1, 2, 3) }}
{{ l|join(q=1) }}
{{ s|nosuch }}
{{ s is nosuch }}
{% if f %}{{ s|nosuch }}{% endif %}ok
{% if t %}{{ s|nosuch }}{% endif %}
{% if f %}{{ s is nosuch }}{% endif %}ok
{{ (s|nosuch) if f else "ok" }}
{% if f %}{% for k in l %}{{ k|nosuch }}{% endfor %}{% endif %}
{{ s
{{ s }
{% if t %}
{% endif %}
{% for x %}
{% for k in l %}{% endif %}
{% nosuch %}
{{ 1 + }}
{{ }}
{{ a b }}
{{ [1, 2 }}
{{ (1, 2] }}
{{ "abc }}
{{ @ }}
{% set 1 = 2 %}
{% set a.b.c = 2 %}
{# open
{% raw %} open
{{ f(a=1, 2) }}
{% macro m(a=1, b) %}{% endmacro %}
{{ s is string is string }}
{{ l.1x }}
{{ namespace(1) }}
{% set x = l if t %}{{ x }}{% set y = 1 if f %}{{ y is defined }}
{{ [1, 2,] }}{{ {"a": 1,} }}{{ (1,) }}{{ range(3,)|list }}
{{ range(*[1, 4])|list }} {{ dict(**{"a": 1}) }}
{{ items|map(attribute="n")|map("lower")|sort|join(",") }} {{ (items|selectattr("on")|list)[0].n }} {{ items[0].n ~ items[-1]["n"] }}
{{ l|attr("index") is defined }} {{ d|attr("a") is defined }} {{ s|attr("upper")() }}
{{ 9223372036854775807 }} {{ -9223372036854775807 }}
{{ s|trim|lower|replace(" ", "_") }} {{ s | length > 3 }} {{ -1|abs }} {{ 1 if 2 > 1 else 3 }} {{ not t or t }} {{ 2 * 3 + 4 * 5 }} {{ (2 + 3) * 4 }} {{ 10 - 2 - 3 }} {{ 2 + 3 ~ 4 * 2 }}
{{ "a\
b" }}
{{ loop is defined }}{{ caller is defined }}
{{ t is sameas true }} {{ 1.0 is integer }} {{ "1" is number }} {{ none is string }} {{ {} is iterable }} {{ namespace() is mapping }}
{{ u|truncate(6, true, "") }} {{ u.split("好") }} {{ u.replace("🙂", "x") }} {{ u.startswith("Grü") }} {{ u|list }} {{ u|sort|join }}
"""


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                          separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(form):
        import datetime
        return datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(form)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def main():
    env = environment()
    lines = TEMPLATES.strip("\n").replace("\\\nb", "\\\x00b").split("\n")
    cases = []
    for text in lines:
        text = text.replace("\x00", "\n")
        if '"' not in text.split("{")[0] and "{{ \"" not in text and "\\n" in text and \
                ("{%" in text or "{#" in text or "\\r" in text) and ".split" not in text:
            text = text.replace("\\n", "\n").replace("\\r", "\r")
        case = {"template": text}
        try:
            case["text"] = env.from_string(text).render(**VARS)
        except Exception as e:  # every kind of error is a result
            case["error"] = "%s: %s" % (type(e).__name__, e)
        cases.append(case)
    json.dump({"vars": VARS, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
