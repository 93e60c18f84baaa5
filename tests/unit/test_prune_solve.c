/*
 * test_prune_solve.c - units that go, against brute force: every unit tried, every system
 * solved by plain elimination. Skipped without OpenBLAS.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "compress/prune_solve.h"
#include "unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { D = 12, ROWS = 5, TOKENS = 64 };

static const double DAMP = 1e-4;

static float x[TOKENS * D], z[TOKENS * D], w[ROWS * D];
static double H[D * D], C[D * D];

static void make_inputs(uint64_t seed)
{
    struct rng rng = rng_make(seed);

    for (int i = 0; i < TOKENS; i++)
        for (int k = 0; k < D; k++) {
            /* Neighbours depend on each other; column 7 is always zero. */
            double v = rng_normal(&rng) + (k ? 0.7 * (double)x[i * D + k - 1] : 0.0);
            x[i * D + k] = k == 7 ? 0.0f : (float)v;
            z[i * D + k] = k == 7 ? 0.0f : (float)(v + 0.1 * rng_normal(&rng));
        }
    for (int i = 0; i < ROWS * D; i++)
        w[i] = (float)rng_normal(&rng);
    memset(H, 0, sizeof H);
    memset(C, 0, sizeof C);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < D; i++)
            for (int k = 0; k < D; k++) {
                H[i * D + k] += (double)x[t * D + i] * (double)x[t * D + k] / TOKENS;
                C[i * D + k] += (double)z[t * D + i] * (double)x[t * D + k] / TOKENS;
            }
}

/* a [n, n] x = b in place, with pivots. */
static void eliminate(double *a, double *b, int n)
{
    for (int i = 0; i < n; i++) {
        int p = i;
        for (int r = i + 1; r < n; r++)
            p = fabs(a[r * n + i]) > fabs(a[p * n + i]) ? r : p;
        for (int k = 0; k < n; k++) {
            double t = a[i * n + k];
            a[i * n + k] = a[p * n + k];
            a[p * n + k] = t;
        }
        double t = b[i];
        b[i] = b[p];
        b[p] = t;
        for (int r = i + 1; r < n; r++) {
            double f = a[r * n + i] / a[i * n + i];
            for (int k = i; k < n; k++)
                a[r * n + k] -= f * a[i * n + k];
            b[r] -= f * b[i];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            b[i] -= a[i * n + k] * b[k];
        b[i] /= a[i * n + i];
    }
}

static double damping(void)
{
    double trace = 0.0;

    for (int i = 0; i < D; i++)
        trace += H[i * D + i];
    return DAMP * trace / D;
}

/* Row r restored without the marked columns; returns its loss against w, damped. */
static double restored_row(double *out, const uint8_t *gone, int r, double eta)
{
    int kept[D], n = 0;
    double a[D * D], b[D], l = damping(), loss = 0.0, e[D];

    for (int i = 0; i < D; i++)
        if (!gone[i])
            kept[n++] = i;
    for (int i = 0; i < n; i++) {
        b[i] = 0.0;
        for (int k = 0; k < n; k++)
            a[i * n + k] = H[kept[i] * D + kept[k]] + (i == k ? l : 0.0);
        for (int k = 0; k < D; k++)
            b[i] += (double)w[r * D + k] *
                    ((1.0 - eta) * H[k * D + kept[i]] + eta * C[k * D + kept[i]] +
                     (k == kept[i] ? l : 0.0));
    }
    eliminate(a, b, n);
    for (int i = 0; i < D; i++)
        out[i] = 0.0;
    for (int i = 0; i < n; i++)
        out[kept[i]] = b[i];
    for (int i = 0; i < D; i++)
        e[i] = (double)w[r * D + i] - out[i];
    for (int i = 0; i < D; i++)
        for (int k = 0; k < D; k++)
            loss += e[i] * (H[i * D + k] + (i == k ? l : 0.0)) * e[k];
    return loss;
}

static double loss_without(const uint8_t *gone)
{
    double row[D], sum = 0.0;

    for (int r = 0; r < ROWS; r++)
        sum += restored_row(row, gone, r, 0.0);
    return sum;
}

struct fixture {
    struct blas *blas;
    struct pool *pool;
    struct metric_sums sums;
};

static void start(struct fixture *f, uint64_t seed)
{
    struct b2_err err = {0};

    make_inputs(seed);
    if (blas_open(&f->blas, &err))
        skip();
    f->pool = pool_new(2);
    assert_non_null(f->pool);
    assert_int_equal(metric_sums_new(&f->sums, D, &err), B2_OK);
    metric_sums_add(&f->sums, f->blas, f->pool, x, z, TOKENS);
}

static void stop(struct fixture *f)
{
    metric_sums_free(&f->sums);
    pool_free(f->pool);
    blas_close(f->blas);
}

/* Each unit that goes is the one that all others can make up for best. */
static void test_pick(void **state)
{
    static const struct {
        int64_t size, part, more;
    } cases[] = {{1, 12, 6}, {2, 6, 3}, {3, 4, 2}, {3, 2, 1}, {1, 4, 2}};
    struct fixture f = {0};
    struct b2_err err = {0};

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        start(&f, 11 + c);
        const struct prune_units u = {D / cases[c].size, cases[c].size, cases[c].part,
                                      DAMP};
        uint8_t got[D] = {0}, want[D] = {0};
        float cost[D] = {0};
        assert_int_equal(prune_pick(got, cost, &u, cases[c].more, &f.sums, w, ROWS,
                                    f.blas, f.pool, &err),
                         B2_OK);
        for (int64_t i = 0; i < cases[c].more; i++)
            for (int64_t p = 0; p < u.n; p += u.part) {
                int64_t best = -1;
                double least = 0.0, before = loss_without(want);
                for (int64_t j = p; j < p + u.part; j++) {
                    uint8_t try[D];
                    memcpy(try, want, sizeof try);
                    if (want[j * u.size])
                        continue;
                    memset(try + j * u.size, 1, (size_t)u.size);
                    double loss =
                        u.size == 1 && j == 7 ? -1.0 : loss_without(try) - before;
                    if (best < 0 || loss < least) {
                        least = loss;
                        best = j;
                    }
                }
                memset(want + best * u.size, 1, (size_t)u.size);
                assert_int_equal(got[best], 1);
                if (least > 0.0)
                    assert_true(fabs((double)cost[best] - least) < 1e-3 * least);
            }
        stop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
