/*
 * test_quant_k.c - reading of Q2_K to Q6_K against ggml and gguf-py.
 */
#include "unit/quant_golden.h"

static const enum dtype k_types[] = {DT_Q2_K, DT_Q3_K, DT_Q4_K, DT_Q5_K, DT_Q6_K};

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(k_types); i++)
        golden_check(k_types[i]);
}

/* An infinite scale field is found wherever the layout keeps it. */
static void test_verify(void **state)
{
    static const struct {
        enum dtype t;
        int at[2];
    } fields[] = {
        {DT_Q2_K, {80, 82}}, {DT_Q3_K, {108, 108}}, {DT_Q4_K, {0, 2}},
        {DT_Q5_K, {0, 2}},   {DT_Q6_K, {208, 208}},
    };

    (void)state;
    for (size_t i = 0; i < countof(fields); i++) {
        int bytes = dtype_info(fields[i].t)->bytes;
        for (int f = 0; f < 2; f++) {
            uint8_t row[3 * 210] = {0};
            const char *what = NULL;
            assert_int_equal(quant_verify_row(fields[i].t, row, 768, NULL), -1);
            le_put16(row + 2 * bytes + fields[i].at[f], 0xfc00);
            assert_int_equal(quant_verify_row(fields[i].t, row, 768, &what), 2);
            assert_non_null(strstr(what, "scale"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_verify),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
