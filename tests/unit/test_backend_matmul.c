/*
 * test_backend_matmul.c - matrix products of the CPU backend.
 *
 * Same bits in every batch shape, at every level and number of threads; values against
 * sums in double over decoded weights; rotations against USERS T08.
 */
#include "unit/backend_fixture.h"

enum { MAX_T = 64 };

static const int64_t batches[] = {1, 2, 3, 7, MAX_T};

/* y of the scalar kernels, one thread, token by token: what all others must equal. */
static float *reference(const struct weight *w, const float *x, bool exact)
{
    struct fixture f = fixture_open(variants[0], exact, 1, w->cols);
    float *y = mem_calloc((size_t)(MAX_T * w->rows), sizeof *y);

    assert_non_null(y);
    for (int64_t t = 0; t < MAX_T; t++) {
        set_act(f.a, x + t * w->cols, 1, w->cols);
        backend_matmul(f.be, y + t * w->rows, w, f.a);
    }
    fixture_close(&f);
    return y;
}

static void check_same_bits(const struct weight *w, const float *x, bool exact)
{
    float *want = reference(w, x, exact);
    float *y = mem_calloc((size_t)(MAX_T * w->rows), sizeof *y);

    assert_non_null(y);
    for (size_t v = 0; v < countof(variants); v++) {
        struct fixture f = fixture_open(variants[v], exact, MAX_T, w->cols);
        for (size_t b = 0; b < countof(batches); b++) {
            size_t bytes = (size_t)(batches[b] * w->rows) * sizeof *y;
            set_act(f.a, x, batches[b], w->cols);
            backend_matmul(f.be, y, w, f.a);
            if (memcmp(y, want, bytes) != 0)
                fail_msg("%s %lldx%lld, %lld tokens, avx2 %d, %d threads, exact %d",
                         dtype_info(w->type)->name, (long long)w->rows,
                         (long long)w->cols, (long long)batches[b], variants[v].avx2,
                         variants[v].threads, exact);
        }
        fixture_close(&f);
    }
    mem_free(y);
    mem_free(want);
}

static void test_same_bits(void **state)
{
    static const int64_t cols[] = {512, 172, 45};
    struct rng r = rng_make(3);

    (void)state;
    for (int t = 0; t < N_DTYPES; t++) {
        const struct dtype_info *info = dtype_info((enum dtype)t);
        for (size_t c = 0; c < countof(cols) && (info->flags & DTF_WEIGHT); c++) {
            if (cols[c] % info->block)
                continue;
            struct weight w = random_weight(&r, (enum dtype)t, 71, cols[c]);
            float *x = random_floats(&r, MAX_T * cols[c]);
            check_same_bits(&w, x, false);
            if (t == DT_F32 || t == DT_F16 || t == DT_Q4_1 || t == DT_PTQ1_0)
                check_same_bits(&w, x, true);
            mem_free(x);
            free_weight(&w);
        }
    }
}

/* One token against double. The error of the 8-bit path is at most half a step of each
 * activation times the weight, plus the rounding of the F32 sums. */
static void check_values(struct rng *r, enum dtype type, int64_t cols, bool exact)
{
    struct weight w = random_weight(r, type, 37, cols);
    float *x = random_floats(r, cols), *row = random_floats(r, cols), y[37];
    struct fixture f = fixture_open(variants[1], exact, 1, cols);
    bool in_8_bits = !exact && !(dtype_info(type)->flags & DTF_FLOAT);

    set_act(f.a, x, 1, cols);
    backend_matmul(f.be, y, &w, f.a);
    for (int64_t i = 0; i < w.rows; i++) {
        double sum = 0, mag = 0, bound = 0, step = 0;
        quant_decode_row(type, row, w.data + (uint64_t)i * w.row_bytes, cols);
        for (int64_t c = 0; dtype_info(type)->flags & DTF_APART && c < cols; c++)
            row[c] *= w.scale;
        for (int64_t c = 0; c < cols; c++) {
            if (c % 16 == 0) {
                double max = 0;
                for (int64_t k = c; k < c + 16 && k < cols; k++)
                    max = fmax(max, fabs((double)x[k]));
                step = max / 127;
            }
            sum += (double)row[c] * (double)x[c];
            mag += fabs((double)row[c] * (double)x[c]);
            bound += fabs((double)row[c]) * step / 2;
        }
        bound = (in_8_bits ? bound * 1.0001 : 0) +
                ((double)cols / 8 + 16) * (double)FLT_EPSILON * mag * 16;
        if (!(fabs((double)y[i] - sum) <= bound))
            fail_msg("%s row %lld: %g, double gives %g, bound %g",
                     dtype_info(type)->name, (long long)i, (double)y[i], sum, bound);
    }
    fixture_close(&f);
    mem_free(row);
    mem_free(x);
    free_weight(&w);
}

static void test_values(void **state)
{
    struct rng r = rng_make(4);

    (void)state;
    for (int t = 0; t < N_DTYPES; t++) {
        if (!(dtype_info((enum dtype)t)->flags & DTF_WEIGHT))
            continue;
        check_values(&r, (enum dtype)t, 1024, false);
        check_values(&r, (enum dtype)t, 1024, true);
    }
    check_values(&r, DT_F32, 172, true);
}

/* Wide rows: fewer fit the scratch than a tile has. */
static void test_wide_rows(void **state)
{
    struct rng r = rng_make(5);

    (void)state;
    check_values(&r, DT_PTQ1_0, 17408, false);
    check_values(&r, DT_Q4_1, 60032, false);
    check_values(&r, DT_F16, 60032, true);
}

/* y = rotated x, seen through an identity matrix. */
static void rotate(float *y, const float *x, const struct rotation *rot)
{
    int64_t n = rot->width;
    float *eye = mem_calloc((size_t)(n * n), sizeof *eye);
    struct fixture f = fixture_open(variants[1], true, 1, n);
    struct weight w = {.name = "eye",
                       .type = DT_F32,
                       .cols = n,
                       .rows = n,
                       .row_bytes = (uint64_t)n * sizeof *eye,
                       .rot = rot};

    assert_non_null(eye);
    for (int64_t i = 0; i < n; i++)
        eye[i * n + i] = 1.0f;
    w.data = (const uint8_t *)eye;
    set_act(f.a, x, 1, n);
    backend_matmul(f.be, y, &w, f.a);
    fixture_close(&f);
    mem_free(eye);
}

/* The inverse, seen through an embedding of one row. */
static void unrotate(float *y, const float *z, const struct rotation *rot)
{
    struct fixture f = fixture_open(variants[1], true, 1, rot->width);
    struct weight w = {.name = "row",
                       .type = DT_F32,
                       .cols = rot->width,
                       .rows = 1,
                       .data = (const uint8_t *)z,
                       .row_bytes = (uint64_t)rot->width * sizeof *z,
                       .rot = rot};
    const int32_t id = 0;

    backend_embed(f.be, y, &w, &id, 1);
    fixture_close(&f);
}

/* The worked examples of USERS T08. */
static void test_rotation_examples(void **state)
{
    static const float x[] = {1, 2, 3, 4}, signs[] = {1, -1, 1, 1};
    static const float plain[] = {5, -1, -2, 0}, with_signs[] = {3, 1, -4, 2};
    struct rotation rot = {.width = 4, .block = 4},
                    signed_rot = {.width = 4, .block = 4, .signs = signs};
    float y[4], unit[128] = {0}, z[128];
    struct rotation wide = {.width = 128, .block = 128};

    (void)state;
    rotate(y, x, &rot);
    assert_memory_equal(y, plain, sizeof y);
    rotate(y, plain, &rot);
    assert_memory_equal(y, x, sizeof y);
    rotate(y, x, &signed_rot);
    assert_memory_equal(y, with_signs, sizeof y);
    unrotate(y, with_signs, &signed_rot);
    assert_memory_equal(y, x, sizeof y);
    unit[77] = 1;
    rotate(z, unit, &wide);
    for (int i = 0; i < 128; i++)
        assert_true(fabs(fabs((double)z[i]) - 0.0883883) < 1e-6);
}

/* W' = W diag(s) H in double, by blocks: H[r][c] = (-1)^popcount(r & c) / sqrt(block). */
static void fold(float *out, const float *w, const struct rotation *rot)
{
    for (int64_t i = 0; i < rot->width; i++) {
        int64_t base = i / rot->block * rot->block;
        double sum = 0;
        for (int64_t c = 0; c < rot->block; c++) {
            bool odd = __builtin_popcountll((uint64_t)(c & (i - base))) & 1;
            double v = (double)w[base + c] * (double)rot->signs[base + c];
            sum += odd ? -v : v;
        }
        out[i] = (float)(sum / sqrt((double)rot->block));
    }
}

/* W x equals W' (H s x), F32 weights, in 1e-5 of the size of its terms. */
static void test_fold_is_neutral(void **state)
{
    enum { ROWS = 8, COLS = 1536 };
    struct rng r = rng_make(6);
    float *w = random_floats(&r, ROWS * COLS), *x = random_floats(&r, COLS);
    float *folded = random_floats(&r, ROWS * COLS), *signs = random_floats(&r, COLS);
    float y[ROWS];

    (void)state;
    for (int i = 0; i < COLS; i++)
        signs[i] = signs[i] < 0 ? -1.0f : 1.0f;
    for (int64_t block = 4; block <= 512; block *= 2) {
        struct rotation rot = {.width = COLS, .block = block, .signs = signs};
        struct weight fw = {.name = "folded",
                            .type = DT_F32,
                            .cols = COLS,
                            .rows = ROWS,
                            .data = (const uint8_t *)folded,
                            .row_bytes = COLS * sizeof(float),
                            .rot = &rot};
        struct fixture f = fixture_open(variants[1], true, 1, COLS);
        for (int64_t i = 0; i < ROWS; i++)
            fold(folded + i * COLS, w + i * COLS, &rot);
        set_act(f.a, x, 1, COLS);
        backend_matmul(f.be, y, &fw, f.a);
        for (int64_t i = 0; i < ROWS; i++) {
            double sum = 0, mag = 0;
            for (int64_t c = 0; c < COLS; c++) {
                sum += (double)w[i * COLS + c] * (double)x[c];
                mag += pow((double)w[i * COLS + c] * (double)x[c], 2);
            }
            assert_true(fabs((double)y[i] - sum) <= 1e-5 * sqrt(mag));
        }
        fixture_close(&f);
    }
    mem_free(signs);
    mem_free(folded);
    mem_free(x);
    mem_free(w);
}

/* Many weights in one call, plain and with two rotations, equal single calls; a changed
 * activation is not confused with the former one. */
static void test_matmul_n(void **state)
{
    enum { N = 11, COLS = 256, T = 3 };
    struct rng r = rng_make(7);
    struct rotation rot[2] = {{.width = COLS, .block = 128},
                              {.width = COLS, .block = 256}};
    struct weight w[N];
    const struct weight *wp[N];
    float *y[N], one[T * 80];

    (void)state;
    for (int i = 0; i < N; i++) {
        w[i] = random_weight(&r, i % 4 ? DT_PTQ1_0 : DT_F16, 40 + 3 * i, COLS);
        w[i].rot = i % 3 ? &rot[i / 3 % 2] : NULL;
        wp[i] = &w[i];
        y[i] = random_floats(&r, T * w[i].rows);
    }
    for (int v = 0; v < 3; v++) {
        struct fixture f = fixture_open(variants[v], false, T, COLS);
        for (int repeat = 0; repeat < 2; repeat++) {
            float *x = random_floats(&r, T * COLS);
            set_act(f.a, x, T, COLS);
            backend_matmul_n(f.be, y, wp, N, f.a);
            for (int i = N - 1; i >= 0; i--) {
                struct fixture g = fixture_open(variants[0], false, T, COLS);
                set_act(g.a, x, T, COLS);
                backend_matmul(g.be, one, &w[i], g.a);
                assert_memory_equal(one, y[i], (size_t)(T * w[i].rows) * 4);
                fixture_close(&g);
            }
            mem_free(x);
        }
        fixture_close(&f);
    }
    for (int i = 0; i < N; i++) {
        mem_free(y[i]);
        free_weight(&w[i]);
    }
}

/* After act_changed() neither the rotated nor the 8-bit form of the former x is used. */
static void test_changed_activation(void **state)
{
    enum { COLS = 128, ROWS = 20 };
    struct rng r = rng_make(13);
    struct rotation rot = {.width = COLS, .block = 128};
    struct weight w[3] = {random_weight(&r, DT_F32, ROWS, COLS),
                          random_weight(&r, DT_PQ2_0, ROWS, COLS),
                          random_weight(&r, DT_Q8_0, ROWS, COLS)};
    struct fixture f = fixture_open(variants[1], false, 1, COLS);
    float y[ROWS], want[ROWS];

    (void)state;
    w[0].rot = w[1].rot = &rot;
    for (int step = 0; step < 3; step++) {
        float *x = random_floats(&r, COLS);
        set_act(f.a, x, 1, COLS);
        for (size_t i = 0; i < countof(w); i++) {
            struct fixture fresh = fixture_open(variants[1], false, 1, COLS);
            set_act(fresh.a, x, 1, COLS);
            backend_matmul(f.be, y, &w[i], f.a);
            backend_matmul(fresh.be, want, &w[i], fresh.a);
            assert_memory_equal(y, want, sizeof y);
            fixture_close(&fresh);
        }
        mem_free(x);
    }
    fixture_close(&f);
    for (size_t i = 0; i < countof(w); i++)
        free_weight(&w[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_wide_rows),

        cmocka_unit_test(test_rotation_examples),
        cmocka_unit_test(test_fold_is_neutral),
        cmocka_unit_test(test_matmul_n),
        cmocka_unit_test(test_changed_activation),
    };

    return cmocka_run_group_tests_name("backend matmul", tests, NULL, NULL);
}
