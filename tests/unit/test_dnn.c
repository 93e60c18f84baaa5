/*
 * test_dnn.c - products of numbers rounded to BF16: against sums in F64 of the same rounded
 * numbers, and the same bytes for any number of threads.
 */
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "kernel/kernel.h"
#include "tensor/f16.h"
#include "train/dnn.h"
#include "train/mm.h"
#include "unit/unit.h"

#include <math.h>

enum { THREADS = 7 };

static struct kernels kernels;
static struct dnn *dnn;

/* A matrix [rows, cols] that is read as its transpose when t; with a margin in each row. */
struct operand {
    float *p;
    int64_t rows, cols;
    bool t;
};

enum { MARGIN = 3 };

static struct operand operand_make(struct rng *r, int64_t rows, int64_t cols, bool t)
{
    struct operand o = {NULL, t ? cols : rows, t ? rows : cols, t};
    const int64_t n = o.rows * (o.cols + MARGIN);

    o.p = mem_calloc((size_t)n + 1, sizeof *o.p);
    assert_non_null(o.p);
    for (int64_t i = 0; i < n; i++)
        o.p[i] = (float)rng_normal(r);
    return o;
}

static struct mat mat_of(const struct operand *o)
{
    return (struct mat){o->p, o->cols + MARGIN, o->t};
}

static double rounded(const struct operand *o, int64_t r, int64_t c)
{
    const int64_t at = o->t ? c * (o->cols + MARGIN) + r : r * (o->cols + MARGIN) + c;

    return (double)f32_from_bf16(bf16_from_f32(o->p[at]));
}

/* c was `before` everywhere. Sums of n numbers in F32 are off by a few units of the last
 * place of the sum of their magnitudes. */
static void check_product(int row, const float *c, struct mm_size s,
                          const struct operand *a, const struct operand *b,
                          struct mm_how how, float before)
{
    const int64_t every = s.m * s.n * s.k > 4000000 ? 13 : 1;

    for (int64_t i = 0; i < s.m * s.n; i += every) {
        double sum = 0, size = 1e-6;
        for (int64_t k = 0; k < s.k; k++) {
            const double v = rounded(a, i / s.n, k) * rounded(b, k, i % s.n);
            sum += v;
            size += fabs(v);
        }
        const double want = (double)how.alpha * sum + (how.add ? (double)before : 0.0);
        const double slack = 4e-7 * ((double)fabsf(how.alpha) * size + 1.0);
        if (!(fabs((double)c[i] - want) <= slack))
            fail_msg("row %d: c[%d] = %.9g, not %.9g", row, (int)i, (double)c[i], want);
    }
}

/* Odd sizes, several tiles, sums that are cut (above 2048), all transposes, empty sums. */
static void test_products(void **state)
{
    static const struct {
        struct mm_size size;
        bool ta, tb;
        struct mm_how how;
    } rows[] = {
        {{1, 1, 1}, false, false, {1.0f, false}},
        {{3, 5, 7}, false, true, {1.0f, false}},
        {{17, 49, 33}, true, false, {0.5f, true}},
        {{64, 96, 64}, false, false, {1.0f, true}},
        {{65, 97, 31}, true, true, {-2.0f, false}},
        {{128, 577, 100}, false, true, {1.0f, false}},
        {{192, 576, 257}, true, false, {1.0f, true}},
        {{701, 63, 40}, false, false, {1.0f, false}},
        {{1, 600, 2049}, false, true, {1.0f, false}},
        {{33, 50, 4100}, true, false, {1.0f, true}},
        {{2050, 20, 40}, true, false, {1.0f, true}},
        {{20, 2100, 33}, false, true, {1.0f, false}},
        {{600, 700, 130}, true, true, {0.25f, true}},
        {{5, 9, 0}, false, false, {1.0f, false}},
        {{5, 9, 0}, false, false, {1.0f, true}},
    };
    struct rng r = rng_make(3);

    (void)state;
    for (int i = 0; i < (int)countof(rows); i++) {
        const struct mm_size s = rows[i].size;
        struct operand a = operand_make(&r, s.m, s.k, rows[i].ta);
        struct operand b = operand_make(&r, s.k, s.n, rows[i].tb);
        float *c = mem_calloc((size_t)(s.m * s.n), sizeof *c);
        const struct env e = {.k = &kernels, .dnn = dnn};
        for (int64_t k = 0; k < s.m * s.n; k++)
            c[k] = 1.5f;
        mm_bf16(&e, c, s.n, s, mat_of(&a), mat_of(&b), rows[i].how);
        check_product(i, c, s, &a, &b, rows[i].how, 1.5f);
        mem_free(a.p);
        mem_free(b.p);
        mem_free(c);
    }
}

/* Gradients of weights and of inputs, several tiles in each direction. */
static void test_threads(void **state)
{
    static const int threads[] = {1, 2, THREADS};
    const struct mm_size s = {700, 333, 2100};
    struct rng r = rng_make(5);
    struct operand a = operand_make(&r, s.m, s.k, true);
    struct operand b = operand_make(&r, s.k, s.n, false);
    float *c[countof(threads)];

    (void)state;
    for (size_t i = 0; i < countof(threads); i++) {
        const struct env e = {.pool = pool_new(threads[i]), .k = &kernels, .dnn = dnn};
        c[i] = mem_calloc((size_t)(s.m * s.n), sizeof *c[i]);
        mm_bf16(&e, c[i], s.n, s, mat_of(&a), mat_of(&b), (struct mm_how){1.0f, true});
        pool_free(e.pool);
        assert_memory_equal(c[0], c[i], (size_t)(s.m * s.n) * sizeof *c[0]);
    }
    for (size_t i = 0; i < countof(threads); i++)
        mem_free(c[i]);
    mem_free(a.p);
    mem_free(b.p);
}

static void test_refused(void **state)
{
    struct dnn *none = NULL;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(dnn_open(&none, CPU_AVX2, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "AVX512_BF16"));
    assert_null(none);
    assert_true(strncmp(dnn_name(dnn), "oneDNN ", 7) == 0);
    assert_true(dnn_bytes(2) > dnn_bytes(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refused),
    };
    const unsigned cpu = cpu_features();
    struct b2_err err = {0};

    kernels_init(&kernels, cpu);
    if (dnn_open(&dnn, cpu, &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    dnn_close(dnn);
    return rc;
}
