/*
 * test_logprob.c - log-softmax, divergence and quantiles against NumPy's values.
 */
#include "eval/logprob.h"

#include "eval/stats.h"
#include "unit/eval_script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void near_to(double got, double want, double eps)
{
    if (!(fabs(got - want) <= eps))
        fail_msg("got %.17g want %.17g", got, want);
}

static void test_rows(void **state)
{
    (void)state;
    for (int r = 0; r < SCRIPT_ROWS; r++) {
        float xb[SCRIPT_VOCAB], xc[SCRIPT_VOCAB];
        double expo[SCRIPT_VOCAB];
        struct logprob b, c;
        script_row(xb, r, false);
        script_row(xc, r, true);
        assert_int_equal(logprob_row(&b, expo, xb, SCRIPT_VOCAB, NULL), B2_OK);
        assert_int_equal(logprob_row(&c, NULL, xc, SCRIPT_VOCAB, NULL), B2_OK);
        near_to(b.lse, script_want[r].lse_base, 1e-13);
        near_to(c.lse, script_want[r].lse_cand, 1e-13);
        assert_int_equal(b.argmax, script_want[r].top_base);
        assert_int_equal(c.argmax, script_want[r].top_cand);
        near_to(c.lse - (double)xc[script_want[r].target], script_want[r].nll, 1e-13);
        near_to(logprob_kld(&b, expo, xb, &c, xc, SCRIPT_VOCAB), script_want[r].kld,
                1e-14);
    }
}

/* A shift of all logits changes nothing; huge logits do not overflow; a broken logit is
 * an error that names its place. */
static void test_extremes(void **state)
{
    float x[3] = {1e30f, -1e30f, 1e30f}, y[3] = {3.0f, 3.0f, 3.0f};
    double expo[3];
    struct logprob a, b;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(logprob_row(&a, expo, x, 3, NULL), B2_OK);
    assert_int_equal(a.argmax, 0); /* ties: the smaller index */
    near_to(a.sum, 2.0, 0.0);
    assert_int_equal(logprob_row(&b, expo, y, 3, NULL), B2_OK);
    near_to(b.lse, 3.0 + log(3.0), 1e-15);
    near_to(logprob_kld(&b, expo, y, &b, y, 3), 0.0, 0.0);
    for (int i = 0; i < 2; i++) {
        y[1] = i ? NAN : INFINITY;
        assert_int_equal(logprob_row(&b, expo, y, 3, &err), B2_EFORMAT);
        assert_non_null(strstr(err.msg, "logit 1 "));
    }
}

static void test_stats(void **state)
{
    static const struct {
        int64_t n;
        double x[5], p, want; /* numpy.quantile(x, p) */
    } cases[] = {
        {1, {3}, 0.5, 3},
        {2, {4, 1}, 0.5, 2.5},
        {4, {4, 1, 3, 2}, 0.5, 2.5},
        {5, {5, 1, 4, 2, 3}, 0.5, 3},
        {5, {5, 1, 4, 2, 3}, 0.9, 4.6},
        {5, {5, 1, 4, 2, 3}, 1.0, 5},
        {5, {5, 1, 4, 2, 3}, 0.0, 1},
    };
    struct stats s = {0};

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        double x[5];
        memcpy(x, cases[c].x, sizeof x);
        stats_sort(x, cases[c].n);
        near_to(stats_quantile(x, cases[c].n, cases[c].p), cases[c].want, 1e-15);
    }
    near_to(stats_stderr(&s), 0.0, 0.0);
    for (int i = 0; i < 4; i++) /* 1e9 + {0, 1, 2, 3}: no cancellation */
        stats_add(&s, 1e9 + i);
    near_to(s.mean, 1e9 + 1.5, 1e-6);
    near_to(stats_stderr(&s), sqrt(1.25 / 3.0), 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_stats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
