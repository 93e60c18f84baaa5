/*
 * test_reader.c - a cursor never leaves its bytes and stays stopped once it stopped.
 */
#include "base/reader.h"
#include "unit/unit.h"

static void test_short_reads(void **state)
{
    static const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const struct {
        size_t size; /* bytes the cursor may see */
        uint64_t want;
        bool ok;
        size_t pos;
    } rows[] = {
        {0, 0, false, 0},
        {7, 0, false, 0}, /* one byte short: nothing is consumed */
        {8, 0x0807060504030201, true, 8},
        {9, 0x0807060504030201, true, 8},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct rd r = rd_make(data, rows[i].size);
        ROW_CHECK(i, rd_u64(&r) == rows[i].want);
        ROW_CHECK(i, r.ok == rows[i].ok && r.pos == rows[i].pos);
        ROW_CHECK(i, rd_bytes(&r, UINT64_MAX) == NULL && !r.ok); /* no wrap-around */
        ROW_CHECK(i, rd_u64(&r) == 0 && r.pos == rows[i].pos);   /* stays stopped */
    }
}

static void test_values(void **state)
{
    /* 0xfe; 0x1234; 0x89abcdef; -2.5f; 1e100 by Python's struct.pack("<...") */
    static const uint8_t data[] = {0xfe, 0x34, 0x12, 0xef, 0xcd, 0xab, 0x89,
                                   0x00, 0x00, 0x20, 0xc0, 0x7d, 0xc3, 0x94,
                                   0x25, 0xad, 0x49, 0xb2, 0x54};
    struct rd r = rd_make(data, sizeof data);

    (void)state;
    assert_int_equal(rd_u8(&r), 0xfe);
    assert_int_equal(rd_u16(&r), 0x1234);
    assert_int_equal(rd_u32(&r), 0x89abcdef);
    assert_true(rd_f32(&r) == -2.5f);
    assert_true(rd_f64(&r) == 1e100);
    assert_true(r.ok);
    assert_int_equal(rd_left(&r), 0);
    assert_non_null(rd_bytes(&r, 0)); /* nothing may be taken at the end */
    assert_int_equal(rd_u8(&r), 0);
    assert_false(r.ok);
}

static void test_empty(void **state)
{
    struct rd r = rd_make(NULL, 0);

    (void)state;
    assert_non_null(rd_bytes(&r, 0));
    assert_true(r.ok);
    assert_true(rd_f32(&r) == 0.0f && !r.ok);
    assert_null(rd_bytes(&r, 0)); /* not even nothing, once it stopped */
}

static void test_put_and_get(void **state)
{
    uint8_t b[9] = {0};

    (void)state;
    le_put64(b + 1, 0xf123456789abcdef);
    assert_true(le_get64(b + 1) == 0xf123456789abcdef);
    assert_int_equal(b[1], 0xef);
    le_put32(b, 0xdeadbeef);
    assert_int_equal(le_get32(b), 0xdeadbeef);
    le_put16(b + 3, 0x8001);
    assert_int_equal(le_get16(b + 3), 0x8001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_reads),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_put_and_get),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
