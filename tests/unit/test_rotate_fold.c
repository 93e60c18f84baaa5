/*
 * test_rotate_fold.c - the fold against the definition, the runtime's transform and the
 * rule that a folded weight times a rotated input is the old product.
 */
#include "unit/unit.h"

#include "base/rng.h"
#include "compress/rotate.h"
#include "kernel/kernel.h"
#include "tensor/hadamard.h"

#include <math.h>

enum { MAX_N = 2048 };

static void test_small(void **state)
{
    float x[4] = {1, 2, 3, 4}, unit[128] = {0};
    static const float want[4] = {5, -1, -2, 0}, back[4] = {1, 2, 3, 4};

    (void)state;
    hadamard_apply(x, 4, 4);
    assert_memory_equal(x, want, sizeof x);
    hadamard_apply(x, 4, 4);
    assert_memory_equal(x, back, sizeof x);
    unit[17] = 1.0f;
    hadamard_apply(unit, 128, 128);
    for (int i = 0; i < 128; i++)
        assert_true(fabs(fabs((double)unit[i]) - 0.0883883) < 1e-6);
}

/* H[r][c] = (-1)^popcount(r & c) / sqrt(n), and the same bits as the kernel. */
static void test_against_definition_and_kernel(void **state)
{
    static float x[MAX_N], y[MAX_N];
    struct rng rng = rng_make(31);
    struct kernels k;

    (void)state;
    kernels_init(&k, 0);
    for (int n = 2; n <= MAX_N; n *= 2) {
        for (int i = 0; i < n; i++)
            y[i] = x[i] = (float)rng_normal(&rng);
        double worst = 0.0;
        static float got[MAX_N];
        memcpy(got, x, (size_t)n * sizeof *x);
        hadamard_apply(got, n, n);
        for (int r = 0; r<n; r += n> 256 ? 37 : 1) {
            double sum = 0.0;
            for (int c = 0; c < n; c++)
                sum += __builtin_popcount((unsigned)(r & c)) & 1 ? -(double)x[c]
                                                                 : (double)x[c];
            worst = fmax(worst, fabs(sum / sqrt(n) - (double)got[r]));
        }
        assert_true(worst < 2e-6 * 4);
        k.fwht(y, n, n);
        assert_memory_equal(y, got, (size_t)n * sizeof *y);
    }
}

/* W x = W' H(s x) for two widths with several blocks each. */
static void test_product_survives(void **state)
{
    static const int64_t widths[] = {576, 1536};
    static float w[1536], x[1536];
    struct rng rng = rng_make(32);
    struct rotate *r = rotate_new(64, 5);
    struct meta *m = meta_new(1 << 20);
    struct meta_str name = {"blk.0.attn_q.weight", 19};
    const int32_t *signs, *sign_widths;
    uint64_t n_signs, n_widths;

    (void)state;
    assert_non_null(r);
    for (size_t k = 0; k < countof(widths); k++)
        assert_int_equal(rotate_add_width(r, widths[k], NULL), B2_OK);
    assert_int_equal(rotate_add_width(r, 576, NULL), B2_OK); /* twice is once */
    assert_int_equal(rotate_set_keys(r, m, &name, 1, NULL), B2_OK);
    assert_int_equal(
        meta_get_i32s(m, "prism.hadamard.sign_values", &signs, &n_signs, NULL), B2_OK);
    assert_int_equal(
        meta_get_i32s(m, "prism.hadamard.sign_widths", &sign_widths, &n_widths, NULL),
        B2_OK);
    assert_int_equal(n_widths, 2);
    assert_int_equal(n_signs, 576 + 1536);
    for (size_t k = 0; k < countof(widths); k++) {
        const int32_t *s = signs + (k ? 576 : 0);
        double before = 0.0, after = 0.0, size = 0.0;
        int negative = 0;
        assert_int_equal(sign_widths[k], widths[k]);
        for (int64_t i = 0; i < widths[k]; i++) {
            w[i] = (float)rng_normal(&rng);
            x[i] = (float)rng_normal(&rng);
            before += (double)w[i] * (double)x[i];
            size += fabs((double)w[i] * (double)x[i]);
            negative += s[i] < 0;
            x[i] *= (float)s[i];
        }
        assert_true(negative > widths[k] / 3 && negative < 2 * widths[k] / 3);
        for (int64_t at = 0; at < widths[k]; at += 64)
            hadamard_apply(x + at, 64, 64);
        rotate_fold_row(r, w, widths[k]);
        for (int64_t i = 0; i < widths[k]; i++)
            after += (double)w[i] * (double)x[i];
        assert_true(fabs(before - after) < 1e-6 * size);
    }
    meta_free(m);
    rotate_free(r);
}

/* The keys of FORMATS.md §1.5, and signs that depend on seed and width alone. */
static void test_keys_and_signs(void **state)
{
    struct rotate *a = rotate_new(64, 7), *b = rotate_new(64, 7),
                  *c = rotate_new(64, 8);
    struct meta *m = meta_new(1 << 20);
    struct meta_str names[2] = {{"x", 1}, {"y", 1}};
    const char *text;
    uint32_t u = 0;
    float ra[128], rb[128], rc[128];

    (void)state;
    assert_int_equal(rotate_add_width(a, 64, NULL), B2_OK);
    assert_int_equal(rotate_add_width(a, 128, NULL), B2_OK);
    assert_int_equal(rotate_add_width(b, 128, NULL), B2_OK); /* another order */
    assert_int_equal(rotate_add_width(c, 128, NULL), B2_OK);
    for (int i = 0; i < 128; i++)
        ra[i] = rb[i] = rc[i] = (float)(i + 1);
    rotate_fold_row(a, ra, 128);
    rotate_fold_row(b, rb, 128);
    rotate_fold_row(c, rc, 128);
    assert_memory_equal(ra, rb, sizeof ra);
    assert_memory_not_equal(ra, rc, sizeof ra);

    assert_int_equal(rotate_set_keys(a, m, names, 2, NULL), B2_OK);
    assert_int_equal(meta_get_u32(m, "prism.hadamard.version", &u, NULL), B2_OK);
    assert_int_equal(u, 1);
    assert_int_equal(meta_get_u32(m, "prism.hadamard.block_size", &u, NULL), B2_OK);
    assert_int_equal(u, 64);
    assert_int_equal(meta_get_str(m, "prism.hadamard.transform", &text, NULL), B2_OK);
    assert_string_equal(text, "normalized-sylvester-walsh-hadamard");
    assert_int_equal(meta_get_str(m, "prism.hadamard.axis", &text, NULL), B2_OK);
    assert_string_equal(text, "input-last-dimension");
    assert_int_equal(meta_get_str(m, "prism.hadamard.sign_mode", &text, NULL), B2_OK);
    assert_string_equal(text, "explicit");
    assert_int_equal(meta_find(m, "prism.hadamard.weight_names")->n, 2);
    assert_int_equal(meta_find(m, "prism.hadamard.inverse_weight_names")->n, 0);
    assert_int_equal(meta_find(m, "prism.hadamard.gdn_v_grouped")->type, MT_BOOL);
    meta_free(m);
    rotate_free(a);
    rotate_free(b);
    rotate_free(c);
}

static void test_refusals(void **state)
{
    struct rotate *r = rotate_new(128, 0);
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(rotate_add_width(r, 576, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "remainder 64"));
    assert_int_equal(rotate_auto_block(576), 64);
    assert_int_equal(rotate_auto_block(1536), 512);
    assert_int_equal(rotate_auto_block(5120), 1024);
    assert_int_equal(rotate_auto_block(7), 1);
    for (int64_t i = 1; i <= ROTATE_MAX_WIDTHS; i++)
        assert_int_equal(rotate_add_width(r, 128 * i, &err), B2_OK);
    assert_int_equal(rotate_add_width(r, 128 * 99, &err), B2_EARG);
    rotate_free(r);
    rotate_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_against_definition_and_kernel),
        cmocka_unit_test(test_product_survives),
        cmocka_unit_test(test_keys_and_signs),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
