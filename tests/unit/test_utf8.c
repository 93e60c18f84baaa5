/*
 * test_utf8.c - UTF-8: every code point, and the ill-formed examples of the Unicode
 * standard (15.0, section 3.9, tables 3-8 to 3-11).
 */
#include "text/utf8.h"
#include "unit/unit.h"

#include <stdlib.h>

static void test_all_code_points(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char buf[4];
        size_t used = 0;
        if (cp >= 0xD800 && cp <= 0xDFFF)
            continue;
        int n = utf8_put(buf, cp);
        if (utf8_next(buf, (size_t)n, &used) != cp || used != (size_t)n ||
            !utf8_valid(buf, (size_t)n) || utf8_complete(buf, (size_t)n) != (size_t)n)
            fail_msg("U+%04X", cp);
        for (int cut = 1; cut < n; cut++) /* a stream stopped inside the character */
            if (utf8_complete(buf, (size_t)cut) != 0 || utf8_valid(buf, (size_t)cut))
                fail_msg("U+%04X cut to %d", cp, cut);
    }
}

static void test_put_replaces(void **state)
{
    static const uint32_t bad[] = {0xD800, 0xDFFF, 0x110000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < countof(bad); i++) {
        char buf[4];
        assert_int_equal(utf8_put(buf, bad[i]), 3);
        assert_memory_equal(buf, "\xEF\xBF\xBD", 3);
    }
}

/* Lengths of the pieces that utf8_next takes; negative: U+FFFD. */
static void test_ill_formed(void **state)
{
    static const struct {
        const char *text;
        int used[10];
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", {-1, -1, -1, -1, -1, -1, -1, -1, 1}},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", {-1, -1, -1, -1, -1, -1, -1, -1, 1}},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {-1, -1, -1, -1, -1, 1, -1, -1, 1}},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {-2, -1, -3, -2, 1}},
        {"\xE2\x82", {-2}},
        {"a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x81", {1, 2, 3, 4}},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        const char *s = cases[i].text;
        size_t left = strlen(s);
        for (int k = 0; left > 0; k++) {
            size_t used = 0;
            uint32_t cp = utf8_next(s, left, &used);
            ROW_CHECK(i, (int)used == abs(cases[i].used[k]));
            ROW_CHECK(i, (cp == 0xFFFD) == (cases[i].used[k] < 0));
            s += used;
            left -= used;
        }
    }
}

/* What may be printed of a stream that stops here. */
static void test_hold_back(void **state)
{
    static const struct {
        const char *text;
        size_t want;
    } cases[] = {
        {"", 0},
        {"a", 1},
        {" \xF0\x9F\x98", 1},     /* the first three bytes of an emoji */
        {" \xF0\x9F\x98\x81", 5}, /* and the fourth */
        {"a\xE2", 1},
        {"\xE2\x82\xAC", 3},
        {"a\xFF", 2}, /* nothing can complete it */
        {"a\xC0", 2},
        {"a\xE0\x80", 3},        /* overlong: cannot become valid */
        {"a\xED\xA0", 3},        /* a surrogate */
        {"\x80\x80\x80\x80", 4}, /* continuation bytes only */
        {"\xC3\xA4\x80", 3},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        ROW_CHECK(i,
                  utf8_complete(cases[i].text, strlen(cases[i].text)) == cases[i].want);
}

static void test_spaces(void **state)
{
    int n = 0;

    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++)
        n += utf8_is_space(cp);
    assert_int_equal(n, 25);
    assert_false(utf8_is_space(0x180E)); /* since Unicode 6.3 */
    assert_false(utf8_is_space(0x200B));
    assert_true(utf8_is_space(0x85) && utf8_is_space(0x3000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_code_points), cmocka_unit_test(test_put_replaces),
        cmocka_unit_test(test_ill_formed),      cmocka_unit_test(test_hold_back),
        cmocka_unit_test(test_spaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
