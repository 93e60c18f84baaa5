/*
 * test_slab.c - how inputs are cut, and that a slab is what it would be alone.
 */
#include "compress/slab.h"

#include "base/mem.h"
#include "base/rng.h"
#include "unit/unit.h"

#include <string.h>

static struct blas *blas;

static void test_cut(void **state)
{
    static const struct {
        int64_t d, unit, limit;
        int n;
        int64_t widest;
    } rows[] = {
        {576, 64, 6144, 1, 576},      {17408, 1024, 6144, 3, 6144},
        {17408, 1024, 0, 1, 17408},   {192, 64, 64, 3, 64},
        {192, 64, 1, 3, 64},          {192, 64, 130, 2, 128},
        {17408, 17408, 64, 1, 17408}, {1 << 20, 64, 64, SLAB_MAX, 1 << 14},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        const struct slabs s = slabs_cut(rows[i].d, rows[i].unit, rows[i].limit);
        int64_t widest = 0;
        ROW_CHECK(i, s.n == rows[i].n && s.from[0] == 0 && s.from[s.n] == rows[i].d);
        for (int k = 0; k < s.n; k++) {
            ROW_CHECK(i, slab_width(&s, k) > 0 && s.from[k] % rows[i].unit == 0);
            widest = max_i64(widest, slab_width(&s, k));
        }
        ROW_CHECK(i, widest == rows[i].widest);
    }
}

enum { D = 192, HALF = 128, T = 300, ROWS = 9, ROW_BYTES = D / 64 * 14 };

/* One call of slab i with the statistics of its own columns. */
static void compensate(struct compensate_out *out, const struct slabs *s, int i,
                       const struct metric_sums *sums, const struct rotate *rotate,
                       const float *w)
{
    const struct compensate_how how = {0.5, 1, TERNARISE_LS, 0};
    int64_t d = slab_width(s, i);
    float *target = mem_calloc((size_t)(d * d), sizeof *target);
    struct codes codes;
    struct metric m = {0};

    assert_true(codes_of(&codes, DT_B2_T64));
    assert_int_equal(metric_target(target, sums, blas, NULL, NULL), B2_OK);
    assert_int_equal(metric_new(&m, sums, rotate, 64, codes.unit, blas, NULL), B2_OK);
    const struct slab_job j = {.slabs = s,
                               .i = i,
                               .codes = &codes,
                               .w = w,
                               .rows = ROWS,
                               .m = &m,
                               .target = target,
                               .rotate = rotate,
                               .how = &how,
                               .b = blas};
    assert_int_equal(slab_compensate(out, &j, NULL), B2_OK);
    metric_free(&m);
    mem_free(target);
}

static void copy_columns(float *dst, const float *src, int64_t rows, int64_t from,
                         int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(dst + r * n, src + r * D + from, (size_t)n * sizeof *dst);
}

/* The columns of a matrix in two slabs of 128 and 64: bytes, values and sums are those of
 * two matrices. The rotation's signs are those of the columns. */
static void test_alone(void **state)
{
    static float x[T * D], z[T * D], w[ROWS * D], values[ROWS * D];
    static float xs[T * D], zs[T * D], ws[ROWS * D], vs[ROWS * D];
    static uint8_t bytes[ROWS * ROW_BYTES], part[ROWS * ROW_BYTES];
    const struct slabs s = {.n = 2, .d = D, .from = {0, HALF, D}};
    struct compensate_out all = {.bytes = bytes, .values = values};
    struct rotate *r = rotate_new(64, 5);
    struct rng rng = rng_make(2);
    double loss = 0.0;

    (void)state;
    assert_int_equal(rotate_add_width(r, D, NULL), B2_OK);
    for (int i = 0; i < T * D; i++)
        z[i] = (x[i] = (float)rng_normal(&rng)) + 0.3f * (float)rng_normal(&rng);
    for (int i = 0; i < ROWS * D; i++)
        w[i] = 0.02f * (float)rng_normal(&rng);
    for (int i = 0; i < s.n; i++) {
        int64_t d = slab_width(&s, i), from = s.from[i];
        struct rotate *rs = slab_rotate(r, &s, i);
        const struct slabs one = slabs_cut(d, 64, 0);
        struct compensate_out alone = {.bytes = part, .values = vs};
        struct metric_sums wide, own;
        assert_int_equal(metric_sums_new(&wide, d, NULL), B2_OK);
        assert_int_equal(metric_sums_new(&own, d, NULL), B2_OK);
        wide.from = from;
        wide.stride = D;
        metric_sums_add(&wide, blas, NULL, x, z, T);
        copy_columns(xs, x, T, from, d);
        copy_columns(zs, z, T, from, d);
        copy_columns(ws, w, ROWS, from, d);
        metric_sums_add(&own, blas, NULL, xs, zs, T);
        assert_memory_equal(own.h, wide.h, (size_t)(d * d) * sizeof *own.h);
        assert_memory_equal(own.c, wide.c, (size_t)(d * d) * sizeof *own.c);
        compensate(&all, &s, i, &wide, rs, w);
        compensate(&alone, &one, 0, &own, rs, ws);
        for (int64_t row = 0; row < ROWS; row++) {
            assert_memory_equal(bytes + row * ROW_BYTES + from / 64 * 14,
                                part + row * d / 64 * 14, (size_t)(d / 64 * 14));
            assert_memory_equal(values + row * D + from, vs + row * d,
                                (size_t)d * sizeof *vs);
        }
        loss += alone.loss;
        metric_sums_free(&wide);
        metric_sums_free(&own);
        rotate_free(rs);
    }
    assert_true(all.loss == loss && all.stat.n == ROWS * D);
    /* A row folded whole and folded by slabs is the same. */
    copy_columns(ws, w, 1, 0, D);
    rotate_fold_row(r, ws, D);
    for (int i = 0; i < s.n; i++) {
        struct rotate *rs = slab_rotate(r, &s, i);
        rotate_fold_row(rs, w + s.from[i], slab_width(&s, i));
        rotate_free(rs);
    }
    assert_memory_equal(ws, w, D * sizeof *w);
    rotate_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_alone)};
    struct b2_err err = {0};

    if (blas_open(&blas, &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    blas_close(blas);
    return failed;
}
