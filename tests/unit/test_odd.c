/*
 * test_odd.c - types of 4 and 8 odd levels: their bytes and the encoder against numpy
 * (tests/golden/odd), and rows at the ends of the scale's range.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "compress/codes.h"
#include "tensor/log8.h"
#include "tensor/quant.h"
#include "unit/unit.h"

#include <math.h>
#include <string.h>

enum { N = 64 };

/* Fitted rounding is as good as any scale can be, and says of itself what it lost. */
static void check_encoder(enum dtype t, const float *w, double least)
{
    const struct fit_how how = {TERNARISE_LS, false};
    struct fit_stat stat;
    uint8_t enc[32];
    float got[N];
    double err = 0.0;

    assert_int_equal(fit_row(t, enc, w, N, &how, &stat, NULL), B2_OK);
    quant_decode_row(t, got, enc, N);
    for (int i = 0; i < N; i++)
        err += ((double)w[i] - (double)got[i]) * ((double)w[i] - (double)got[i]);
    assert_true(fabs(err - least) <= 1e-5 * least);
    assert_true(fabs(stat.err - err) <= 1e-9 * err);
}

static void test_numpy(void **state)
{
    char *file;
    size_t size;
    struct b2_err err = {0};

    (void)state;
    if (file_read_all(&file, &size, B2_GOLDEN_DIR "/odd/blocks.bin", 1 << 20, &err))
        fail_msg("%s", err.msg);
    struct rd r = rd_make(file, size);
    const uint32_t n = rd_u32(&r);
    for (uint32_t b = 0; b < n; b++) {
        const enum dtype t = rd_u8(&r) == 4 ? DT_B2_Q2 : DT_B2_Q3;
        const size_t bytes = (size_t)dtype_info(t)->bytes;
        const uint8_t *block = rd_bytes(&r, bytes);
        float got[N], w[N];
        int8_t code[N];
        uint8_t again[32];
        assert_non_null(block);
        quant_decode_row(t, got, block, N);
        const float d = f32_from_log8(block[bytes - 1]);
        for (int i = 0; i < N; i++) {
            ROW_CHECK(b, got[i] == rd_f32(&r));
            code[i] = (int8_t)(d > 0.0f ? lrintf(got[i] / d) : 1);
        }
        quant_odd_join(t, again, code, d);
        ROW_CHECK(b, d <= 0.0f || memcmp(again, block, bytes) == 0);
        for (int i = 0; i < N; i++)
            w[i] = rd_f32(&r);
        check_encoder(t, w, rd_f64(&r));
    }
    assert_true(r.ok);
    mem_free(file);
}

static void test_range(void **state)
{
    static const struct {
        float most;
        bool fits[2]; /* B2_Q2, B2_Q3 */
    } cases[] = {
        {0.0f, {true, true}},       {1e-12f, {true, true}},   {600.0f, {true, true}},
        {900.0f, {false, true}},    {1500.0f, {false, true}}, {2000.0f, {false, false}},
        {65505.0f, {false, false}},
    };
    const struct fit_how how = {TERNARISE_LS, false};

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        for (int k = 0; k < 2; k++) {
            const enum dtype t = k ? DT_B2_Q3 : DT_B2_Q2;
            float w[N] = {0}, got[N];
            uint8_t enc[32];
            struct fit_stat stat;
            w[5] = -cases[i].most;
            ROW_CHECK(i, quant_scale_fits(t, w, N, NULL) == cases[i].fits[k]);
            ROW_CHECK(i, (fit_row(t, enc, w, N, &how, &stat, NULL) == B2_OK) ==
                             cases[i].fits[k]);
            if (cases[i].most >= 1e-6f)
                continue;
            quant_decode_row(t, got, enc, N); /* below every scale: exact zeros */
            for (int j = 0; j < N; j++)
                ROW_CHECK(i, got[j] == 0.0f);
        }
}

/* The nearest of the odd codes, and only odd ones. */
static void test_nearest(void **state)
{
    struct codes c;

    (void)state;
    assert_true(codes_of(&c, DT_B2_Q3));
    for (int i = -300; i <= 300; i++) {
        const float w = 0.03f * (float)i;
        const int code = codes_nearest(&c, w, 1.0f, 0.0f);
        assert_true(code >= -7 && code <= 7 && code % 2 != 0);
        for (int other = -7; other <= 7; other += 2)
            assert_true(fabsf(w - (float)code) <= fabsf(w - (float)other) + 1e-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
