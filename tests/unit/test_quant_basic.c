/*
 * test_quant_basic.c - Q4_0 to Q8_0 against ggml, and their special groups.
 */
#include "unit/quant_golden.h"

#include <math.h>

static const enum dtype basic[] = {DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0};

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(basic); i++)
        golden_check(basic[i]);
}

/* Zeros, underflow and overflow of the FP16 fields: zeros, zeros, and finite values. */
static void test_special_groups(void **state)
{
    static const float tiny[] = {0.0f, 1e-30f, -1e-30f, 1e-39f, -1e-45f};
    static const float huge[] = {2e7f, -2e7f, 3e38f, -3e38f};

    (void)state;
    for (size_t i = 0; i < countof(basic); i++) {
        for (size_t v = 0; v < countof(tiny); v++) {
            if (golden_fill(basic[i], tiny[v]) != 0.0f)
                fail_msg("%s: %a is not 0", dtype_info(basic[i])->name,
                         (double)tiny[v]);
        }
        for (size_t v = 0; v < countof(huge); v++) {
            float x[32], got = golden_fill(basic[i], huge[v]);
            for (int k = 0; k < 32; k++)
                x[k] = huge[v];
            assert_true(isfinite(got) && !signbit(got) == !signbit(huge[v]));
            assert_false(quant_scale_fits(basic[i], x, 32, NULL));
        }
    }
}

/* A group that spans the whole range of F32 keeps its signs and stays finite. */
static void test_wide_group(void **state)
{
    float x[32], y[32];
    uint8_t block[34];

    (void)state;
    for (size_t i = 0; i < countof(basic); i++) {
        for (int k = 0; k < 32; k++)
            x[k] = k % 2 ? 3.4e38f : -3.4e38f;
        quant_encode_row(basic[i], block, x, 32);
        quant_decode_row(basic[i], y, block, 32);
        for (int k = 0; k < 32; k++)
            assert_true(isfinite(y[k]));
        assert_true(y[1] > y[0]);
        assert_false(quant_scale_fits(basic[i], x, 32, NULL));
    }
}

/* The largest value of each type that still fits, and the first that does not. */
static void test_scale_fits(void **state)
{
    static const struct {
        enum dtype t;
        float fits, too_big;
    } cases[] = {
        {DT_Q4_0, 65519.0f * 8, 65520.0f * 8},
        {DT_Q4_1, 65519.0f, 65520.0f},
        {DT_Q5_0, 65519.0f * 16, 65520.0f * 16},
        {DT_Q5_1, 65519.0f, 65520.0f},
        {DT_Q8_0, 65519.0f * 127, 65520.0f * 127},
        {DT_PTQ1_0, 65519.0f, 65520.0f},
        {DT_Q1_0, 65519.0f, 65520.0f},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        float x[256];
        int64_t col = -1;
        for (int k = 0; k < 256; k++)
            x[k] = cases[i].fits;
        assert_true(quant_scale_fits(cases[i].t, x, 256, &col));
        for (int k = 128; k < 256; k++)
            x[k] = cases[i].too_big;
        assert_false(quant_scale_fits(cases[i].t, x, 256, &col));
        assert_int_equal(col, 128);
    }
    assert_true(quant_scale_fits(DT_F16, &(float){1e9f}, 1, NULL)); /* has no scale */
}

/* Values that a type can hold come back unchanged. */
static void test_lossless(void **state)
{
    float x[32], y[32];
    uint8_t block[34];

    (void)state;
    for (size_t i = 0; i < countof(basic); i++) {
        static const int lo[] = {-8, 0, -16, 0, -127}, hi[] = {7, 15, 15, 31, 127};
        for (int k = 0; k < 32; k++) {
            int v = lo[i] + k * 7 % (hi[i] - lo[i] + 1);
            x[k] = (float)v * 0.25f;
        }
        x[5] = (float)lo[i] * 0.25f; /* both ends are there, so the scale is 0.25 */
        x[9] = (float)hi[i] * 0.25f;
        quant_encode_row(basic[i], block, x, 32);
        quant_decode_row(basic[i], y, block, 32);
        for (int k = 0; k < 32; k++) {
            if (x[k] != y[k])
                fail_msg("%s weight %d: %a became %a", dtype_info(basic[i])->name, k,
                         (double)x[k], (double)y[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_special_groups),
        cmocka_unit_test(test_wide_group), cmocka_unit_test(test_scale_fits),
        cmocka_unit_test(test_lossless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
