/*
 * test_words.c - words of four codes: their table, their bytes, the nearest ones; against
 * brute force in Python.
 */
#include "compress/words.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "base/rng.h"
#include "compress/codes.h"
#include "tensor/f16.h"
#include "tensor/quant.h"
#include "unit/unit.h"

#include <math.h>

static char *file;
static struct rd rd;
static int8_t word[QUAD_WORDS][QUAD];

static int open_golden(void **state)
{
    size_t size;
    struct b2_err err = {0};

    (void)state;
    if (file_read_all(&file, &size, B2_GOLDEN_DIR "/words/words.bin", 1 << 22, &err))
        fail_msg("%s", err.msg);
    rd = rd_make((const uint8_t *)file, size);
    const uint8_t *p = rd_bytes(&rd, sizeof word);
    assert_non_null(p);
    memcpy(word, p, sizeof word);
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    mem_free(file);
    return 0;
}

static float read_f32(void)
{
    return f32_from_bits(rd_u32(&rd));
}

static void test_table(void **state)
{
    int8_t code[QUAD];
    int n = 0;

    (void)state;
    for (int i = 0; i < QUAD_WORDS; i++) {
        ROW_CHECK(i, quad_index(word[i]) == i);
        ROW_CHECK(i, quad_value[i] == word[i][0] + 4 * word[i][1] + 16 * word[i][2] +
                                          64 * word[i][3]);
    }
    for (int v = 0; v < 81; v++) { /* all ternary codes of four */
        for (int k = 0, rest = v; k < QUAD; k++, rest /= 3)
            code[k] = (int8_t)(rest % 3 - 1);
        int i = quad_index(code);
        n += i >= 0;
        ROW_CHECK(v, i < 0 || memcmp(word[i], code, sizeof code) == 0);
    }
    assert_int_equal(n, QUAD_WORDS);
}

static void check_block(enum dtype t, int at)
{
    const struct dtype_info *info = dtype_info(t);
    const int8_t *code = (const int8_t *)rd_bytes(&rd, (uint64_t)info->block);
    float scale = read_f32(), got, x[128], imp = 0.0f;
    const uint8_t *want = rd_bytes(&rd, (uint64_t)info->bytes);
    uint8_t block[25];
    int8_t back[128];

    assert_true(rd.ok);
    quant_ternary_join(t, block, code, &scale, info->block);
    ROW_CHECK(at, memcmp(block, want, (size_t)info->bytes) == 0);
    quant_ternary_split(t, back, &got, want, info->block);
    ROW_CHECK(at, got == scale && memcmp(back, code, (size_t)info->block) == 0);
    quant_decode_row(t, x, want, info->block);
    for (int i = 0; i < info->block; i++) {
        float value = read_f32();
        ROW_CHECK(at, x[i] == value);
        imp = fmaxf(imp, fabsf(value));
    }
    ROW_CHECK(at, quant_verify_row(t, want, info->block, NULL) == -1);
    quant_encode_row(t, block, x, info->block); /* what it can hold, it keeps */
    ROW_CHECK(at, imp == 0.0f || memcmp(block, want, (size_t)info->bytes) == 0);
}

static double cost_of(const int8_t *code, const float *t, const float *imp)
{
    double sum = 0.0;

    for (int k = 0; k < QUAD; k++)
        sum += (double)imp[k] * pow((double)t[k] - code[k], 2.0);
    return sum;
}

/* Never worse than the best of 64 words, and always a word. */
static void check_projection(int at)
{
    const float ones[QUAD] = {1.0f, 1.0f, 1.0f, 1.0f};
    const double unit = 24.0 * 24.0 * 8.0;
    float t[QUAD], imp[QUAD];
    int8_t code[QUAD];

    for (int k = 0; k < QUAD; k++)
        t[k] = (float)(int8_t)rd_u8(&rd) / 24.0f;
    for (int k = 0; k < QUAD; k++)
        imp[k] = (float)rd_u8(&rd) / 8.0f;
    double want = (int32_t)rd_u32(&rd) / unit, want_plain = (int32_t)rd_u32(&rd) / unit;
    words_project(code, t, imp, QUAD);
    ROW_CHECK(at, quad_index(code) >= 0);
    ROW_CHECK(at, fabs(cost_of(code, t, imp) - want) < 1e-5 * (1.0 + want));
    words_project(code, t, NULL, QUAD);
    ROW_CHECK(at, quad_index(code) >= 0);
    ROW_CHECK(at, fabs(cost_of(code, t, ones) - want_plain) < 1e-5 * (1.0 + want));
}

static void test_golden(void **state)
{
    static const enum dtype types[] = {DT_B2_C128, DT_B2_C64};
    double sum = 0.0, best = 0.0;

    (void)state;
    for (size_t t = 0; t < countof(types); t++)
        for (int i = 0, n = (int)rd_u32(&rd); i < n; i++)
            check_block(types[t], i);
    for (int i = 0, n = (int)rd_u32(&rd); i < n; i++)
        check_projection(i);
    for (int i = 0, n = (int)rd_u32(&rd); i < n; i++) { /* scales of fitted rounding */
        float w[64], scale;
        int8_t code[64];
        double err = 0.0;
        for (int k = 0; k < 64; k++)
            w[k] = read_f32();
        double want = rd_f64(&rd);
        assert_true(ternarise_group_as(DT_B2_C64, code, &scale, w, 64, TERNARISE_LS));
        for (int k = 0; k < 64; k++)
            err += pow((double)w[k] - (double)(scale * (float)code[k]), 2.0);
        for (int k = 0; k < 64; k += QUAD)
            ROW_CHECK(i, quad_index(code + k) >= 0);
        sum += err;
        best += want;
        ROW_CHECK(i, err >= 0.999 * want && err < 1.02 * want);
    }
    assert_true(rd.ok && sum < 1.005 * best); /* the scale's byte costs .3 % */
}

/* The full metric against all words, and against the diagonal one where it is diagonal. */
static void test_metrics(void **state)
{
    struct rng rng = rng_make(5);

    (void)state;
    for (int n = 0; n < 500; n++) {
        float u[QUAD][QUAD] = {{0}}, a[QUAD][QUAD], t[QUAD], r[QUAD], imp[QUAD];
        struct word_metric m, f;
        int8_t code[QUAD], other[QUAD];
        double best = 1e30, got = 0.0;
        for (int i = 0; i < QUAD; i++) {
            t[i] = (float)rng_normal(&rng);
            for (int k = i; k < QUAD; k++)
                u[i][k] = (float)rng_normal(&rng) * 0.5f + (i == k ? 2.0f : 0.0f);
            u[i][i] = fabsf(u[i][i]) + 0.2f;
            imp[i] = 1.0f / (u[i][i] * u[i][i]);
        }
        word_metric_of_factor(&f, u[0], QUAD);
        for (int w = 0; w < QUAD_WORDS; w++) { /* e = d u⁻¹ by substitution */
            double e[QUAD], sum = 0.0;
            for (int k = 0; k < QUAD; k++) {
                e[k] = (double)t[k] - word[w][k];
                for (int i = 0; i < k; i++)
                    e[k] -= e[i] * (double)u[i][k];
                e[k] /= (double)u[k][k];
                sum += e[k] * e[k];
            }
            best = fmin(best, sum);
        }
        word_times(r, &f, t);
        word_nearest(code, &f, r);
        for (int i = 0; i < QUAD; i++)
            for (int k = 0; k < QUAD; k++)
                got += ((double)t[i] - code[i]) * (double)f.a[i][k] *
                       ((double)t[k] - code[k]);
        ROW_CHECK(n, fabs(got - best) < 1e-4 * (1.0 + best));
        for (int i = 0; i < QUAD; i++)
            for (int k = 0; k < QUAD; k++)
                a[i][k] = i == k ? imp[i] : 0.0f;
        word_metric_of(&m, a[0], QUAD);
        word_times(r, &m, t);
        word_nearest(code, &m, r);
        words_project(other, t, imp, QUAD);
        ROW_CHECK(n, fabs(cost_of(code, t, imp) - cost_of(other, t, imp)) < 1e-5);
    }
}

/* One interface for free codes and for words. */
static void test_codes(void **state)
{
    const float t[] = {0.9f, -0.8f, 0.7f, -0.6f, 0.2f, 0.5f, -0.5f, 3.0f};
    static const int8_t free_codes[] = {1, -1, 1, -1, 0, 1, -1, 1};
    static const int8_t words[] = {1, -1, 1, 0, 0, 1, -1, 1};
    const float imp[] = {1.0f, 1.0f, 0.1f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    struct codes c;
    int8_t code[8];

    (void)state;
    assert_true(codes_of(&c, DT_B2_T64) && c.unit == 1);
    codes_project(&c, code, t, NULL, 8);
    assert_memory_equal(code, free_codes, sizeof code);
    assert_true(codes_of(&c, DT_B2_C128) && c.unit == QUAD && c.group == 128);
    codes_project(&c, code, t, NULL, 8);
    assert_memory_equal(code, words, sizeof code);
    codes_project(&c, code, t, imp, 8);
    assert_true(code[2] == 0 && code[3] == -1); /* the one that counts least */
    const float missing[] = {0.1f, 0.9f, 0.8f, 0.7f};
    codes_project(&c, code, missing, NULL, 4);
    assert_true(code[0] == 0 && code[1] == 1 && code[2] == 1 && code[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_codes),
    };

    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
