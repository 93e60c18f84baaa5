/*
 * test_rng.c - the published vectors, ranges, and the moments of the distributions.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "base/util.h"
#include "unit/unit.h"

#include <math.h>

/* The vector of the rand_xoshiro crate, made there with the authors' C program. */
static void test_xoshiro(void **state)
{
    static const uint64_t want[] = {
        11520u,
        0u,
        1509978240u,
        1215971899390074240u,
        1216172134540287360u,
        607988272756665600u,
        16172922978634559625u,
        8476171486693032832u,
        10595114339597558777u,
        2904607092377533576u,
    };
    struct rng r = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < countof(want); i++)
        ROW_CHECK(i, rng_u64(&r) == want[i]);
}

/* splitmix64 of 1234567: the vector of Rosetta Code, "Pseudo-random numbers/Splitmix64". */
static void test_seeding(void **state)
{
    struct rng r = rng_make(1234567);

    (void)state;
    assert_true(r.s[0] == 6457827717110365317u);
    assert_true(r.s[1] == 3203168211198807973u);
    assert_true(r.s[2] == 9817491932198370423u);
    assert_true(r.s[3] == 4593380528125082431u);
}

static void test_below(void **state)
{
    static const uint64_t limits[] = {
        1, 2, 3, 10, 1000003, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, UINT64_MAX};
    struct rng r = rng_make(7);
    int count[10] = {0};

    (void)state;
    for (size_t i = 0; i < countof(limits); i++)
        for (int k = 0; k < 1000; k++)
            ROW_CHECK(i, rng_below(&r, limits[i]) < limits[i]);
    for (int k = 0; k < 100000; k++)
        count[rng_below(&r, 10)]++;
    for (int i = 0; i < 10; i++) /* 10000 expected, standard deviation 95 */
        ROW_CHECK(i, count[i] > 9500 && count[i] < 10500);
}

static void test_uniform(void **state)
{
    struct rng r = rng_make(0);
    double sum = 0.0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        double v = rng_f64(&r);
        ROW_CHECK(i, v >= 0.0 && v < 1.0);
        sum += v;
    }
    assert_true(fabs(sum / 100000.0 - 0.5) < 0.005); /* 5 standard deviations */
}

/* Against Box-Muller computed with the C library, and by its first four moments. */
static void test_normal(void **state)
{
    struct rng r = rng_make(42), same = r;
    double m1 = 0.0, m2 = 0.0, m4 = 0.0;
    enum { N = 200000 };

    (void)state;
    for (int i = 0; i < N; i++) {
        double v = rng_normal(&r);
        double u = 1.0 - rng_f64(&same), w = rng_f64(&same);
        double want = sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * w);
        if (!(fabs(v - want) <= 1e-14 * (1.0 + fabs(want))))
            fail_msg("draw %d: %.17g, want %.17g", i, v, want);
        m1 += v;
        m2 += v * v;
        m4 += v * v * v * v;
    }
    assert_true(fabs(m1 / N) < 0.01);
    assert_true(fabs(m2 / N - 1.0) < 0.02);
    assert_true(fabs(m4 / N - 3.0) < 0.15);
}

static void test_clock(void **state)
{
    double a = clock_s(), b = clock_s();

    (void)state;
    assert_true(b >= a && b - a < 5.0);
    assert_true(clock_unix_s() > 1700000000); /* after November 2023 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xoshiro), cmocka_unit_test(test_seeding),
        cmocka_unit_test(test_below),   cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),  cmocka_unit_test(test_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
