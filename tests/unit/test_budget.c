/*
 * test_budget.c - the allocator against every combination, on small cases.
 */
#include "unit/unit.h"

#include "base/rng.h"
#include "compress/budget.h"

#include <math.h>

enum { MAX_UNITS = 6 };

static double damage_of(const struct budget_unit *u, int n, uint64_t *bytes)
{
    double sum = 0.0;

    *bytes = 0;
    for (int i = 0; i < n; i++) {
        sum += u[i].choice[u[i].pick].damage;
        *bytes += u[i].choice[u[i].pick].bytes;
    }
    return sum;
}

/* The least damage within max_bytes by trying all; infinite when nothing fits. */
static double brute_force(const struct budget_unit *units, int n, uint64_t max_bytes)
{
    struct budget_unit u[MAX_UNITS];
    double best = HUGE_VAL;
    int64_t total = 1;

    memcpy(u, units, (size_t)n * sizeof *u);
    for (int i = 0; i < n; i++)
        total *= u[i].n_choices;
    for (int64_t c = 0; c < total; c++) {
        uint64_t bytes;
        int64_t rest = c;
        for (int i = 0; i < n; i++) {
            u[i].pick = (int)(rest % u[i].n_choices);
            rest /= u[i].n_choices;
        }
        double damage = damage_of(u, n, &bytes);
        if (bytes <= max_bytes && damage < best)
            best = damage;
    }
    return best;
}

/* The most that one step of one unit can be worth. */
static double largest_step(const struct budget_unit *u, int n)
{
    double largest = 0.0;

    for (int i = 0; i < n; i++)
        for (int a = 0; a < u[i].n_choices; a++)
            for (int b = 0; b < u[i].n_choices; b++)
                largest = fmax(largest, u[i].choice[a].damage - u[i].choice[b].damage);
    return largest;
}

static void test_against_all(void **state)
{
    struct rng rng = rng_make(41);
    int optimal = 0, trials = 0;

    (void)state;
    for (int trial = 0; trial < 400; trial++) {
        struct budget_unit u[MAX_UNITS];
        int n = 1 + (int)rng_below(&rng, MAX_UNITS);
        uint64_t largest = 0, bytes;
        for (int i = 0; i < n; i++) {
            u[i] = (struct budget_unit){.n_choices = 1 + (int)rng_below(&rng, 5)};
            uint64_t most = 0;
            for (int k = 0; k < u[i].n_choices; k++) {
                uint64_t b = 1 + rng_below(&rng, 50);
                u[i].choice[k] =
                    (struct budget_choice){b, rng_f64(&rng) * 10.0 / (double)b};
                most = b > most ? b : most;
            }
            largest += most;
        }
        uint64_t smallest = budget_min_bytes(u, n);
        uint64_t budget = smallest + rng_below(&rng, largest - smallest + 2);
        double best = brute_force(u, n, budget);
        assert_int_equal(budget_allocate(u, n, budget, NULL), B2_OK);
        double got = damage_of(u, n, &bytes);
        assert_true(bytes <= budget);
        if (got > best + largest_step(u, n) + 1e-12)
            fail_msg("trial %d: damage %g, best %g", trial, got, best);
        optimal += got <= best + 1e-12;
        trials++;

        if (smallest > 0) {
            struct b2_err err = {0};
            assert_int_equal(budget_allocate(u, n, smallest - 1, &err), B2_EARG);
        }
        assert_true(isinf(brute_force(u, n, smallest - 1)));
    }
    assert_true(optimal * 10 > trials * 8); /* the rest is off by a part of a step */
}

/* A sum of 300 units: more bytes never give more damage, at steps of one in twenty. */
static void test_monotone(void **state)
{
    static struct budget_unit u[300];
    struct rng rng = rng_make(42);
    double last = HUGE_VAL;

    (void)state;
    for (size_t i = 0; i < countof(u); i++) {
        double size = 1000.0 + (double)rng_below(&rng, 9000), prior = rng_f64(&rng);
        u[i].n_choices = 5;
        static const double bits[] = {2.25, 4.5, 5.0, 5.5, 8.5},
                            err[] = {0.19, 0.006, 0.005, 0.0015, 0.00002};
        for (int k = 0; k < 5; k++)
            u[i].choice[k] = (struct budget_choice){(uint64_t)(size * bits[k]),
                                                    err[k] * size * prior};
    }
    uint64_t smallest = budget_min_bytes(u, countof(u));
    for (int step = 0; step <= 60; step++) {
        uint64_t bytes, budget = smallest + smallest * (uint64_t)step / 20;
        assert_int_equal(budget_allocate(u, countof(u), budget, NULL), B2_OK);
        double damage = damage_of(u, countof(u), &bytes);
        assert_true(bytes <= budget && damage <= last);
        last = damage;
    }
}

static void test_edges(void **state)
{
    struct budget_unit u[2] = {
        {.n_choices = 3, .choice = {{10, 5.0}, {10, 3.0}, {20, 4.0}}}, /* 1 is best */
        {.n_choices = 2, .choice = {{8, 1.0}, {8, 1.0}}},
    };

    (void)state;
    assert_int_equal(budget_allocate(u, 2, UINT64_MAX, NULL), B2_OK);
    assert_int_equal(u[0].pick, 1);
    assert_int_equal(u[1].pick, 0); /* ties go to the first */
    assert_int_equal(budget_allocate(u, 2, 18, NULL), B2_OK);
    assert_int_equal(budget_allocate(u, 0, 0, NULL), B2_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
