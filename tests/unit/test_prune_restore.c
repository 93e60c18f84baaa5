/*
 * test_prune_restore.c - what stays of a matrix without some columns, against numpy
 * (tests/golden/prune). Skipped without OpenBLAS.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "compress/prune_restore.h"
#include "unit/unit.h"

#include <math.h>
#include <string.h>

static const double damps[] = PRUNE_DAMPS;

/* A set of the golden file. */
struct set {
    int64_t d, rows;
    float *w;
    uint8_t gone[64];
    struct metric_sums fit, held;
    struct prune_matrix m;
};

struct fixture {
    struct blas *blas;
    struct pool *pool;
    char *file;
    struct rd r;
    int n_sets;
};

static void start(struct fixture *f, int threads)
{
    size_t size;
    struct b2_err err = {0};

    *f = (struct fixture){0};
    if (blas_open(&f->blas, &err))
        skip();
    f->pool = pool_new(threads);
    assert_non_null(f->pool);
    if (file_read_all(&f->file, &size, B2_GOLDEN_DIR "/prune/small.bin", 1 << 20, &err))
        fail_msg("%s", err.msg);
    f->r = rd_make(f->file, size);
    f->n_sets = (int)rd_u32(&f->r);
}

static void stop(struct fixture *f)
{
    mem_free(f->file);
    pool_free(f->pool);
    blas_close(f->blas);
}

static float *floats_of(struct rd *r, int64_t n, float scale)
{
    float *v = mem_calloc((size_t)n, sizeof *v);

    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = scale * (float)(int8_t)rd_u8(r);
    return v;
}

static void read_set(struct set *s, struct fixture *f)
{
    *s = (struct set){.d = rd_u32(&f->r)};
    const int64_t fit = rd_u32(&f->r), held = rd_u32(&f->r), n = fit + held;

    s->rows = rd_u32(&f->r);
    assert_true(s->d <= (int64_t)sizeof s->gone);
    float *x = floats_of(&f->r, n * s->d, 1.0f / 16.0f);
    float *z = floats_of(&f->r, n * s->d, 1.0f / 16.0f);
    s->w = floats_of(&f->r, s->rows * s->d, 1.0f / 32.0f);
    for (int64_t i = 0; i < s->d; i++)
        s->gone[i] = rd_u8(&f->r);
    assert_int_equal(metric_sums_new(&s->fit, s->d, NULL), B2_OK);
    assert_int_equal(metric_sums_new(&s->held, s->d, NULL), B2_OK);
    metric_sums_add(&s->fit, f->blas, f->pool, x, z, fit);
    metric_sums_add(&s->held, f->blas, f->pool, x + fit * s->d, z + fit * s->d, held);
    s->m = (struct prune_matrix){.w = s->w,
                                 .rows = s->rows,
                                 .fit = &s->fit,
                                 .held = &s->held,
                                 .b = f->blas,
                                 .pool = f->pool};
    mem_free(x);
    mem_free(z);
}

static void free_set(struct set *s)
{
    metric_sums_free(&s->fit);
    metric_sums_free(&s->held);
    mem_free(s->w);
}

/* The solution for a given damping, and what it loses where it was solved. */
static void check_restore(struct fixture *f, struct set *s)
{
    float *out = mem_calloc((size_t)(s->rows * s->d), sizeof *out);
    const int n = (int)rd_u32(&f->r);
    double lost;

    for (int i = 0; i < n; i++) {
        s->m.eta = rd_f64(&f->r);
        const double damp = rd_f64(&f->r), want = rd_f64(&f->r);
        assert_int_equal(prune_restore(out, &s->m, s->gone, damp, NULL), B2_OK);
        for (int64_t k = 0; k < s->rows * s->d; k++)
            assert_true(fabs((double)out[k] - rd_f64(&f->r)) < 1e-4);
        assert_int_equal(prune_lost(&lost, &s->m, out, s->gone, NULL), B2_OK);
        assert_true(fabs(lost - want) < 1e-5);
    }
    mem_free(out);
}

/* The damping with the least loss on the held tokens, or none; ties may go either way. */
static void check_choice(struct fixture *f, struct set *s)
{
    static const double etas[] = {0.0, 0.5, 1.0};
    struct prune_choice got;

    for (size_t e = 0; e < countof(etas); e++) {
        double best, of_choice, left = rd_f64(&f->r);
        s->m.eta = etas[e];
        assert_int_equal(prune_choose(&got, &s->m, s->gone, NULL), B2_OK);
        best = of_choice = left;
        for (size_t i = 0; i < countof(damps); i++) {
            const double loss = rd_f64(&f->r);
            best = loss < best ? loss : best;
            if (fabs(got.damp - damps[i]) < 1e-12)
                of_choice = loss;
        }
        assert_true(fabs(of_choice - best) < 1e-5);
        assert_true(fabs(got.loss - best) < 1e-5);
        assert_true(fabs(got.left - left) < 1e-5);
    }
}

static void test_numpy(void **state)
{
    struct fixture f;
    struct set s;

    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        start(&f, threads);
        for (int i = 0; i < f.n_sets; i++) {
            read_set(&s, &f);
            check_restore(&f, &s);
            check_choice(&f, &s);
            free_set(&s);
        }
        assert_true(f.r.ok);
        stop(&f);
    }
}

/* Inputs that are always zero, in the whole matrix or in some columns: no NaN; a damping
 * of 0 gives back what stays. */
static void test_edges(void **state)
{
    enum { D = 8, ROWS = 3, TOKENS = 4 };
    static const float zero[TOKENS * D];
    const uint8_t gone[D] = {0, 1, 0, 0, 0, 0, 1, 0};
    float w[ROWS * D], out[ROWS * D];
    struct fixture f;
    struct metric_sums sums[2];
    struct prune_choice got;
    double lost;

    (void)state;
    start(&f, 1);
    for (int i = 0; i < ROWS * D; i++)
        w[i] = (float)(i % 5) - 2.0f;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(metric_sums_new(&sums[i], D, NULL), B2_OK);
        metric_sums_add(&sums[i], f.blas, f.pool, zero, zero, TOKENS);
    }
    const struct prune_matrix m = {w, ROWS, 0.5, &sums[0], &sums[1], f.blas, f.pool};
    assert_int_equal(prune_choose(&got, &m, gone, NULL), B2_OK);
    assert_true(got.damp == 0.0 && got.loss == 0.0 && got.left == 0.0);
    assert_int_equal(prune_lost(&lost, &m, NULL, gone, NULL), B2_OK);
    assert_true(lost == 0.0);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(prune_restore(out, &m, gone, k ? 0.01 : 0.0, NULL), B2_OK);
        for (int i = 0; i < ROWS * D; i++)
            assert_true(fabsf(out[i] - (gone[i % D] ? 0.0f : w[i])) < 1e-6f);
    }
    sums[0].h[0] = (double)NAN;
    assert_int_equal(prune_restore(out, &m, gone, 0.01, NULL), B2_EFORMAT);
    metric_sums_free(&sums[0]);
    metric_sums_free(&sums[1]);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy),
        cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
