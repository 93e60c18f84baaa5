/*
 * test_think.c - thinking in a stream, cut at every place.
 */
#include "base/str.h"
#include "cli/think.h"
#include "unit/unit.h"

static struct str shown; /* put() has no context: there is one standard output */

static bool put(const char *s, size_t n)
{
    str_putn(&shown, s, n);
    return true;
}

static void test_every_cut(void **state)
{
    static const struct {
        bool hide, color, inside;
        const char *text, *want;
    } cases[] = {
        {false, false, false, "plain < text <", "plain < text <"},
        {false, false, false, "<think>\nhm\n</think>\n\nHello",
         "<think>\nhm\n</think>\n\nHello"},
        {false, true, false, "<think>\nhm\n</think>\n\nHello",
         "\033[2mhm\n\033[0m\n\nHello"},
        {true, true, false, "<think>\nhm\n</think>\n\nHello", "Hello"},
        {true, false, false, "a<think>x<b</think>b", "ab"},
        {true, false, true, "hm</think>\n\nHello", "Hello"},
        {false, true, true, "\nhm</think>Hello", "\033[2mhm\033[0m\n\nHello"},
        {false, true, true, "never ends <", "\033[2mnever ends <\033[0m"},
        {true, false, true, "never ends", ""},
        {true, false, false, "<<think>x</think><thin", "<<thin"},
        {true, false, false, "</think>x", "</think>x"},
        {false, false, false, "<thin<think>", "<thin<think>"},
        {true, false, false, "1<think>2</think>3<think>4</think>5", "135"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        size_t n = strlen(cases[i].text);
        for (size_t cut = 0; cut <= n; cut++) {
            struct think t = {
                .hide = cases[i].hide, .color = cases[i].color, .put = put};
            str_clear(&shown);
            str_put(&shown, "");
            think_start(&t, cases[i].inside);
            bool ok = think_put(&t, cases[i].text, cut) &&
                      think_put(&t, cases[i].text + cut, n - cut) && think_end(&t);
            if (!ok || strcmp(shown.data, cases[i].want) != 0)
                fail_msg("row %zu cut at %zu: \"%s\"", i, cut, shown.data);
        }
    }
    str_free(&shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cut)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
