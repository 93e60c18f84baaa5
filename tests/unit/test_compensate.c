/*
 * test_compensate.c - error compensation against numpy, and the cases at its edges.
 */
#include "compress/compensate.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "base/rng.h"
#include "tensor/log8.h"
#include "tensor/quant.h"
#include "unit/unit.h"

#include <math.h>

static struct blas *blas;

/* Statistics of n tokens of d inputs; z may be x. */
static struct metric_sums sums_of(const float *x, const float *z, int64_t n, int64_t d,
                                  struct pool *pool)
{
    struct metric_sums s;

    assert_int_equal(metric_sums_new(&s, d, NULL), B2_OK);
    metric_sums_add(&s, blas, pool, x, z, n);
    return s;
}

struct result {
    uint8_t bytes[1 << 17];
    float values[1 << 16];
    struct compensate_out out;
};

static enum b2_status run(struct result *r, enum dtype type, const float *w,
                          int64_t rows, const struct metric_sums *s,
                          const struct rotate *rotate, double eta, int passes,
                          struct pool *pool, struct b2_err *err)
{
    const struct compensate_how how = {eta, passes, TERNARISE_LS, 0};
    struct codes codes;
    struct metric m = {0};
    float *target = NULL;
    enum b2_status rc = B2_OK;

    assert_true(codes_of(&codes, type));
    if (eta > 0.0) {
        target = mem_calloc((size_t)(s->d * s->d), sizeof *target);
        rc = metric_target(target, s, blas, pool, err);
    }
    if (!rc)
        rc = metric_new(&m, s, rotate, codes.group, codes.unit, blas, err);
    r->out = (struct compensate_out){.bytes = r->bytes, .values = r->values};
    if (!rc)
        rc = compensate_rows(&r->out, &codes, w, rows, &m, target, rotate, &how, blas,
                             pool, err);
    metric_free(&m);
    mem_free(target);
    return rc;
}

static float *floats_of(struct rd *r, int64_t n, float scale)
{
    float *v = mem_calloc((size_t)n, sizeof *v);

    for (int64_t i = 0; i < n; i++)
        v[i] = scale * (float)(int8_t)rd_u8(r);
    return v;
}

/* Codes and scales of a row of blocks of 64. */
static void split_row(enum dtype type, int8_t *codes, float *scales, const uint8_t *src,
                      int64_t d)
{
    const struct dtype_info *info = dtype_info(type);
    float value[64];

    if (info->flags & DTF_TERNARY) {
        quant_ternary_split(type, codes, scales, src, d);
        return;
    }
    for (int64_t g = 0; g < d / 64; g++, src += info->bytes) {
        scales[g] = f32_from_log8(src[info->bytes - 1]);
        quant_decode_row(type, value, src, 64);
        for (int i = 0; i < 64; i++)
            codes[g * 64 + i] = (int8_t)lrintf(value[i] / scales[g]);
    }
}

/* A golden file of type, whose blocks have 64 weights. */
static void check_numpy(const char *path, enum dtype type)
{
    static struct result got;
    const int row_bytes = 3 * dtype_info(type)->bytes;
    char *file;
    size_t size;
    struct b2_err err = {0};

    if (file_read_all(&file, &size, path, 1 << 22, &err))
        fail_msg("%s", err.msg);
    struct rd r = rd_make((const uint8_t *)file, size);
    int64_t d = rd_u32(&r), n = rd_u32(&r), rows = rd_u32(&r), cases = rd_u32(&r);
    float *x = floats_of(&r, n * d, 1.0f / 16), *z = floats_of(&r, n * d, 1.0f / 16);
    float *w = floats_of(&r, rows * d, 1.0f / 32);
    struct metric_sums s = sums_of(x, z, n, d, NULL);

    for (int64_t c = 0; c < cases; c++) {
        double eta = rd_f64(&r);
        int passes = (int)rd_u32(&r);
        int8_t codes[192];
        float scales[3] = {0};
        if (run(&got, type, w, rows, &s, NULL, eta, passes, NULL, &err))
            fail_msg("case %d: %s", (int)c, err.msg);
        const uint8_t *want = rd_bytes(&r, (size_t)(rows * d));
        for (int64_t row = 0; row < rows; row++) {
            split_row(type, codes, scales, got.bytes + row * row_bytes, d);
            assert_memory_equal(codes, want + row * d, (size_t)d);
            for (int g = 0; g < 3; g++) {
                const uint8_t *p = want + rows * d + (row * 3 + g) * 4;
                uint32_t bits = le_get32(p);
                float scale;
                memcpy(&scale, &bits, sizeof scale);
                ROW_CHECK(c, scales[g] == scale);
            }
        }
        rd_bytes(&r, (size_t)(rows * 3 * 4));
        double loss = rd_f64(&r);
        ROW_CHECK(c, fabs(got.out.loss - loss) < 1e-4 * loss);
    }
    assert_true(r.ok);
    metric_sums_free(&s);
    mem_free(x);
    mem_free(z);
    mem_free(w);
    mem_free(file);
}

static void test_numpy(void **state)
{
    (void)state;
    check_numpy(B2_GOLDEN_DIR "/compensate/small.bin", DT_B2_T64);
    check_numpy(B2_GOLDEN_DIR "/compensate/words.bin", DT_B2_C64);
    check_numpy(B2_GOLDEN_DIR "/compensate/odd4.bin", DT_B2_Q2);
    check_numpy(B2_GOLDEN_DIR "/compensate/odd8.bin", DT_B2_Q3);
}

/* Correlated inputs, where compensation has something to do. */
static void fill_inputs(float *x, int64_t n, int64_t d, struct rng *rng)
{
    for (int64_t t = 0; t < n; t++) {
        float common = (float)rng_normal(rng);
        for (int64_t i = 0; i < d; i++)
            x[t * d + i] = (float)rng_normal(rng) + common * (float)(i % 3);
    }
}

enum { D = 512, T = 700, ROWS = 70 };
static float x[T * D], w[ROWS * D];

static void fill(uint64_t seed)
{
    struct rng rng = rng_make(seed);

    fill_inputs(x, T, D, &rng);
    for (int i = 0; i < ROWS * D; i++)
        w[i] = 0.02f * (float)rng_normal(&rng);
}

/* For every type: the loss is far below that of plain rounding, falls with refinement,
 * and the values are what the bytes decode to. */
static void test_types(void **state)
{
    static const enum dtype types[] = {DT_B2_T64, DT_B2_C64, DT_B2_C128, DT_PTQ1_0,
                                       DT_TQ1_0,  DT_TQ2_0,  DT_Q2_0,    DT_PQ2_0,
                                       DT_B2_Q2,  DT_B2_Q3,  DT_Q4_0,    DT_Q4_1,
                                       DT_Q5_0,   DT_Q5_1,   DT_Q8_0};
    static struct result a, b;
    static float row[D];
    struct b2_err err = {0};

    (void)state;
    fill(1);
    struct metric_sums s = sums_of(x, x, T, D, NULL);
    for (size_t i = 0; i < countof(types); i++) {
        const struct fit_how how = {TERNARISE_LS, false};
        struct fit_stat stat;
        double plain = 0.0;
        if (run(&a, types[i], w, ROWS, &s, NULL, 0.0, 0, NULL, &err) ||
            run(&b, types[i], w, ROWS, &s, NULL, 0.0, 3, NULL, &err))
            fail_msg("%s: %s", dtype_info(types[i])->name, err.msg);
        int64_t row_bytes =
            D / dtype_info(types[i])->block * dtype_info(types[i])->bytes;
        for (int r = 0; r < ROWS; r++) { /* e H e of plain rounding, token by token */
            uint8_t enc[4 * D];
            assert_int_equal(fit_row(types[i], enc, w + r * D, D, &how, &stat, NULL),
                             B2_OK);
            quant_decode_row(types[i], row, enc, D);
            for (int64_t t = 0; t < T; t++) {
                double y = 0.0;
                for (int k = 0; k < D; k++)
                    y += (double)(w[r * D + k] - row[k]) * (double)x[t * D + k];
                plain += y * y / T;
            }
            quant_decode_row(types[i], row, b.bytes + r * row_bytes, D);
            assert_memory_equal(row, b.values + r * D, sizeof row);
        }
        ROW_CHECK(i, a.out.loss < 0.9 * plain);
        ROW_CHECK(i, b.out.loss <= a.out.loss * 1.0001);
        ROW_CHECK(i, b.out.stat.n == ROWS * D);
    }
    metric_sums_free(&s);
}

static void test_threads(void **state)
{
    static struct result a, b;
    struct pool *pool = pool_new(3);
    struct b2_err err = {0};

    (void)state;
    fill(2);
    struct rotate *rotate = rotate_new(ROTATE_EACH, 5);
    assert_int_equal(rotate_add_width(rotate, D, &err), B2_OK);
    struct metric_sums s = sums_of(x, x, T, D, NULL), t = sums_of(x, x, T, D, pool);
    assert_memory_equal(s.h, t.h, D * D * sizeof *s.h);
    assert_int_equal(run(&a, DT_B2_T64, w, ROWS, &s, rotate, 0.5, 2, NULL, &err),
                     B2_OK);
    assert_int_equal(run(&b, DT_B2_T64, w, ROWS, &t, rotate, 0.5, 2, pool, &err),
                     B2_OK);
    assert_memory_equal(a.bytes, b.bytes, ROWS * D / 64 * 14);
    /* The values are rotated back: near the weight, not near the rotated one. */
    double near = 0.0, energy = 0.0;
    for (int i = 0; i < ROWS * D; i++) {
        near += (double)((a.values[i] - w[i]) * (a.values[i] - w[i]));
        energy += (double)(w[i] * w[i]);
    }
    assert_true(near < energy);
    metric_sums_free(&s);
    metric_sums_free(&t);
    rotate_free(rotate);
    pool_free(pool);
}

/* Dead inputs, inputs that depend on each other, rows of zeros, fewer tokens than
 * columns, no input at all; NaN is refused. */
static void test_edges(void **state)
{
    static struct result r;
    struct b2_err err = {0};

    (void)state;
    fill(3);
    memset(w, 0, D * sizeof *w);
    for (int64_t t = 0; t < T; t++) {
        x[t * D + 7] = 0.0f;
        x[t * D + 8] = x[t * D + 9];
    }
    for (int i = 0; i < 3; i++) {
        static const int tokens[] = {T, 20, 0};
        struct metric_sums s = sums_of(x, x, tokens[i], D, NULL);
        if (run(&r, DT_B2_T64, w, ROWS, &s, NULL, 0.5, 2, NULL, &err))
            fail_msg("%s", err.msg);
        for (int k = 0; k < ROWS * D; k++)
            assert_true(isfinite(r.values[k]) && (k >= D || r.values[k] == 0.0f));
        assert_int_equal(r.out.stat.zero_groups, D / 64);
        assert_int_equal(r.out.stat.underflows, 0);
        metric_sums_free(&s);
    }
    x[5] = NAN;
    struct metric_sums s = sums_of(x, x, T, D, NULL);
    assert_int_equal(run(&r, DT_B2_T64, w, ROWS, &s, NULL, 0.5, 2, NULL, &err),
                     B2_EFORMAT);
    metric_sums_free(&s);
    fill(3);
    w[3 * D + 1] = 1e6f;
    s = sums_of(x, x, T, D, NULL);
    assert_int_equal(run(&r, DT_B2_T64, w, ROWS, &s, NULL, 0.0, 2, NULL, &err),
                     B2_EUNSUP);
    assert_non_null(strstr(err.msg, "row 3"));
    metric_sums_free(&s);
    /* The teacher's inputs are a million times as large: no weights make up for that. */
    static struct result plain;
    static float z[T * D];
    fill(3);
    for (int i = 0; i < T * D; i++)
        z[i] = 1e6f * x[i];
    s = sums_of(x, z, T, D, NULL);
    if (run(&r, DT_B2_T64, w, ROWS, &s, NULL, 0.5, 2, NULL, &err) ||
        run(&plain, DT_B2_T64, w, ROWS, &s, NULL, 0.0, 2, NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(r.out.uncorrected, ROWS);
    assert_int_equal(plain.out.uncorrected, 0);
    assert_memory_equal(r.bytes, plain.bytes, ROWS * D / 64 * 14);
    metric_sums_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_edges),
    };
    struct b2_err err = {0};

    if (blas_open(&blas, &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    blas_close(blas);
    return rc;
}
