/*
 * test_bootstrap.c - intervals against closed forms, exact rules against fractions.
 */
#include "eval/bootstrap.h"

#include "base/mem.h"
#include "base/util.h"
#include "unit/unit.h"

#include <math.h>

/* A share: the bootstrap's distribution is binomial, so its quantiles are known. The draws
 * may miss them by one hit, as 10,000 draws do now and then. */
static void test_share_closed_form(void **state)
{
    static const struct {
        int hits, n, low, high;
    } cases[] = {
#define WANT_BOOTSTRAP
#include "golden/eval/stats.inc"
#undef WANT_BOOTSTRAP
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        double num[500], den[500];
        struct interval got;
        for (int i = 0; i < cases[c].n; i++) {
            num[i] = i < cases[c].hits;
            den[i] = 1.0;
        }
        assert_int_equal(bootstrap_ratio(&got, num, den, cases[c].n, c, NULL), 0);
        ROW_CHECK(c, fabs(got.low * cases[c].n - cases[c].low) <= 1.01);
        ROW_CHECK(c, fabs(got.high * cases[c].n - cases[c].high) <= 1.01);
    }
}

/* A mean of many numbers: mean +- 1.96 s / sqrt(n); and a ratio of two means, whose
 * variance by the delta method is mean((y - R x)^2) / (n mean(x)^2). */
static void test_normal_closed_form(void **state)
{
    enum { N = 400 };
    double x[N], y[N], one[N], mean = 0, var = 0, mx = 0, my = 0, v = 0;
    struct rng rng = rng_make(7);
    struct interval got;

    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = 5.0 + rng_normal(&rng);
        y[i] = 0.8 * x[i] + 0.5 * rng_normal(&rng);
        one[i] = 1.0;
        mx += x[i] / N;
        my += y[i] / N;
    }
    mean = my;
    for (int i = 0; i < N; i++) {
        double r = y[i] - my / mx * x[i];
        var += (y[i] - mean) * (y[i] - mean) / N;
        v += r * r / N;
    }
    assert_int_equal(bootstrap_ratio(&got, y, one, N, 3, NULL), 0);
    double half = 1.959964 * sqrt(var / N);
    assert_true(fabs(got.low - (mean - half)) < 0.06 * half);
    assert_true(fabs(got.high - (mean + half)) < 0.06 * half);
    assert_int_equal(bootstrap_ratio(&got, y, x, N, 3, NULL), 0);
    half = 1.959964 * sqrt(v / N) / mx;
    assert_true(fabs(got.low - (my / mx - half)) < 0.06 * half);
    assert_true(fabs(got.high - (my / mx + half)) < 0.06 * half);
}

/* Clusters: ten copies of each item say no more than the item. */
static void test_clusters(void **state)
{
    double num[40], den[40];
    struct interval one, ten;

    (void)state;
    for (int i = 0; i < 40; i++) {
        num[i] = i % 3;
        den[i] = 1.0;
    }
    assert_int_equal(bootstrap_ratio(&one, num, den, 40, 1, NULL), 0);
    for (int i = 0; i < 40; i++) {
        num[i] *= 10.0;
        den[i] *= 10.0;
    }
    assert_int_equal(bootstrap_ratio(&ten, num, den, 40, 1, NULL), 0);
    assert_true(fabs(one.low - ten.low) < 1e-12 && fabs(one.high - ten.high) < 1e-12);
}

/* Draws whose denominator is 0 are made anew: the interval stays finite. */
static void test_zero_denominator(void **state)
{
    const double num[] = {0, 0, 0, 1}, den[] = {0, 0, 0, 2};
    struct interval got;

    (void)state;
    assert_int_equal(bootstrap_ratio(&got, num, den, 4, 1, NULL), 0);
    assert_true(got.low == 0.5 && got.high == 0.5);
    assert_int_equal(bootstrap_ratio(&got, num, num, 3, 1, NULL), 0); /* 0 / 0 */
    assert_true(got.low == 0.0 && got.high == 0.0);
}

static void test_mcnemar(void **state)
{
    static const struct {
        int up, down;
        double p;
    } cases[] = {
#define WANT_MCNEMAR
#include "golden/eval/stats.inc"
#undef WANT_MCNEMAR
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        ROW_CHECK(c, fabs(bootstrap_mcnemar(cases[c].up, cases[c].down) / cases[c].p -
                          1.0) < 1e-9);
        ROW_CHECK(c, bootstrap_mcnemar(cases[c].down, cases[c].up) ==
                         bootstrap_mcnemar(cases[c].up, cases[c].down));
    }
}

static void test_clopper_pearson(void **state)
{
    static const struct {
        int hits, n;
        double low, high;
    } cases[] = {
#define WANT_SHARE
#include "golden/eval/stats.inc"
#undef WANT_SHARE
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        struct interval got = bootstrap_share(cases[c].hits, cases[c].n);
        ROW_CHECK(c, fabs(got.low - cases[c].low) < 1e-9);
        ROW_CHECK(c, fabs(got.high - cases[c].high) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share_closed_form),
        cmocka_unit_test(test_normal_closed_form),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_zero_denominator),
        cmocka_unit_test(test_mcnemar),
        cmocka_unit_test(test_clopper_pearson),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
