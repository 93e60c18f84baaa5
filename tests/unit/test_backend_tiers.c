/*
 * test_backend_tiers.c - tables whose frequent rows have a type of their own: looked up
 * and multiplied like two tables, row by row where each one stands.
 */
#include "unit/backend_fixture.h"

enum { ROWS = 331, COLS = 576, MAX_T = 33 };

static const int64_t batches[] = {1, 2, 5, MAX_T};

/* Which rows are hot: the ends, neighbours and rows alone; or all but one; or one. */
static int64_t choose_rows(int kind, int32_t *row)
{
    int64_t n = 0;

    for (int32_t r = 0; r < ROWS; r++) {
        const bool some = r < 3 || r == ROWS - 1 || r % 17 == 0 || r % 17 == 1;
        if (kind == 0 ? some : kind == 1 ? r != 200 : r == 200)
            row[n++] = r;
    }
    return n;
}

struct table {
    struct weight w;
    struct weight_tiers t;
    int32_t row[ROWS];
};

static void make_table(struct table *tb, struct rng *r, enum dtype hot, enum dtype rare,
                       int kind)
{
    const int64_t n = choose_rows(kind, tb->row);

    tb->t = (struct weight_tiers){random_weight(r, hot, n, COLS),
                                  random_weight(r, rare, ROWS - n, COLS), tb->row};
    tb->w = tb->t.rare;
    tb->w.rows = ROWS;
    tb->w.tiers = &tb->t;
}

static void free_table(struct table *tb)
{
    free_weight(&tb->t.hot);
    free_weight(&tb->t.rare);
}

/* Both tables' products, row by row where they belong, by one scalar thread. */
static float *brute_force(const struct table *tb, const float *x, bool exact)
{
    struct fixture f = fixture_open(variants[0], exact, 1, COLS);
    float *want = mem_calloc((size_t)MAX_T * ROWS, sizeof *want);
    float *y = mem_calloc(ROWS, sizeof *y);
    const int64_t n = tb->t.hot.rows;

    assert_true(want && y);
    for (int64_t t = 0; t < MAX_T; t++) {
        set_act(f.a, x + t * COLS, 1, COLS);
        backend_matmul(f.be, y, &tb->t.hot, f.a);
        backend_matmul(f.be, y + n, &tb->t.rare, f.a);
        for (int64_t r = 0, h = 0; r < ROWS; r++) {
            const bool is_hot = h < n && tb->row[h] == r;
            want[t * ROWS + r] = is_hot ? y[h] : y[n + r - h];
            h += is_hot;
        }
    }
    mem_free(y);
    fixture_close(&f);
    return want;
}

static void check_products(const struct table *tb, const float *x, bool exact)
{
    float *want = brute_force(tb, x, exact);
    float *y = mem_calloc((size_t)MAX_T * ROWS, sizeof *y);

    assert_non_null(y);
    for (size_t v = 0; v < countof(variants); v++) {
        struct fixture f = fixture_open(variants[v], exact, MAX_T, COLS);
        for (size_t b = 0; b < countof(batches); b++) {
            set_act(f.a, x, batches[b], COLS);
            backend_matmul(f.be, y, &tb->w, f.a);
            if (memcmp(y, want, (size_t)batches[b] * ROWS * sizeof *y) != 0)
                fail_msg(
                    "%s over %s, %lld hot rows, %lld tokens, variant %zu, exact %d",
                    dtype_info(tb->t.hot.type)->name, dtype_info(tb->t.rare.type)->name,
                    (long long)tb->t.hot.rows, (long long)batches[b], v, exact);
        }
        fixture_close(&f);
    }
    mem_free(y);
    mem_free(want);
}

static void check_rows(const struct table *tb)
{
    struct fixture f = fixture_open(variants[1], false, 1, COLS);
    int32_t ids[ROWS];
    float *got = mem_calloc((size_t)ROWS * COLS, sizeof *got);
    float want[COLS];

    assert_non_null(got);
    for (int32_t r = 0; r < ROWS; r++)
        ids[r] = ROWS - 1 - r;
    backend_embed(f.be, got, &tb->w, ids, ROWS);
    for (int64_t i = 0, h = tb->t.hot.rows - 1; i < ROWS; i++) {
        const int64_t r = ids[i];
        const bool is_hot = h >= 0 && tb->row[h] == r;
        const struct weight *w = is_hot ? &tb->t.hot : &tb->t.rare;
        const int64_t at = is_hot ? h : r - (h + 1);
        quant_decode_row(w->type, want, w->data + (uint64_t)at * w->row_bytes, COLS);
        assert_memory_equal(got + i * COLS, want, sizeof want);
        h -= is_hot;
    }
    mem_free(got);
    fixture_close(&f);
}

static void test_tables(void **state)
{
    static const enum dtype pairs[][2] = {{DT_Q4_0, DT_B2_Q2},
                                          {DT_Q8_0, DT_B2_T64},
                                          {DT_F16, DT_Q4_0},
                                          {DT_B2_Q3, DT_Q2_0},
                                          {DT_F32, DT_F32}};
    struct rng r = rng_make(77);
    float *x = random_floats(&r, (int64_t)MAX_T * COLS);

    (void)state;
    for (size_t p = 0; p < countof(pairs); p++) {
        for (int kind = 0; kind < 3; kind++) {
            struct table tb;
            make_table(&tb, &r, pairs[p][0], pairs[p][1], kind);
            check_products(&tb, x, false);
            check_products(&tb, x, true);
            check_rows(&tb);
            free_table(&tb);
        }
    }
    mem_free(x);
}

/* Among others, which read the same activation; and a repacked tier. */
static void test_beside_others(void **state)
{
    struct rng r = rng_make(78);
    float *x = random_floats(&r, 3 * COLS);
    struct table tb;
    struct weight a = random_weight(&r, DT_Q8_0, 40, COLS);
    float *y[3], *want = mem_calloc(3 * ROWS, sizeof *want);
    const struct weight *const w[] = {&a, &tb.w, &a};
    struct fixture f = fixture_open(variants[2], false, 3, COLS);

    (void)state;
    make_table(&tb, &r, DT_Q4_0, DT_B2_T64, 0);
    for (int i = 0; i < 3; i++) {
        y[i] = mem_calloc(3 * ROWS, sizeof *y[i]);
        assert_non_null(y[i]);
    }
    assert_non_null(want);
    set_act(f.a, x, 3, COLS);
    backend_matmul_n(f.be, y, w, 3, f.a);
    backend_matmul(f.be, want, &a, f.a);
    assert_memory_equal(y[0], want, (size_t)(3 * a.rows) * sizeof *want);
    assert_memory_equal(y[2], want, (size_t)(3 * a.rows) * sizeof *want);
    backend_matmul(f.be, want, &tb.w, f.a);
    assert_memory_equal(y[1], want, 3 * ROWS * sizeof *want);
    if (backend_can_repack(f.be, &tb.t.rare, REPACK_2BITS)) {
        uint8_t *sets =
            mem_aligned(64, (size_t)backend_repack_bytes(&tb.t.rare, REPACK_2BITS), 1);
        assert_non_null(sets);
        backend_repack(f.be, sets, &tb.t.rare, REPACK_2BITS, 0, tb.t.rare.rows);
        tb.t.rare.sets = sets;
        tb.t.rare.form = REPACK_2BITS;
        set_act(f.a, x, 1, COLS);
        backend_matmul(f.be, y[1], &tb.w, f.a);
        assert_memory_equal(y[1], want, ROWS * sizeof *want);
        mem_free(sets);
    }
    for (int i = 0; i < 3; i++)
        mem_free(y[i]);
    mem_free(want);
    mem_free(x);
    fixture_close(&f);
    free_weight(&a);
    free_table(&tb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_beside_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
