/*
 * test_error.c - messages are whole, wrapped in order, and cut where a character ends.
 */
#include "base/error.h"
#include "unit/unit.h"

static void test_set_and_wrap(void **state)
{
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(err_set(&err, B2_EFORMAT, "row %d", 3), B2_EFORMAT);
    assert_string_equal(err.msg, "row 3");
    err_wrap(&err, "blk.%d.wq", 7);
    err_wrap(&err, "%s", "m.gguf");
    assert_string_equal(err.msg, "m.gguf: blk.7.wq: row 3");
    assert_int_equal(err.status, B2_EFORMAT);
}

/* A hostile file's names reach messages: no escape sequence and no second line. */
static void test_control_bytes(void **state)
{
    struct b2_err err = {0};

    (void)state;
    err_set(&err, B2_EUNSUP, "architecture %s", "x\x1b[2J\ny\x7f\xc3\xa9");
    assert_string_equal(err.msg, "architecture x?[2J?y?\xc3\xa9");
    err_wrap(&err, "%s", "a\rb");
    assert_string_equal(err.msg, "a?b: architecture x?[2J?y?\xc3\xa9");
}

static void test_null_is_fine(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, B2_EIO, "%s", "x"), B2_EIO);
    err_wrap(NULL, "x");
}

/* The cut keeps UTF-8 whole: é is two bytes, so one of the two lengths splits it. */
static void test_cut(void **state)
{
    char text[3 * B2_ERR_MAX];

    (void)state;
    for (size_t shift = 0; shift < 2; shift++) {
        struct b2_err err = {0};
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xc3\xa9", 3);
        err_set(&err, B2_EIO, "%s", text);
        size_t n = strlen(err.msg);
        assert_true(n < sizeof err.msg && n > sizeof err.msg - 8);
        assert_string_equal(err.msg + n - 3, "\xe2\x80\xa6");
        assert_int_equal((n - 3 - shift) % 2, 0);
    }
}

static void test_wrap_of_long_texts(void **state)
{
    char text[2 * B2_ERR_MAX];
    struct b2_err err = {0};

    (void)state;
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err_set(&err, B2_EIO, "%s", text);
    err_wrap(&err, "file");
    assert_int_equal(strncmp(err.msg, "file: yyy", 9), 0);
    assert_true(strlen(err.msg) < sizeof err.msg);
    err_set(&err, B2_EIO, "short");
    err_wrap(&err, "%s", text); /* a context that leaves no room */
    assert_true(strlen(err.msg) < sizeof err.msg);
    assert_string_equal(err.msg + strlen(err.msg) - 3, "\xe2\x80\xa6");
}

static void test_names(void **state)
{
    (void)state;
    for (int s = B2_OK; s >= B2_EEXIST; s--)
        assert_string_not_equal(err_status_name((enum b2_status)s), "unknown status");
    assert_string_equal(err_status_name((enum b2_status)(B2_EEXIST - 1)),
                        "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_and_wrap), cmocka_unit_test(test_control_bytes),
        cmocka_unit_test(test_null_is_fine), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_wrap_of_long_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
