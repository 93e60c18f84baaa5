/*
 * test_utf8_width.c - clusters and columns, against what Unicode's annexes 11 and 29 say.
 */
#include "text/utf8.h"
#include "unit/unit.h"

static void test_clusters(void **state)
{
    static const struct {
        const char *text;
        size_t bytes; /* of the first cluster */
        int width;
    } cases[] = {
        {"a", 1, 1},
        {"ab", 1, 1},
        {"\n", 1, 0},
        {"\xc3\xa9", 2, 1},                          /* é in one code point */
        {"e\xcc\x81x", 3, 1},                        /* e and an accent */
        {"\xe4\xbd\xa0\xe5\xa5\xbd", 3, 2},          /* a Chinese character */
        {"\xef\xbc\xa1", 3, 2},                      /* a wide A */
        {"\xf0\x9f\x99\x82", 4, 2},                  /* a face */
        {"\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd!", 8, 2}, /* a thumb with a skin colour */
        {"\xe2\x9d\xa4\xef\xb8\x8f", 6, 2},          /* a heart as emoji */
        {"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 8, 2},  /* the flag of Germany */
        {"\xed\x95\x9c", 3, 2},                      /* a Korean syllable */
        {"\xff"
         "a",
         1, 1},             /* broken: U+FFFD */
        {"\xe4\xbd", 2, 1}, /* cut short */
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        int width = -1;
        size_t n = utf8_cluster(cases[i].text, strlen(cases[i].text), &width);
        if (n != cases[i].bytes || width != cases[i].width)
            fail_msg("row %zu: %zu bytes, width %d", i, n, width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clusters)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
