/*
 * test_ternarise.c - the rules on the groups that users meet, least squares against
 * all 3^n codes.
 */
#include "unit/unit.h"

#include "base/rng.h"
#include "compress/ternarise.h"

#include <math.h>

enum { GROUP = 128 };

static double error_of(const float *w, const int8_t *codes, double scale, int n)
{
    double err = 0.0;

    for (int i = 0; i < n; i++) {
        double e = (double)w[i] - scale * codes[i];
        err += e * e;
    }
    return err;
}

/* The least error over all 3^n codes, each with its best real scale. */
static double brute_force(const float *w, int n)
{
    double best = HUGE_VAL;
    int total = 1;

    for (int i = 0; i < n; i++)
        total *= 3;
    for (int c = 0; c < total; c++) {
        int8_t codes[8];
        double wt = 0.0, tt = 0.0;
        for (int i = 0, rest = c; i < n; i++, rest /= 3) {
            codes[i] = (int8_t)(rest % 3 - 1);
            wt += (double)w[i] * codes[i];
            tt += codes[i] * codes[i];
        }
        double err = error_of(w, codes, tt > 0.0 ? wt / tt : 0.0, n);
        best = err < best ? err : best;
    }
    return best;
}

/* The stored scale is an FP16 within 2^-11 of the best real one, which costs at most
 * that squared times the energy. */
static void test_ls_is_exact(void **state)
{
    struct rng rng = rng_make(11);

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        int n = 1 + (int)rng_below(&rng, 8);
        float w[8], scale;
        int8_t codes[8];
        double energy = 0.0;
        for (int i = 0; i < n; i++) {
            w[i] = (float)rng_normal(&rng);
            if (trial % 3 == 0) /* ties and equal magnitudes */
                w[i] = roundf(2.0f * w[i]) / 2.0f;
            energy += (double)w[i] * (double)w[i];
        }
        assert_true(ternarise_group(codes, &scale, w, n, TERNARISE_LS));
        double got = error_of(w, codes, (double)scale, n), want = brute_force(w, n);
        if (got > want + energy * 2.4e-7 + 1e-12)
            fail_msg("trial %d, n %d: error %g, best %g", trial, n, got, want);
    }
}

/* On whole groups no other rule is better, and no scale next to the chosen one is. */
static void test_ls_beats_the_others(void **state)
{
    static const int sizes[] = {64, 128, 256};
    struct rng rng = rng_make(12);

    (void)state;
    for (int trial = 0; trial < 60; trial++) {
        int n = sizes[trial % 3];
        float w[TERNARISE_MAX_GROUP], scale;
        int8_t codes[TERNARISE_MAX_GROUP];
        for (int i = 0; i < n; i++) {
            double x = rng_normal(&rng);
            w[i] = (float)(trial & 1 ? x * x * x : x);
        }
        assert_true(ternarise_group(codes, &scale, w, n, TERNARISE_LS));
        double best = error_of(w, codes, (double)scale, n);
        for (int r = TERNARISE_ROUND; r < N_TERNARISE_RULES; r++) {
            assert_true(ternarise_group(codes, &scale, w, n, (enum ternarise_rule)r));
            assert_true(error_of(w, codes, (double)scale, n) >= best * (1.0 - 1e-6));
        }
    }
}

/* [0.3, -1.2, 0.02, 0.8]: mean 0.58, as far as FP16 can say it. */
static void test_small_vector(void **state)
{
    static const float w[4] = {0.3f, -1.2f, 0.02f, 0.8f};
    static const struct {
        enum ternarise_rule rule;
        int8_t codes[4];
        double scale;
    } cases[] = {
        {TERNARISE_ROUND, {1, -1, 0, 1}, 0.58},
        {TERNARISE_THRESHOLD, {0, -1, 0, 1}, 1.0},
        {TERNARISE_TWN, {0, -1, 0, 1}, 1.0}, /* 0.7 * 0.58 = 0.406 */
        {TERNARISE_LS, {0, -1, 0, 1}, 1.0},  /* 4/2 = 2 beats 2.3^2/3 and 1.2^2 */
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        int8_t codes[4];
        float scale;
        ROW_CHECK(i, ternarise_group(codes, &scale, w, 4, cases[i].rule));
        ROW_CHECK(i, memcmp(codes, cases[i].codes, sizeof codes) == 0);
        ROW_CHECK(i, fabs((double)scale - cases[i].scale) < cases[i].scale / 2048);
    }
}

static void fill(float *w, float even, float odd)
{
    for (int i = 0; i < GROUP; i++)
        w[i] = i % 2 ? odd : even;
}

static void test_special_groups(void **state)
{
    float w[GROUP], scale;
    int8_t codes[GROUP];

    (void)state;
    for (int r = 0; r < N_TERNARISE_RULES; r++) {
        enum ternarise_rule rule = (enum ternarise_rule)r;

        fill(w, 0.0f, -0.0f);
        ROW_CHECK(r, ternarise_group(codes, &scale, w, GROUP, rule));
        ROW_CHECK(r, scale == 0.0f && !signbit(scale));
        for (int i = 0; i < GROUP; i++)
            ROW_CHECK(r, codes[i] == 0);

        w[77] = 1e-30f; /* its scale underflows in FP16 */
        ROW_CHECK(r, ternarise_group(codes, &scale, w, GROUP, rule));
        ROW_CHECK(r, scale == 0.0f && codes[77] == 0);

        fill(w, 0.5f, 0.5f);
        ROW_CHECK(r, ternarise_group(codes, &scale, w, GROUP, rule));
        ROW_CHECK(r, scale == 0.5f);
        for (int i = 0; i < GROUP; i++)
            ROW_CHECK(r, codes[i] == 1);

        fill(w, 1.0f, -1.0f);
        ROW_CHECK(r, ternarise_group(codes, &scale, w, GROUP, rule));
        ROW_CHECK(r, scale == 1.0f);
        for (int i = 0; i < GROUP; i++)
            ROW_CHECK(r, codes[i] == (i % 2 ? -1 : 1));

        fill(w, 70000.0f, 70000.0f); /* beyond FP16 */
        ROW_CHECK(r, !ternarise_group(codes, &scale, w, GROUP, rule));

        fill(w, 65504.0f, -65504.0f); /* the largest there is */
        ROW_CHECK(r, ternarise_group(codes, &scale, w, GROUP, rule));
        ROW_CHECK(r, scale == 65504.0f);
    }
}

static void test_names(void **state)
{
    enum ternarise_rule r;

    (void)state;
    for (int i = 0; i < N_TERNARISE_RULES; i++) {
        assert_true(
            ternarise_rule_from_name(&r, ternarise_rule_name((enum ternarise_rule)i)));
        assert_int_equal(r, i);
        assert_true(ternarise_scale_name(r)[0] != '\0');
    }
    assert_false(ternarise_rule_from_name(&r, "LS"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ls_is_exact),  cmocka_unit_test(test_ls_beats_the_others),
        cmocka_unit_test(test_small_vector), cmocka_unit_test(test_special_groups),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
