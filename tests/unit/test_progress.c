/*
 * test_progress.c - what is printed, and how seldom.
 */
#include "base/progress.h"
#include "unit/unit.h"

/* Reads what was printed; true when want is in it. */
static bool printed(FILE *f, char *text, size_t size, const char *want)
{
    rewind(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    return strstr(text, want) != NULL;
}

static void test_log(void **state)
{
    char text[2000];
    FILE *f = tmpfile();

    (void)state;
    assert_non_null(f);
    struct progress p = progress_start(f, false, "compress", "error", 1000);
    for (uint64_t i = 1; i < 1000; i++)
        progress_update(&p, i, 0.5); /* under 30 s: silent */
    assert_false(printed(f, text, sizeof text, "compress"));
    p.last_s -= 31.0;
    p.start_s -= 31.0;
    progress_update(&p, 250, 0.25);
    assert_true(printed(f, text, sizeof text,
                        "compress  25%  error 0.2500  31 s, 93 s left\n"));
    progress_update(&p, 1000, 0.125);
    assert_true(printed(f, text, sizeof text, "compress 100%  error 0.1250  31 s\n"));
    assert_false(printed(f, text, sizeof text, "\r"));
    fclose(f);
}

static void test_terminal(void **state)
{
    char text[2000];
    FILE *f = tmpfile();

    (void)state;
    assert_non_null(f);
    struct progress p = progress_start(f, true, "load", NULL, 4);
    bool open = false;
    p.open = &open;
    p.last_s -= 1.0;
    progress_update(&p, 0, 0.0); /* nothing done yet: no time left to tell from */
    assert_true(printed(f, text, sizeof text, "\r\033[Kload   0%  0 s, 0 s left"));
    assert_false(printed(f, text, sizeof text, "\n"));
    assert_true(open);
    progress_update(&p, 1, 0.0); /* too soon */
    assert_false(printed(f, text, sizeof text, "25%"));
    progress_update(&p, 5, 0.0); /* more than all is all */
    assert_true(printed(f, text, sizeof text, "\r\033[Kload 100%  0 s\n"));
    assert_false(open);
    fclose(f);
}

static void test_silent(void **state)
{
    struct progress p = progress_start(NULL, true, "x", NULL, 1);
    FILE *f = tmpfile();
    char text[100];

    (void)state;
    progress_update(&p, 1, 0.0);
    progress_update(NULL, 1, 0.0);
    assert_non_null(f);
    p = progress_start(f, false, "x", NULL, 0); /* no work, no division by it */
    progress_update(&p, 0, 0.0);
    assert_false(printed(f, text, sizeof text, "x"));
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_silent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
