/*
 * test_fit.c - fitted rounding against the reference encoders, block by block.
 */
#include "unit/unit.h"

#include "base/rng.h"
#include "compress/fit.h"
#include "tensor/quant.h"

#include <math.h>

enum { N = 256, MAX_BYTES = 4 * N };

static const struct fit_how plain = {.rule = TERNARISE_LS};

/* Squared error of n weights; favour: each counts w^2 + mean(w^2). */
static double error_of(enum dtype t, const uint8_t *enc, const float *x, int n,
                       bool favour)
{
    float back[N];
    double err = 0.0, mean = 0.0;

    quant_decode_row(t, back, enc, n);
    for (int i = 0; i < n; i++)
        mean += (double)x[i] * (double)x[i] / n;
    for (int i = 0; i < n; i++) {
        double e = (double)x[i] - (double)back[i];
        err += e * e * (favour ? (double)x[i] * (double)x[i] + mean : 1.0);
    }
    return err;
}

/* Shapes of weights: normal, heavy tails, all positive, one outlier, nearly constant,
 * tiny, two values, zeros. */
static void make_row(float *x, int shape, struct rng *rng)
{
    for (int i = 0; i < N; i++) {
        double g = rng_normal(rng);
        switch (shape) {
        case 0:
            x[i] = (float)g;
            break;
        case 1:
            x[i] = (float)(g * g * g);
            break;
        case 2:
            x[i] = (float)(3.0 + fabs(g));
            break;
        case 3:
            x[i] = i % 32 == 5 ? 100.0f : (float)g;
            break;
        case 4:
            x[i] = (float)(1.0 + 1e-6 * g);
            break;
        case 5:
            x[i] = (float)(1e-7 * g);
            break;
        case 6:
            x[i] = i % 3 ? 0.25f : -0.75f;
            break;
        default:
            x[i] = 0.0f;
        }
    }
}

/* In the error that is minimised, on every block; worth its time on normal weights. */
static void check_never_worse(enum dtype t, bool favour, double gain)
{
    const struct fit_how how = {.rule = TERNARISE_LS, .favour_large = favour};
    const struct dtype_info *info = dtype_info(t);
    struct rng rng = rng_make(21);
    double total = 0.0, total_ref = 0.0;

    for (int trial = 0; trial < 80; trial++) {
        float x[N];
        uint8_t fit[MAX_BYTES], ref[MAX_BYTES];
        struct fit_stat stat;
        make_row(x, trial % 8, &rng);
        assert_int_equal(fit_row(t, fit, x, N, &how, &stat, NULL), B2_OK);
        quant_encode_row(t, ref, x, N);
        for (int b = 0; b < N / info->block; b++) {
            const float *xb = x + b * info->block;
            size_t at = (size_t)b * (size_t)info->bytes;
            double got = error_of(t, fit + at, xb, info->block, favour);
            double want = error_of(t, ref + at, xb, info->block, favour);
            if (got > want * (favour ? 1 + 1e-5 : 1)) /* importances are floats */
                fail_msg("%s favour %d trial %d block %d: %g above the reference's %g",
                         info->name, favour, trial, b, got, want);
            total += trial % 8 == 0 ? got : 0.0;
            total_ref += trial % 8 == 0 ? want : 0.0;
        }
    }
    if (total > gain * total_ref)
        fail_msg("%s favour %d: %g against the reference's %g", info->name, favour,
                 total, total_ref);
}

static void test_never_worse(void **state)
{
    static const enum dtype types[] = {DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q8_0};

    (void)state;
    for (size_t k = 0; k < countof(types); k++) {
        bool has_min = types[k] == DT_Q4_1 || types[k] == DT_Q5_1;
        double gain = types[k] == DT_Q8_0 ? 0.999 : 0.96;
        check_never_worse(types[k], false, gain);
        if (!has_min)
            check_never_worse(types[k], true, gain);
    }
}

/* Types with a minimum and ternary types do not know of favoured weights: same bytes. */
static void test_favour_is_for_scales_alone(void **state)
{
    static const enum dtype types[] = {DT_Q4_1, DT_Q5_1, DT_TQ1_0, DT_Q2_0, DT_F16};
    const struct fit_how favour = {.rule = TERNARISE_LS, .favour_large = true};
    struct rng rng = rng_make(24);

    (void)state;
    for (size_t k = 0; k < countof(types); k++) {
        float x[N];
        uint8_t a[MAX_BYTES] = {0}, b[MAX_BYTES] = {0};
        struct fit_stat stat;
        make_row(x, 1, &rng);
        assert_int_equal(fit_row(types[k], a, x, N, &plain, &stat, NULL), B2_OK);
        assert_int_equal(fit_row(types[k], b, x, N, &favour, &stat, NULL), B2_OK);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* The best of many scales, tried by hand, is hardly better than the fit. */
static void test_near_the_best_scale(void **state)
{
    struct rng rng = rng_make(22);
    double total = 0.0, total_best = 0.0;

    (void)state;
    for (int trial = 0; trial < 40; trial++) {
        float x[N];
        uint8_t fit[MAX_BYTES];
        struct fit_stat stat;
        make_row(x, trial % 2, &rng);
        assert_int_equal(fit_row(DT_Q4_0, fit, x, 32, &plain, &stat, NULL), B2_OK);
        double amax = 0.0, best = HUGE_VAL;
        for (int i = 0; i < 32; i++)
            amax = fabs((double)x[i]) > amax ? fabs((double)x[i]) : amax;
        for (int s = 1; s <= 4000; s++) {
            double d = (s % 2 ? amax : -amax) * s / 4000 / 5, err = 0.0;
            for (int i = 0; i < 32; i++) {
                double q = fmin(7.0, fmax(-8.0, nearbyint((double)x[i] / d)));
                err += ((double)x[i] - d * q) * ((double)x[i] - d * q);
            }
            best = err < best ? err : best;
        }
        total += stat.err;
        total_best += best;
    }
    if (total > 1.06 * total_best)
        fail_msg("error %g, the best scales give %g", total, total_best);
}

/* The statistics are those of the bytes; special groups are counted. */
static void test_statistics(void **state)
{
    float x[N] = {0};
    uint8_t enc[MAX_BYTES];
    struct fit_stat stat, sum = {0};

    (void)state;
    for (int i = 0; i < 64; i++)
        x[64 + i] = i ? 0.0f : 1e-30f; /* underflows */
    for (int i = 0; i < 128; i++)
        x[128 + i] = i % 2 ? 1.0f : -1.0f;
    assert_int_equal(fit_row(DT_Q2_0, enc, x, N, &plain, &stat, NULL), B2_OK);
    assert_int_equal(stat.n, N);
    assert_int_equal(stat.zeros, 128);
    assert_int_equal(stat.zero_groups, 2);
    assert_int_equal(stat.underflows, 1);
    assert_true(stat.err > 0.0 && stat.err < 1e-59);
    assert_true(fabs(stat.energy - 128.0) < 1e-9);
    assert_true(fit_stat_zero_share(&stat) == 0.5);
    fit_stat_add(&sum, &stat);
    fit_stat_add(&sum, &stat);
    assert_int_equal(sum.zeros, 256);
    assert_true(fit_stat_error(&sum) == fit_stat_error(&stat));

    assert_int_equal(fit_row(DT_F16, enc, x, N, &plain, &stat, NULL), B2_OK);
    assert_int_equal(stat.zero_groups, 0); /* ternary types alone have groups */
}

static void test_refuses_beyond_f16(void **state)
{
    static const struct {
        enum dtype type;
        float value;
        bool ok;
    } cases[] = {
        {DT_Q2_0, 70000.0f, false}, {DT_TQ1_0, 70000.0f, false},
        {DT_F16, 70000.0f, false},  {DT_Q4_0, 70000.0f, true},
        {DT_Q4_0, 1e6f, false},     {DT_Q4_1, 70000.0f, false}, /* minimum */
        {DT_Q8_0, 8e6f, true},      {DT_Q8_0, 9e6f, false},
        {DT_F32, 1e30f, true},      {DT_BF16, 1e30f, true},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        float x[N];
        uint8_t enc[MAX_BYTES];
        struct fit_stat stat;
        struct b2_err err = {0};
        for (int k = 0; k < N; k++)
            x[k] = cases[i].value;
        enum b2_status rc = fit_row(cases[i].type, enc, x, N, &plain, &stat, &err);
        ROW_CHECK(i, rc == (cases[i].ok ? B2_OK : B2_EUNSUP));
        ROW_CHECK(i, rc == B2_OK || strstr(err.msg, "65504"));
    }
}

/* What is ternary already comes back bit for bit. */
static void test_ternary_is_kept(void **state)
{
    static const enum dtype types[] = {DT_TQ1_0, DT_TQ2_0, DT_Q2_0, DT_PQ2_0,
                                       DT_PTQ1_0};
    struct rng rng = rng_make(23);

    (void)state;
    for (size_t k = 0; k < countof(types); k++) {
        float x[N], back[N];
        uint8_t enc[MAX_BYTES];
        struct fit_stat stat;
        for (int i = 0; i < N; i++)
            x[i] = 0.375f * (float)((int)rng_below(&rng, 3) - 1);
        assert_int_equal(fit_row(types[k], enc, x, N, &plain, &stat, NULL), B2_OK);
        quant_decode_row(types[k], back, enc, N);
        assert_memory_equal(x, back, sizeof x);
        assert_true(stat.err == 0.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_worse),
        cmocka_unit_test(test_favour_is_for_scales_alone),
        cmocka_unit_test(test_near_the_best_scale),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_refuses_beyond_f16),
        cmocka_unit_test(test_ternary_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
