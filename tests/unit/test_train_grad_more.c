/*
 * test_train_grad_more.c - the gradients of what training adds to a model, against central
 * differences in F64: changes of low rank, smooth codes, distances of hidden states.
 */
#include "train/hidden.h"
#include "train/lora.h"
#include "train/soft.h"
#include "unit/grad.h"

static struct env env;

/* ---- LoRA ---- */

struct lora_case {
    struct lora l;
    double *delta, *c;
};

static double lora_loss(void *ctx)
{
    struct lora_case *t = ctx;

    lora_delta(&env, &t->l, t->delta);
    return dot(t->delta, t->c, t->l.rows * t->l.cols);
}

static void test_lora(void **state)
{
    enum { ROWS = 9, COLS = 13, RANK = 3 };
    struct lora_case t = {.l = {.rows = ROWS,
                                .cols = COLS,
                                .rank = RANK,
                                .unit = 0.3,
                                .a = randoms(RANK * COLS, 1, 1),
                                .b = randoms(ROWS * RANK, 1, 2),
                                .ga = zeros(RANK * COLS),
                                .gb = zeros(ROWS * RANK)},
                          .delta = zeros(ROWS * COLS),
                          .c = randoms(ROWS * COLS, 1, 3)};

    (void)state;
    lora_collect(&env, &t.l, t.c);
    check("lora a", lora_loss, &t, t.l.a, t.l.ga, RANK * COLS);
    check("lora b", lora_loss, &t, t.l.b, t.l.gb, ROWS * RANK);
    double first = t.l.ga[0];
    lora_collect(&env, &t.l, t.c);
    assert_true(fabs(t.l.ga[0] - 2 * first) < 1e-12);
    mem_free(t.l.a);
    mem_free(t.l.b);
    mem_free(t.l.ga);
    mem_free(t.l.gb);
    mem_free(t.delta);
    mem_free(t.c);
}

/* ---- soft codes ---- */

struct soft_case {
    double v[40], sharp;
};

static double soft_loss(void *ctx)
{
    const struct soft_case *t = ctx;
    double sum = 0, slope;

    for (int i = 0; i < 40; i++)
        sum += (i + 1) * soft_code(t->v[i], t->sharp, &slope);
    return sum;
}

static void test_soft(void **state)
{
    (void)state;
    for (double sharp = 1; sharp < 30; sharp *= 3) {
        struct soft_case t = {.sharp = sharp};
        double g[40], slope;
        for (int i = 0; i < 40; i++) {
            t.v[i] = 0.06 * i - 1.2;
            const double y = soft_code(t.v[i], sharp, &g[i]);
            assert_true(fabs(y + soft_code(-t.v[i], sharp, &slope)) < 1e-12);
            g[i] *= i + 1;
        }
        check("soft code", soft_loss, &t, t.v, g, 40);
        assert_true(fabs(soft_code(1, 60, &slope) - 1) < 1e-12 && slope < 1e-9);
    }
}

/* ---- hidden states ---- */

static double hidden_loss(void *ctx)
{
    return 0.7 * hidden_run(&env, ctx);
}

static void test_hidden(void **state)
{
    enum { N = 70, D = 21 };
    struct hidden_io io = {.n = N, .d = D, .weight = 0.7};
    double *s = randoms(N * D, 1, 1), *t = randoms(N * D, 2, 2), *ds = zeros(N * D);

    (void)state;
    memset(t, 0, D * sizeof *t);
    memcpy(s, t, D * sizeof *s); /* nothing where nothing is wanted */
    io.s = s;
    io.t = t;
    io.ds = ds;
    assert_true(hidden_run(&env, &io) > 0);
    for (int i = 0; i < D; i++)
        assert_true(ds[i] == 0);
    io.ds = NULL;
    io.s = s + D;
    io.t = t + D;
    io.n = N - 1;
    check("hidden", hidden_loss, &io, s + D, ds + D, (N - 1) * D);
    mem_free(s);
    mem_free(t);
    mem_free(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_soft),
        cmocka_unit_test(test_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
