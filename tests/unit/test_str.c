/*
 * test_str.c - growing strings, human byte counts, log lines.
 */
#include "base/log.h"
#include "base/str.h"
#include "unit/unit.h"

static void test_appends(void **state)
{
    struct str s = {0};
    char want[5000];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 500; i++) {
        str_printf(&s, "%d,", i);
        n += (size_t)snprintf(want + n, sizeof want - n, "%d,", i);
    }
    assert_true(str_ok(&s));
    assert_string_equal(s.data, want);
    assert_int_equal(s.len, n);
    str_clear(&s);
    assert_int_equal(s.len, 0);
    assert_string_equal(s.data, "");
    str_put(&s, "ab");
    str_putn(&s, "c\0d", 3);
    assert_true(str_ok(&s));
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "abc\0d", 6);
    str_free(&s);
    assert_null(s.data);
    str_free(&s);
    str_free(NULL);
}

/* Lengths around every doubling, so that the terminator always fits. */
static void test_borders(void **state)
{
    (void)state;
    for (size_t n = 0; n < 300; n++) {
        struct str s = {0};
        str_printf(&s, "%*s", (int)n, "");
        assert_true(str_ok(&s));
        str_put(&s, "");
        assert_int_equal(strlen(s.data), n);
        str_free(&s);
    }
}

static void test_bytes(void **state)
{
    static const struct {
        uint64_t n;
        const char *want;
    } rows[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1.00 KB"},
        {9994, "9.99 KB"},
        {9995, "10.0 KB"},
        {99949, "99.9 KB"},
        {99950, "100 KB"},
        {999499, "999 KB"},
        {999500, "1.00 MB"},
        {98400000, "98.4 MB"},
        {5950000000, "5.95 GB"},
        {UINT64_MAX, "18.4 EB"},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct str s = {0};
        str_put_bytes(&s, rows[i].n);
        assert_true(str_ok(&s));
        if (strcmp(s.data, rows[i].want) != 0)
            fail_msg("row %zu: %s, want %s", i, s.data, rows[i].want);
        str_free(&s);
    }
}

struct seen {
    int n;
    enum log_level level;
    char line[2000];
};

static void sink(void *ctx, enum log_level level, const char *line)
{
    struct seen *seen = ctx;

    seen->n++;
    seen->level = level;
    snprintf(seen->line, sizeof seen->line, "%s", line);
}

static void test_log(void **state)
{
    struct seen seen = {0};
    struct log log = {.level = LOG_WARN, .sink = sink, .ctx = &seen};
    char big[1500];

    (void)state;
    log_line(NULL, LOG_ERROR, "nobody listens");
    log_line(&log, LOG_INFO, "dropped");
    assert_int_equal(seen.n, 0);
    log_line(&log, LOG_WARN, "layer %d", 3);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.level, LOG_WARN);
    assert_string_equal(seen.line, "layer 3");
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    log_line(&log, LOG_ERROR, "%s", big); /* cut, not overrun */
    assert_int_equal(seen.n, 2);
    assert_int_equal(strlen(seen.line), 1023);
    log.sink = NULL;
    log_line(&log, LOG_ERROR, "no sink");
    assert_int_equal(seen.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
