/*
 * test_jinja.c - the template interpreter's builder, limits and errors.
 *
 * What templates mean is tested against Jinja2 in test_chat.c. This file is also run with
 * failing allocations (tests/oom), so each case cleans up before it asserts.
 */
#include "text/jinja.h"
#include "unit/unit.h"

/* Renders text with a few variables; the result is in out, the status comes back. */
static enum b2_status run(const char *text, const struct jinja_limits *lim,
                          struct str *out, struct b2_err *err)
{
    struct jinja *t = NULL;
    struct jinja_vars *v = jinja_vars_new(1 << 20);
    enum b2_status rc = v ? jinja_parse(&t, text, strlen(text), err)
                          : err_set(err, B2_ENOMEM, "out of memory");

    if (rc == B2_OK) {
        struct jval list = jinja_list(v), dict = jinja_dict(v);
        jinja_list_add(v, list, jinja_int(3));
        jinja_list_add(v, list, jinja_float(1.5));
        jinja_list_add(v, list,
                       jinja_str(v,
                                 "a\xff"
                                 "b",
                                 3));
        jinja_dict_set(v, dict, "k", 1, jinja_bool(true));
        jinja_dict_set(v, dict, "l", 1, list);
        jinja_dict_set(v, dict, "k", 1, jinja_none());
        for (int i = 0; i < 40; i++) { /* more than the small table holds */
            char key[8];
            int n = snprintf(key, sizeof key, "x%d", i);
            jinja_dict_set(v, dict, key, (size_t)n, jinja_int(i));
        }
        jinja_set(v, "l", list);
        jinja_set(v, "d", dict);
        rc = jinja_render(t, v, lim, out, err);
    }
    jinja_free(t);
    jinja_vars_free(v);
    return rc;
}

static void test_builder(void **state)
{
    struct str out = {0};
    struct b2_err err = {0};
    enum b2_status rc =
        run("{{ l }}|{{ d.k }}|{{ d['l'][0] }}|{{ d.x39 }}|{{ d|length }}|"
            "{{ d.x40 is defined }}|{% for k in d if k == 'x7' %}{{ d[k] }}"
            "{% endfor %}|{{ d|tojson|length > 100 }}",
            NULL, &out, &err);
    bool same = rc == B2_OK && str_ok(&out) &&
                strcmp(out.data, "[3, 1.5, 'a\xef\xbf\xbd"
                                 "b']|None|3|39|42|False|7|True") == 0;

    (void)state;
    if (!same)
        printf("%d %s %s\n", rc, err.msg, out.data ? out.data : "");
    str_free(&out);
    assert_true(same);
}

/* A failed rendering leaves the output alone. */
static void test_output_kept(void **state)
{
    struct str out = {0};
    struct b2_err err = {0};

    (void)state;
    str_put(&out, "before ");
    enum b2_status bad = run("text {{ missing.x }}", NULL, &out, &err);
    bool kept = str_ok(&out) && strcmp(out.data, "before ") == 0;
    enum b2_status good = run("after", NULL, &out, NULL);
    bool added = str_ok(&out) && strcmp(out.data, "before after") == 0;
    str_free(&out);
    assert_int_equal(bad, B2_EARG);
    assert_string_equal(err.msg, "UndefinedError: 'missing' is undefined");
    assert_true(kept);
    assert_int_equal(good, B2_OK);
    assert_true(added);
}

/* Every limit can be set; the smallest ones stop at once. */
static void test_small_limits(void **state)
{
    static const struct {
        struct jinja_limits lim;
        const char *says;
    } cases[] = {
        {{.max_steps = 20}, "steps"},
        {{.max_output = 10}, "output"},
        {{.max_memory = 256}, "memory"},
        {{.max_depth = 4}, "nested"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct str out = {0};
        struct b2_err err = {0};
        enum b2_status rc =
            run("{% for a in [1, 2, 3] %}{{ 'abc' ~ (a + 1) ~ [a, [a]] }}"
                "{% endfor %}",
                &cases[i].lim, &out, &err);
        str_free(&out);
        if (rc != B2_ENOMEM && (rc != B2_EUNSUP || !strstr(err.msg, cases[i].says)))
            fail_msg("row %zu: %d %s", i, rc, err.msg);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        enum b2_status want;
        const char *says;
    } cases[] = {
        {"{% include 'x' %}", B2_EUNSUP, "'include' is not supported"},
        {"{% import 'x' as y %}", B2_EUNSUP, "'import'"},
        {"{% extends 'x' %}", B2_EUNSUP, "'extends'"},
        {"a\nb{% nosuch %}", B2_EFORMAT, "unknown tag 'nosuch'., line 2"},
        {"\xff", B2_EFORMAT, "UTF-8"},
        {"{{ 99999999999999999999 }}", B2_EFORMAT, "64 bits"},
        {"{{ 'abc'.format(1) }}", B2_EARG, "str.format() is not supported"},
        {"{{ 9223372036854775807 + 1 }}", B2_EARG, "OverflowError"},
        {"{{ 10 ** 30 }}", B2_EARG, "OverflowError"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct str out = {0};
        struct b2_err err = {0};
        enum b2_status rc = run(cases[i].text, NULL, &out, &err);
        str_free(&out);
        if (rc != B2_ENOMEM && (rc != cases[i].want || !strstr(err.msg, cases[i].says)))
            fail_msg("row %zu: %d %s", i, rc, err.msg);
    }
}

/* Many features at once, for the runs with failing allocations. */
static void test_everything(void **state)
{
    static const char text[] =
        "{%- macro m(a, b='x') %}{{ a ~ b|upper }}{% endmacro -%}"
        "{% set ns = namespace(n=0) %}{% for k, v in d.items() if v is number %}"
        "{% set ns.n = ns.n + v %}{{ loop.index }}{% endfor %}{{ m(ns.n, "
        "b='é'.upper()) }}"
        "{{ l|map('string')|join(',') }}{{ 'a b "
        "c'.split()|reverse|list|tojson(indent=1) }}"
        "{{ '%s-%05.1f' % ('q', 2.25) }}{% set s %}{{ 'abc'[::-1] }}{% endset %}{{ s }}"
        "{{ strftime_now('%Y-%m-%d') }}{{ {'b': 1, 'a': [none, true]}|dictsort }}"
        "{{ [3, 1, 2]|sort(reverse=true) }}{{ (l|first, l|last) }}{{ 'x' if false }}"
        "{% filter replace('a', 'b') %}banana{% endfilter %}{{ '<'|e }}{{ 'aXb'|title "
        "}}"
        "{{ d['nope'] is defined }}{{ 'a,b'.rsplit(',', 1) }}{{ range(3)|list }}";
    static const char want[] =
        "123456789101112131415161718192021222324252627282930313233343536373839"
        "40780\xc3\x89"
        "3,1.5,a\xef\xbf\xbd"
        "b[\n \"c\",\n \"b\",\n \"a\"\n]q-002.2cba"
        "2026-01-02[('a', [None, True]), ('b', 1)][3, 2, 1](3, 'a\xef\xbf\xbd"
        "b')bbnbnb"
        "&lt;AxbFalse['a', 'b'][0, 1, 2]";
    const struct jinja_limits lim = {.now_s = 1767323045};
    struct str out = {0};
    struct b2_err err = {0};
    enum b2_status rc = run(text, &lim, &out, &err);
    bool same = rc == B2_OK && str_ok(&out) && strcmp(out.data, want) == 0;

    (void)state;
    if (!same)
        printf("%d %s\n%s\n%s\n", rc, err.msg, out.data ? out.data : "", want);
    str_free(&out);
    assert_true(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builder),      cmocka_unit_test(test_everything),
        cmocka_unit_test(test_output_kept),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_small_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
