/*
 * test_budget.c - the allocator against every combination, on small cases, and what the
 * roles' weights make of a whole model.
 */
#include "unit/unit.h"

#include "base/rng.h"
#include "compress/budget.h"
#include "compress/role.h"

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

/* A model of 30 layers with a tied embedding, sizes and errors like SmolLM2-135M's. */
enum { N_LAYERS = 30, N_PER_LAYER = 7, N_MODEL = N_LAYERS * N_PER_LAYER + 1 };
enum { PICK_TERNARY, PICK_4BIT };

static void add_choice(struct budget_unit *u, double count, double bits, double damage)
{
    u->choice[u->n_choices++] =
        (struct budget_choice){(uint64_t)(count * bits / 8.0), damage};
}

static void make_model(struct budget_unit *u)
{
    static const struct {
        enum role role;
        double count;
    } part[N_PER_LAYER] = {
        {ROLE_Q, 331776.0},    {ROLE_K, 110592.0},    {ROLE_V, 110592.0},
        {ROLE_O, 331776.0},    {ROLE_GATE, 884736.0}, {ROLE_UP, 884736.0},
        {ROLE_DOWN, 884736.0},
    };
    double embed = 28311552.0,
           prior = role_prior(ROLE_EMBED, -1, N_LAYERS, true) * embed;

    memset(u, 0, N_MODEL * sizeof *u);
    for (int i = 0; i < N_MODEL - 1; i++) {
        int k = i % N_PER_LAYER;
        double count = part[k].count;
        double p = role_prior(part[k].role, i / N_PER_LAYER, N_LAYERS, true) * count;
        add_choice(&u[i], count, 2.25, p * role_damage(0.19));
        add_choice(&u[i], count, 4.5, p * role_damage(0.006));
        add_choice(&u[i], count, 5.0, 0.0);
    }
    add_choice(&u[N_MODEL - 1], embed, 2.25, prior * role_damage(0.265));
    add_choice(&u[N_MODEL - 1], embed, 4.5, prior * role_damage(0.0111));
    add_choice(&u[N_MODEL - 1], embed, 5.5, prior * role_damage(0.0028));
    add_choice(&u[N_MODEL - 1], embed, 8.5, 0.0);
}

/* Weights of the layers 3 to 26 with this role (counted in the layer) that are ternary. */
static int n_ternary(const struct budget_unit *u, int part)
{
    int n = 0;

    for (int l = 3; l < 27; l++)
        n += u[l * N_PER_LAYER + part].pick == PICK_TERNARY;
    return n;
}

/* As the budget falls the damage only grows, and what is given up goes in the measured
 * order: gate and up long before keys, values, down and embedding, which are what a
 * model dies of. */
static void test_roles(void **state)
{
    static struct budget_unit u[N_MODEL];
    double last = 0.0;

    (void)state;
    make_model(u);
    uint64_t smallest = budget_min_bytes(u, N_MODEL), largest = 0;
    for (int i = 0; i < N_MODEL; i++)
        largest += u[i].choice[u[i].n_choices - 1].bytes;
    for (int step = 100; step >= 0; step--) {
        uint64_t bytes, budget = smallest + (largest - smallest) * (uint64_t)step / 100;
        assert_int_equal(budget_allocate(u, N_MODEL, budget, NULL), B2_OK);
        double damage = damage_of(u, N_MODEL, &bytes);
        assert_true(bytes <= budget && damage >= last);
        last = damage;

        int wide = n_ternary(u, 4) + n_ternary(u, 5);
        int dear = n_ternary(u, 1) + n_ternary(u, 2) + n_ternary(u, 6);
        bool embed = u[N_MODEL - 1].pick == PICK_TERNARY;
        if ((dear > 0 || embed) && wide < 48)
            fail_msg("%d %%: %d of 48 gate and up ternary, %d k, v and down%s", step,
                     wide, dear, embed ? ", embedding" : "");
        if (embed && dear < 36) /* its bytes buy some of them back */
            fail_msg("%d %%: ternary embedding, %d of 72 k, v and down", step, dear);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_roles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
