/*
 * test_ternary.c - the layouts of few-valued weights: golden blocks, all base-3 codes,
 * split and join, special groups, and bytes that no encoder writes.
 */
#include "tensor/tensor.h"
#include "unit/quant_golden.h"

#include <math.h>

static const enum dtype types[] = {DT_TQ1_0, DT_TQ2_0, DT_Q1_0,
                                   DT_Q2_0,  DT_PQ2_0, DT_PTQ1_0};

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(types); i++)
        golden_check(types[i]);
}

/* FORMATS.md 1.3: trit_j = ((j^2 + 3j + 7) div 5) mod 3 - 1, d = 1.5. */
static void test_golden_blocks(void **state)
{
    static const uint8_t ptq[28] = {0x96, 0xc1, 0x43, 0xc8, 0x57, 0x06, 0x10,
                                    0x32, 0x96, 0xc2, 0x47, 0xd5, 0x81, 0x82,
                                    0x87, 0x96, 0x20, 0x21, 0x2f, 0xa2, 0xb4,
                                    0x51, 0xd2, 0x60, 0x5f, 0xe4, 0x00, 0x3e};
    static const uint8_t pq[34] = {0x00, 0x3e, 0x89, 0x01, 0x89, 0x55, 0x62, 0x40, 0x62,
                                   0x95, 0x18, 0x90, 0x58, 0x25, 0x06, 0x24, 0x56, 0x89,
                                   0x01, 0x89, 0x55, 0x62, 0x40, 0x62, 0x95, 0x18, 0x90,
                                   0x58, 0x25, 0x06, 0x24, 0x56, 0x89, 0x01};
    float x[128], y[128];
    uint8_t out[34];

    (void)state;
    for (int j = 0; j < 128; j++)
        x[j] = (float)((j * j + 3 * j + 7) / 5 % 3 - 1) * 1.5f;
    quant_encode_row(DT_PTQ1_0, out, x, 128);
    assert_memory_equal(out, ptq, sizeof ptq);
    quant_decode_row(DT_PTQ1_0, y, ptq, 128);
    for (int j = 0; j < 128; j++)
        assert_true(x[j] == y[j]);
    quant_encode_row(DT_PQ2_0, out, x, 128);
    assert_memory_equal(out, pq, sizeof pq);
    for (int legacy = 0; legacy < 2; legacy++) {
        quant_decode_row(legacy ? DT_Q2_0_G128 : DT_PQ2_0, y, pq, 128);
        for (int j = 0; j < 128; j++)
            assert_true(x[j] == y[j]);
    }
}

/* The same trits in the published packing of I2_S, by NumPy from the converter's formula
 * (tests/e2e/test_i2_s.py packs whole files). */
static void test_i2_s(void **state)
{
    static const uint8_t block[32] = {0x44, 0xa0, 0x11, 0x82, 0x44, 0x0a, 0x11, 0x29,
                                      0x45, 0xa5, 0x16, 0x94, 0x5a, 0x51, 0x68, 0x44,
                                      0xa0, 0x11, 0x82, 0x44, 0x0a, 0x11, 0x29, 0x45,
                                      0xa5, 0x16, 0x94, 0x5a, 0x51, 0x68, 0x44, 0xa0};
    const struct tensor t = {.type = DT_I2_S, .ne = {128, 1, 1, 1}, .scale = 1.5f};
    float y[128], scale;
    int8_t code[128];

    (void)state;
    quant_decode_tensor_row(&t, y, block);
    quant_ternary_split(DT_I2_S, code, &scale, block, 128);
    assert_true(scale == 1.0f);
    for (int j = 0; j < 128; j++) {
        int trit = (j * j + 3 * j + 7) / 5 % 3 - 1;
        assert_int_equal(code[j], trit);
        assert_true(y[j] == (float)trit * 1.5f);
    }
}

/* FORMATS.md 1.3: bytes of blocks whose trits are all equal. */
static void test_uniform_blocks(void **state)
{
    static const struct {
        int trit, qs, qh;
    } cases[] = {{0, 0x80, 0x7f}, {1, 0xff, 0xfd}, {-1, 0x00, 0x00}};

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        int8_t code[128];
        uint8_t out[28];
        memset(code, cases[c].trit, sizeof code);
        quant_ternary_join(DT_PTQ1_0, out, code, &(float){1.0f}, 128);
        for (int i = 0; i < 26; i++)
            assert_int_equal(out[i], i < 24 ? cases[c].qs : cases[c].qh);
    }
}

/* All 243 five-digit codes of one byte come back, with 243 different bytes; the other
 * 13 byte values are reported, and so is a byte of four digits with a fifth. */
static void test_base3(void **state)
{
    static const uint8_t never[] = {1,   20,  40,  60,  79,  99, 119,
                                    138, 158, 178, 197, 217, 237};
    bool seen[256] = {false};
    int8_t code[128], back[128];
    uint8_t block[28];
    float scale = 0.5f, got;
    const char *what = NULL;

    (void)state;
    for (int v = 0; v < 243; v++) {
        memset(code, 0, sizeof code);
        for (int n = 0, rest = v; n < 5; n++, rest /= 3)
            code[3 + 16 * (4 - n)] = (int8_t)(rest % 3 - 1); /* byte 3 */
        quant_ternary_join(DT_PTQ1_0, block, code, &scale, 128);
        assert_false(seen[block[3]]);
        seen[block[3]] = true;
        quant_ternary_split(DT_PTQ1_0, back, &got, block, 128);
        assert_memory_equal(code, back, sizeof code);
        assert_true(got == scale);
        assert_int_equal(quant_verify_row(DT_PTQ1_0, block, 128, &what), -1);
    }
    for (size_t i = 0; i < countof(never); i++) {
        assert_false(seen[never[i]]);
        block[3] = never[i];
        assert_int_equal(quant_verify_row(DT_PTQ1_0, block, 128, &what), 0);
        assert_non_null(strstr(what, "base-3"));
    }
    block[3] = 0x80;
    int n_ok = 0;
    for (int byte = 0; byte < 256; byte++) {
        block[24] = (uint8_t)byte;
        n_ok += quant_verify_row(DT_PTQ1_0, block, 128, NULL) < 0;
    }
    assert_int_equal(n_ok, 81);
}

/* split then join gives the same bytes; join then split the same codes and scales. */
static void test_split_join(void **state)
{
    static struct quant_golden g;

    (void)state;
    for (size_t i = 0; i < countof(types); i++) {
        const struct dtype_info *info = dtype_info(types[i]);
        int8_t code[256 * 10];
        float scale[10], y[256 * 10];
        uint8_t out[66 * 10];
        golden_read(&g, types[i]);
        quant_ternary_split(types[i], code, scale, g.enc_bytes, g.n_enc);
        quant_ternary_join(types[i], out, code, scale, g.n_enc);
        assert_memory_equal(out, g.enc_bytes,
                            (size_t)(g.n_enc / info->block * info->bytes));
        quant_decode_row(types[i], y, g.enc_bytes, g.n_enc);
        for (int64_t k = 0; k < g.n_enc; k++)
            assert_true(y[k] == (float)code[k] * scale[k / info->block]);
        assert_int_equal(quant_verify_row(types[i], g.enc_bytes, g.n_enc, NULL), -1);
    }
}

/* Code 3 decodes to twice the scale, splits to +2, joins back, and is reported. */
static void test_code_3(void **state)
{
    static const enum dtype two_bits[] = {DT_TQ2_0, DT_Q2_0, DT_Q2_0_G128, DT_PQ2_0};

    (void)state;
    for (size_t i = 0; i < countof(two_bits); i++) {
        const struct dtype_info *info = dtype_info(two_bits[i]);
        bool scale_last = two_bits[i] == DT_TQ2_0;
        uint8_t row[3 * 66] = {0}, out[3 * 66];
        int8_t code[768];
        float scale[3], y[768];
        const char *what = NULL;
        int64_t n = 3 * (int64_t)info->block;
        for (int b = 0; b < 3; b++)
            le_put16(row + b * info->bytes + (scale_last ? 64 : 0), 0x3800);
        row[info->bytes + 2 + 4] = 0x30; /* third field of a byte of block 1 */
        assert_int_equal(quant_verify_row(two_bits[i], row, n, &what), 1);
        assert_non_null(strstr(what, "code 3"));
        int at = info->block + (scale_last ? 2 * 32 + 6 : 4 * 4 + 2);
        quant_decode_row(two_bits[i], y, row, n);
        assert_true(y[at] == 1.0f && y[at - 1] == -0.5f);
        quant_ternary_split(two_bits[i], code, scale, row, n);
        assert_int_equal(code[at], 2);
        quant_ternary_join(two_bits[i], out, code, scale, n);
        assert_memory_equal(out, row, 3 * (size_t)info->bytes);
        /* The earlier of a bad code and a bad scale is the one that is named. */
        le_put16(row + (scale_last ? 64 : 0), 0x7c00);
        assert_int_equal(quant_verify_row(two_bits[i], row, n, &what), 0);
        assert_non_null(strstr(what, "scale"));
    }
}

/* USERS.md T12. Underflow gives exact zeros, overflow a finite scale; the rest is exact. */
static void test_special_groups(void **state)
{
    static const float exact[] = {0.0f, 0.5f, -1.0f, 65504.0f};
    static const float zero[] = {1e-30f, -1e-30f, 1e-39f, 1e-45f, 2.9e-8f};

    (void)state;
    for (size_t i = 0; i < countof(types); i++) {
        for (size_t v = 0; v < countof(exact); v++)
            assert_true(golden_fill(types[i], exact[v]) == exact[v]);
        for (size_t v = 0; v < countof(zero); v++)
            assert_true(golden_fill(types[i], zero[v]) == 0.0f);
        assert_true(golden_fill(types[i], 70000.0f) == 65504.0f);
        assert_true(golden_fill(types[i], -70000.0f) == -65504.0f);
    }
}

/* Ternary groups go through PTQ1_0, PQ2_0 and back without changing a value. */
static void test_conversions(void **state)
{
    float x[256], y[256];
    uint8_t a[72], b[72]; /* four blocks of Q2_0 are the longest */

    (void)state;
    for (int k = 0; k < 256; k++)
        x[k] = (float)(k * 5 % 7 % 3 - 1) * 0.34375f;
    for (size_t i = 0; i < countof(types); i++) {
        if (types[i] == DT_Q1_0)
            continue;
        quant_encode_row(types[i], a, x, 256);
        quant_decode_row(types[i], y, a, 256);
        assert_memory_equal(x, y, sizeof x);
        quant_encode_row(types[i], b, y, 256);
        assert_memory_equal(a, b, (size_t)dtype_info(types[i])->bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),      cmocka_unit_test(test_golden_blocks),
        cmocka_unit_test(test_i2_s),        cmocka_unit_test(test_uniform_blocks),
        cmocka_unit_test(test_base3),       cmocka_unit_test(test_split_join),
        cmocka_unit_test(test_code_3),      cmocka_unit_test(test_special_groups),
        cmocka_unit_test(test_conversions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
