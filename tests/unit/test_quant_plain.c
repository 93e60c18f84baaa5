/*
 * test_quant_plain.c - numbers without blocks, and the checks of whole rows.
 */
#include "unit/quant_golden.h"

#include "tensor/f16.h"

#include <math.h>

static void test_decode(void **state)
{
    static const struct {
        enum dtype t;
        uint8_t bytes[8];
        float want;
    } cases[] = {
        {DT_F32, {0, 0, 0x80, 0x3f}, 1.0f},
        {DT_F16, {0x00, 0x3e}, 1.5f},
        {DT_BF16, {0xc0, 0xbf}, -1.5f},
        {DT_F64, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 1.5f},
        {DT_I8, {0xff}, -1.0f},
        {DT_I16, {0x00, 0x80}, -32768.0f},
        {DT_I32, {0xfe, 0xff, 0xff, 0xff}, -2.0f},
        {DT_I64, {0, 0, 0, 0, 1, 0, 0, 0}, 4294967296.0f},
        {DT_U8, {0xff}, 255.0f},
        {DT_BOOL, {7}, 1.0f},
        {DT_BOOL, {0}, 0.0f},
        {DT_F8_E4M3, {0x38}, 1.0f}, /* values of the OCP table */
        {DT_F8_E4M3, {0x7e}, 448.0f},
        {DT_F8_E4M3, {0x81}, -0.001953125f},
        {DT_F8_E4M3, {0x08}, 0.015625f},
        {DT_F8_E5M2, {0x3c}, 1.0f},
        {DT_F8_E5M2, {0x7b}, 57344.0f},
        {DT_F8_E5M2, {0x01}, 0.0000152587890625f},
    };
    float got;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        quant_decode_row(cases[i].t, &got, cases[i].bytes, 1);
        if (got != cases[i].want)
            fail_msg("case %d: got %a", (int)i, (double)got);
    }
    quant_decode_row(DT_F8_E4M3, &got, "\x7f", 1);
    assert_true(isnan(got));
    quant_decode_row(DT_F8_E5M2, &got, "\x7c", 1);
    assert_true(isinf(got));
}

/* F32 keeps every bit; F16 and BF16 round as f16.h says. */
static void test_encode(void **state)
{
    const float x[] = {1.0f, -0.0f, 0.1f, 1e-30f, 65504.0f};
    uint8_t out[20];
    float back[5];

    (void)state;
    quant_encode_row(DT_F32, out, x, 5);
    quant_decode_row(DT_F32, back, out, 5);
    assert_memory_equal(back, x, sizeof x);
    quant_encode_row(DT_F16, out, x, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(le_get16(out + 2 * i), f16_from_f32(x[i]));
    quant_encode_row(DT_BF16, out, x, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(le_get16(out + 2 * i), bf16_from_f32(x[i]));
}

static void test_check_row(void **state)
{
    float x[] = {1.0f, 2.0f, 3.0f};
    struct b2_err err = {0};
    int64_t col = -1;

    (void)state;
    assert_int_equal(quant_check_row(x, 3, &col, &err), B2_OK);
    x[2] = NAN;
    assert_int_equal(quant_check_row(x, 3, &col, &err), B2_EFORMAT);
    assert_int_equal(col, 2);
    assert_non_null(strstr(err.msg, "NaN"));
    x[1] = -INFINITY;
    assert_int_equal(quant_check_row(x, 3, NULL, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "column 1 is infinite"));
}

static void test_verify(void **state)
{
    const float x[] = {1.0f, 2.0f, NAN};
    uint8_t row[3 * 34] = {0};
    const char *what = NULL;

    (void)state;
    assert_int_equal(quant_verify_row(DT_F32, x, 2, NULL), -1);
    assert_int_equal(quant_verify_row(DT_F32, x, 3, &what), 2);
    assert_non_null(what);
    assert_int_equal(quant_verify_row(DT_I32, x, 3, &what), -1);
    le_put16(row + 34, 0x7e00);
    assert_int_equal(quant_verify_row(DT_Q8_0, row, 96, &what), 1);
    le_put16(row + 20 + 2, 0x7c00); /* the minimum of the second block */
    assert_int_equal(quant_verify_row(DT_Q4_1, row, 64, &what), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_check_row),
        cmocka_unit_test(test_verify),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
