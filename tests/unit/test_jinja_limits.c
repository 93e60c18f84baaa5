/*
 * test_jinja_limits.c - templates that would take all time, memory or stack.
 */
#include "text/jinja.h"
#include "unit/unit.h"

#include <time.h>

static enum b2_status run(const char *text, const struct jinja_limits *lim,
                          struct str *out, struct b2_err *err)
{
    struct jinja *t = NULL;
    struct jinja_vars *v = jinja_vars_new(1 << 20);
    enum b2_status rc = v ? jinja_parse(&t, text, strlen(text), err)
                          : err_set(err, B2_ENOMEM, "out of memory");

    if (rc == B2_OK)
        rc = jinja_render(t, v, lim, out, err);
    jinja_free(t);
    jinja_vars_free(v);
    return rc;
}

static void test_hostile(void **state)
{
    static const struct {
        const char *text;
        enum b2_status want; /* or B2_ENOMEM */
        const char *says;
    } cases[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor "
         "%}",
         B2_EUNSUP, "steps"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", B2_EUNSUP, "nested"},
        {"{% macro m(a) %}{{ m([a]) }}{% endmacro %}{{ m(1) }}", B2_EUNSUP, "nested"},
        {"{% for n in [1] recursive %}{{ loop([1]) }}{% endfor %}", B2_EUNSUP,
         "nested"},
        {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + "
         "ns.s "
         "%}{% endfor %}",
         B2_ENOMEM, "memory"},
        {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ "
         "ns.s "
         "%}{% endfor %}",
         B2_EUNSUP, "output"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, "
         "ns.l] "
         "%}{% endfor %}{{ ns.l }}",
         B2_EUNSUP, ""},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, "
         "ns.l] "
         "%}{% endfor %}{{ ns.l == ns.l and [ns.l] == [ns.l] }}{{ ns.l|tojson }}",
         B2_EUNSUP, ""},
        {"{% set ns = namespace(t=1) %}{% for i in range(5000) %}{% set ns.t = (ns.t,) "
         "%}"
         "{% endfor %}{{ {ns.t: 1} }}",
         B2_EUNSUP, "nested"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + "
         "ns.l "
         "%}{% endfor %}",
         B2_ENOMEM, "memory"},
        {"{{ 'x' * 999999999999 }}", B2_ENOMEM, "memory"},
        {"{{ [1] * 999999999999 }}", B2_ENOMEM, "memory"},
        {"{{ ('x' * 60000000).replace('x', 'yyyy') }}", B2_EUNSUP, ""},
        {"{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * "
         "999 "
         "}}{% endfor %}",
         B2_EUNSUP, ""},
        {"{{ '%999999999d' % 1 }}", B2_EUNSUP, "width"},
        {"{{ 'x'|center(99999999999) }}", B2_EUNSUP, "output"},
        {"{{ range(100000)|list|sort|length }}{{ range(999999) }}", B2_EARG,
         "Overflow"},
        {"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", B2_EUNSUP, "nested"},
    };
    const struct jinja_limits lim = {.max_memory = 128 << 20};

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct str out = {0};
        struct b2_err err = {0};
        clock_t before = clock();
        enum b2_status rc = run(cases[i].text, &lim, &out, &err);
        double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
        str_free(&out);
        if ((rc != cases[i].want && rc != B2_ENOMEM) ||
            (rc == cases[i].want && !strstr(err.msg, cases[i].says)) || seconds > 30)
            fail_msg("row %zu: %d %s, %.1f s", i, rc, err.msg, seconds);
    }
}

/* Brackets, statements and operators nested thousands deep. */
static void test_deep_templates(void **state)
{
    static const struct {
        const char *open, *middle, *close;
    } cases[] = {
        {"(", "1", ")"},        {"[", "1", "]"},           {"{1:", "1", "}"},
        {"-", "1", ""},         {"not ", "1", ""},         {"a[", "1", "]"},
        {"a(", "1", ")"},       {"1 if 1 else ", "1", ""}, {"1|d(", "1", ")"},
        {"1 + ", "1", ""},      {"1 ~ ", "1", ""},         {"1 and ", "1", ""},
        {"1 is in ", "[]", ""}, {"a.", "b", ""},
    };
    enum { DEEP = 20000 };

    (void)state;
    for (size_t i = 0; i < countof(cases) + 1; i++) {
        struct str text = {0}, out = {0};
        struct b2_err err = {0};
        bool block = i == countof(cases);
        str_put(&text, block ? "" : "{{ ");
        for (int k = 0; k < DEEP; k++)
            str_put(&text, block ? "{% if 1 %}" : cases[i].open);
        str_put(&text, block ? "x" : cases[i].middle);
        for (int k = 0; k < DEEP; k++)
            str_put(&text, block ? "{% endif %}" : cases[i].close);
        str_put(&text, block ? "" : " }}");
        enum b2_status rc =
            str_ok(&text) ? run(text.data, NULL, &out, &err) : B2_ENOMEM;
        str_free(&text);
        str_free(&out);
        if (rc && err.msg[0] == '\0' && rc != B2_ENOMEM)
            fail_msg("row %zu: %d without a message", i, rc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_deep_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
