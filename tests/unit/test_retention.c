/*
 * test_retention.c - pairing, figures by hand, the worst task first, planted collapses.
 */
#include "eval/retention.h"

#include "base/mem.h"
#include "unit/unit.h"

#include <math.h>

enum { MAX_ITEMS = 400 };

/* A set whose strings are static or belong to the fixture. */
struct fake {
    struct item item[MAX_ITEMS];
    char id[MAX_ITEMS][24];
    char task[32];
    struct item_set set;
};

static char metric[] = "acc", print[] = "f", prompts[] = "p", other_prompts[] = "q";

/* Items 0..n-1; item i is right when (i * 7919) % 1000 < permille, so that sets of one
 * fixture agree as much as they can. */
static void fake_make(struct fake *f, const char *task, int n, int permille,
                      double chance)
{
    memset(f, 0, sizeof *f);
    snprintf(f->task, sizeof f->task, "%s", task);
    for (int i = 0; i < n; i++) {
        snprintf(f->id[i], sizeof f->id[i], "item%d", i);
        f->item[i] = (struct item){
            .id = f->id[i], .score = i * 7919 % 1000 < permille, .weight = {1.0}};
    }
    f->set = (struct item_set){.task = f->task,
                               .metric = metric,
                               .metrics = {metric},
                               .n_metrics = 1,
                               .chance = chance,
                               .model = print,
                               .fingerprint = print,
                               .prompt_sha256 = prompts,
                               .item = f->item,
                               .n = n};
}

static struct fake a[4], b[4];

static struct retention make(int n)
{
    struct item_set base[4], cand[4];
    struct retention r = {0};
    struct b2_err err = {0};

    for (int i = 0; i < n; i++) {
        base[i] = a[i].set;
        cand[i] = b[i].set;
    }
    if (retention_make(&r, base, cand, n, 5, &err))
        fail_msg("%s", err.msg);
    return r;
}

static void near_to(double got, double want, double eps)
{
    if (!(fabs(got - want) <= eps))
        fail_msg("got %.9g want %.9g", got, want);
}

/* Four items by hand: baseline 1 1 1 0, candidate 1 0 1 1 in another order. */
static void test_by_hand(void **state)
{
    struct retention r;

    (void)state;
    fake_make(&a[0], "t", 4, 0, 0.25);
    fake_make(&b[0], "t", 5, 0, 0.25);
    a[0].item[0].score = a[0].item[1].score = a[0].item[2].score = 1;
    for (int i = 0; i < 4; i++) /* reversed */
        snprintf(b[0].id[i], sizeof b[0].id[i], "item%d", 3 - i);
    b[0].item[3].score = b[0].item[1].score = b[0].item[0].score = 1;
    b[0].item[4].score = 1; /* nobody else has it */
    r = make(1);
    assert_int_equal(r.task[0].n, 4);
    assert_int_equal(r.task[0].n_unpaired, 1);
    near_to(r.task[0].baseline, 0.75, 0);
    near_to(r.task[0].candidate, 0.75, 0);
    near_to(r.task[0].retention, 1.0, 0);
    near_to(r.task[0].corrected, 1.0, 1e-15);
    assert_int_equal(r.task[0].n_up, 1);
    assert_int_equal(r.task[0].n_down, 1);
    near_to(r.task[0].mcnemar_p, 1.0, 0);
    retention_free(&r);
}

/* Three tasks keep all, one loses a quarter: the mean looks good, the warning says no. */
static void test_planted_collapse(void **state)
{
    static const char *const names[] = {"alpha", "beta", "gamma", "delta"};
    struct retention r;

    (void)state;
    for (int i = 0; i < 4; i++) {
        fake_make(&a[i], names[i], 400, 800, 0.25);
        fake_make(&b[i], names[i], 400, i == 2 ? 660 : 820, 0.25);
    }
    r = make(4);
    assert_string_equal(r.task[0].name, "gamma");
    assert_int_equal(r.n_counted, 4);
    assert_true(r.mean > 0.95 && r.task[0].retention < 0.85);
    assert_true(r.hidden_collapse);
    assert_true(r.task[0].mcnemar_p < 1e-6 && r.task[0].n_up == 0);
    assert_true(r.task[0].ci.high < 0.9 && r.task[0].ci.low > 0.75);
    near_to(r.mean,
            (r.task[0].retention + r.task[1].retention + r.task[2].retention +
             r.task[3].retention) /
                4,
            1e-12);
    assert_true(r.geometric < r.mean && r.mean_ci.low < r.mean &&
                r.mean < r.mean_ci.high);
    retention_free(&r);
    fake_make(&b[2], names[2], 400, 800, 0.25); /* repaired: no warning */
    r = make(4);
    assert_false(r.hidden_collapse);
    retention_free(&r);
}

/* A task on which the baseline guesses says nothing, however well the candidate does. */
static void test_at_chance(void **state)
{
    struct retention r;

    (void)state;
    fake_make(&a[0], "good", 400, 700, 0.25);
    fake_make(&b[0], "good", 400, 630, 0.25);
    fake_make(&a[1], "guess", 400, 255, 0.25);
    fake_make(&b[1], "guess", 400, 10, 0.25);
    fake_make(&a[2], "nothing", 400, 0, 0.0); /* never right: a ratio to 0 */
    fake_make(&b[2], "nothing", 400, 30, 0.0);
    r = make(3);
    assert_int_equal(r.n_counted, 1);
    assert_string_equal(r.task[0].name, "good");
    assert_true(r.task[1].at_chance && r.task[2].at_chance);
    near_to(r.mean, r.task[0].retention, 1e-15);
    for (int i = 1; i < 3; i++)
        assert_true(isfinite(r.task[i].retention) && isfinite(r.task[i].ci.high) &&
                    isfinite(r.task[i].corrected_ci.low));
    retention_free(&r);
}

/* The interval of a paired difference: with the same right items but 40 lost of 280,
 * R = 6/7 and, by the delta method, Var = sum((b - R a)^2) / sum(a)^2. The number
 * of items needed follows from its width. */
static void test_interval(void **state)
{
    double sum = 0, m = 0, half;
    struct retention r;

    (void)state;
    fake_make(&a[0], "t", 400, 700, 0.0);
    fake_make(&b[0], "t", 400, 600, 0.0);
    r = make(1);
    for (int i = 0; i < 400; i++) {
        double d = b[0].item[i].score - r.task[0].retention * a[0].item[i].score;
        sum += d * d;
        m += a[0].item[i].score;
    }
    half = 1.959964 * sqrt(sum) / m;
    near_to(r.task[0].ci.high - r.task[0].ci.low, 2 * half, 0.1 * half);
    near_to((double)r.task[0].n_needed, 400 * pow(half / 0.01, 2),
            0.12 * 400 * pow(half / 0.01, 2));
    retention_free(&r);
}

/* The figures of a task are the same whatever stands beside it. */
static void test_order_does_not_matter(void **state)
{
    struct retention r, s;

    (void)state;
    fake_make(&a[0], "x", 200, 700, 0.0);
    fake_make(&b[0], "x", 200, 650, 0.0);
    r = make(1);
    fake_make(&a[1], "y", 300, 900, 0.0);
    fake_make(&b[1], "y", 300, 500, 0.0);
    s = make(2);
    assert_string_equal(s.task[0].name, "y");
    assert_true(s.task[1].ci.low == r.task[0].ci.low &&
                s.task[1].ci.high == r.task[0].ci.high);
    retention_free(&r);
    retention_free(&s);
}

static void test_refused(void **state)
{
    struct retention r = {0};
    struct b2_err err = {0};

    (void)state;
    fake_make(&a[0], "x", 3, 700, 0.0);
    fake_make(&b[0], "y", 3, 700, 0.0);
    assert_int_equal(retention_make(&r, &a[0].set, &b[0].set, 1, 0, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "task x by acc cannot be compared with task y"));
    fake_make(&b[0], "x", 3, 700, 0.0);
    for (int i = 0; i < 3; i++)
        snprintf(b[0].id[i], sizeof b[0].id[i], "other%d", i);
    assert_int_equal(retention_make(&r, &a[0].set, &b[0].set, 1, 0, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "share no item"));
    fake_make(&b[0], "x", 3, 700, 0.0);
    b[0].set.prompt_sha256 = other_prompts;
    assert_int_equal(retention_make(&r, &a[0].set, &b[0].set, 1, 0, &err), B2_OK);
    assert_true(r.task[0].prompts_differ);
    retention_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_planted_collapse),
        cmocka_unit_test(test_at_chance),
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
