/*
 * test_backend_pad.c - weights whose stored rows are wider than they count.
 *
 * Padding is filled with values, not zeros: whatever it holds must not be seen. What the
 * columns give is compared with sums that never had any padding: the columns decoded to
 * F32 (exact mode), and an unpadded weight that meets an activation with zeros behind it
 * (8 bits), both on one scalar thread, token by token.
 */
#include "unit/backend_fixture.h"

#include "kernel/kernel.h"

enum { MAX_T = 64, ROWS = 71 };

static const int64_t batches[] = {1, 2, 3, 7, MAX_T};

/* The first cols of each row as F32, one after the other. */
static float *decode_cols(const struct weight *w)
{
    float *all = mem_calloc((size_t)weight_stored(w), sizeof *all);
    float *cols = mem_calloc((size_t)(w->rows * w->cols), sizeof *cols);

    assert_true(all && cols);
    for (int64_t r = 0; r < w->rows; r++) {
        quant_decode_row(w->type, all, w->data + (uint64_t)r * w->row_bytes,
                         weight_stored(w));
        for (int64_t i = 0; dtype_info(w->type)->flags & DTF_APART && i < w->cols; i++)
            all[i] *= w->scale; /* a power of two: no bit depends on the order */
        memcpy(cols + r * w->cols, all, (size_t)w->cols * sizeof *cols);
    }
    mem_free(all);
    return cols;
}

/* y of x [MAX_T, cols] without any padding in the weight. Rotated inputs are given. */
static float *brute_force(const struct weight *w, const float *x, bool exact)
{
    int64_t stored = weight_stored(w), width = exact ? w->cols : stored;
    struct fixture f = fixture_open(variants[0], exact, 1, stored);
    float *y = mem_calloc((size_t)(MAX_T * w->rows), sizeof *y);
    float *row = mem_calloc((size_t)stored, sizeof *row), *cols = decode_cols(w);
    struct weight plain = *w;

    assert_true(y && row);
    plain.pad = 0;
    plain.rot = NULL;
    plain.cols = width;
    if (exact) {
        plain.type = DT_F32;
        plain.data = (const uint8_t *)cols;
        plain.row_bytes = (uint64_t)width * sizeof *cols;
    }
    for (int64_t t = 0; t < MAX_T; t++) {
        memcpy(row, x + t * w->cols, (size_t)w->cols * sizeof *row);
        set_act(f.a, row, 1, width);
        backend_matmul(f.be, y + t * w->rows, &plain, f.a);
    }
    fixture_close(&f);
    mem_free(cols);
    mem_free(row);
    return y;
}

static void check_pad(const struct weight *w, const float *x, const float *turned,
                      bool exact)
{
    float *want = brute_force(w, w->rot ? turned : x, exact);
    float *y = mem_calloc((size_t)(MAX_T * w->rows), sizeof *y);

    assert_non_null(y);
    for (size_t v = 0; v < countof(variants); v++) {
        struct fixture f = fixture_open(variants[v], exact, MAX_T, w->cols);
        for (size_t b = 0; b < countof(batches); b++) {
            set_act(f.a, x, batches[b], w->cols);
            backend_matmul(f.be, y, w, f.a);
            if (memcmp(y, want, (size_t)(batches[b] * w->rows) * sizeof *y) != 0)
                fail_msg("%s, %lld of %lld columns, %lld tokens, avx2 %d, %d threads, "
                         "exact %d, rotated %d",
                         dtype_info(w->type)->name, (long long)w->cols,
                         (long long)weight_stored(w), (long long)batches[b],
                         variants[v].avx2, variants[v].threads, exact, w->rot != NULL);
        }
        fixture_close(&f);
    }
    mem_free(y);
    mem_free(want);
}

/* H s x for every token, as the runtime's kernels compute it. */
static float *turn(const float *x, const struct rotation *rot)
{
    struct kernels k;
    float *y = mem_calloc((size_t)(MAX_T * rot->width), sizeof *y);

    assert_non_null(y);
    kernels_init(&k, 0);
    for (int64_t t = 0; t < MAX_T; t++) {
        float *row = y + t * rot->width;
        k.mul(row, x + t * rot->width, rot->signs, rot->width);
        k.fwht(row, rot->width, rot->block);
    }
    return y;
}

static struct weight padded_weight(struct rng *r, enum dtype t, int64_t rows,
                                   int64_t cols)
{
    int64_t block = dtype_info(t)->block;
    int64_t stored = (cols + block - 1) / block * block;
    struct weight w = random_weight(r, t, rows, stored);

    w.cols = cols;
    w.pad = stored - cols;
    return w;
}

/* Every type that has groups; columns that are and are not a multiple of 32 and 16. */
static void test_matmul(void **state)
{
    static const int64_t cols[] = {576, 600, 577, 40, 1};
    struct rng r = rng_make(21);

    (void)state;
    for (size_t c = 0; c < countof(cols); c++) {
        float *x = random_floats(&r, MAX_T * cols[c]);
        float *signs = random_floats(&r, cols[c]);
        for (int64_t i = 0; i < cols[c]; i++)
            signs[i] = signs[i] < 0 ? -1.0f : 1.0f;
        struct rotation rot = {
            .width = cols[c], .block = cols[c] % 8 ? 1 : 8, .signs = signs};
        float *turned = turn(x, &rot);
        for (int t = 0; t < N_DTYPES; t++) {
            const struct dtype_info *info = dtype_info((enum dtype)t);
            if (!(info->flags & DTF_WEIGHT) || info->block == 1)
                continue;
            struct weight w = padded_weight(&r, (enum dtype)t, ROWS, cols[c]);
            check_pad(&w, x, NULL, false);
            check_pad(&w, x, NULL, true);
            w.rot = &rot;
            check_pad(&w, x, turned, false);
            if (t == DT_PTQ1_0)
                check_pad(&w, x, turned, true);
            free_weight(&w);
        }
        mem_free(turned);
        mem_free(signs);
        mem_free(x);
    }
}

/* Weights of one width that is stored in five ways, plain and rotated, in one call. */
static void test_matmul_n(void **state)
{
    static const enum dtype types[] = {DT_F32,  DT_PTQ1_0, DT_TQ1_0, DT_Q2_0,
                                       DT_Q4_1, DT_F16,    DT_PQ2_0};
    enum { N = countof(types), COLS = 576, T = 3, ONE = 40 };
    struct rng r = rng_make(22);
    struct rotation rot = {.width = COLS, .block = 64};
    float *x = random_floats(&r, T * COLS), *y[N], one[T * ONE];
    const struct weight *wp[N];
    struct weight w[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        w[i] = padded_weight(&r, types[i], ONE, COLS);
        w[i].rot = i % 3 == 1 ? &rot : NULL;
        wp[i] = &w[i];
        y[i] = random_floats(&r, T * ONE);
    }
    for (int v = 0; v < 3; v++) {
        struct fixture f = fixture_open(variants[v], false, T, COLS);
        set_act(f.a, x, T, COLS);
        backend_matmul_n(f.be, y, wp, N, f.a);
        for (int i = 0; i < N; i++) {
            struct fixture g = fixture_open(variants[0], false, T, COLS);
            set_act(g.a, x, T, COLS);
            backend_matmul(g.be, one, &w[i], g.a);
            assert_memory_equal(one, y[i], sizeof one);
            fixture_close(&g);
        }
        fixture_close(&f);
    }
    for (int i = 0; i < N; i++) {
        mem_free(y[i]);
        free_weight(&w[i]);
    }
    mem_free(x);
}

/* Rows of a table without their padding, one after the other. */
static void test_embed(void **state)
{
    static const int32_t ids[] = {3, 0, 7, 7, 5};
    enum { COLS = 200, N = countof(ids) };
    struct rng r = rng_make(23);
    struct weight w = padded_weight(&r, DT_TQ1_0, 8, COLS);
    float *cols = decode_cols(&w), out[N * COLS + 1];

    (void)state;
    for (size_t v = 0; v < countof(variants); v++) {
        struct fixture f = fixture_open(variants[v], false, 1, COLS);
        memset(out, 0, sizeof out);
        out[N * COLS] = 7.0f; /* nothing is written behind the last row */
        backend_embed(f.be, out, &w, ids, N);
        for (int i = 0; i < N; i++)
            assert_memory_equal(out + i * COLS, cols + ids[i] * COLS,
                                COLS * sizeof(float));
        assert_true(out[N * COLS] == 7.0f);
        fixture_close(&f);
    }
    mem_free(cols);
    free_weight(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_matmul_n),
        cmocka_unit_test(test_embed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
