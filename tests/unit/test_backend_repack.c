/*
 * test_backend_repack.c - products of repacked weights have the bits of those in place.
 *
 * What is in place is compared with definitions elsewhere (test_backend_matmul); here one
 * scalar thread gives the bits that every form, level and number of threads must have.
 */
#include "unit/backend_fixture.h"

enum { MAX_T = 19, ALIGN = 64 };

static const enum dtype types[] = {DT_PTQ1_0, DT_TQ1_0, DT_PQ2_0,
                                   DT_TQ2_0,  DT_Q2_0,  DT_I2_S};
static const int threads[] = {1, 2, 7};

static struct fixture open_level(unsigned cpu, int n_threads, int64_t width)
{
    struct fixture f = {.pool = pool_new(n_threads)};
    struct backend_config cfg = {.pool = f.pool, .cpu = cpu};

    assert_non_null(f.pool);
    assert_int_equal(backend_cpu_new(&f.be, &cfg, NULL), B2_OK);
    assert_int_equal(act_new(&f.a, f.be, MAX_T, width, NULL), B2_OK);
    return f;
}

/* In two calls, the first a multiple of sixteen rows. */
static uint8_t *repack(struct fixture *f, const struct weight *w, enum repack_form form)
{
    uint8_t *sets = mem_aligned(ALIGN, 1, (size_t)backend_repack_bytes(w, form));
    int64_t first = w->rows / 2 / 16 * 16;

    assert_non_null(sets);
    if (first > 0)
        backend_repack(f->be, sets, w, form, 0, first);
    backend_repack(f->be, sets, w, form, first, w->rows - first);
    return sets;
}

static void check_form(struct fixture *f, const struct weight *w, enum repack_form form,
                       const float *x, const float *want)
{
    static const int64_t tokens[] = {1, 2, 3, 5, MAX_T};
    float *y = mem_calloc((size_t)(MAX_T * w->rows), sizeof *y);
    uint8_t *sets = repack(f, w, form);
    struct weight v = *w;

    assert_non_null(y);
    v.sets = sets;
    v.form = form;
    v.data = NULL; /* nothing may read the rows of the file */
    for (size_t i = 0; i < countof(tokens); i++) {
        set_act(f->a, x, tokens[i], w->cols);
        backend_matmul(f->be, y, &v, f->a);
        if (memcmp(y, want, (size_t)(tokens[i] * w->rows) * sizeof *y) != 0)
            fail_msg("%s form %d, %lld x %lld, %lld tokens, %s",
                     dtype_info(w->type)->name, (int)form, (long long)w->rows,
                     (long long)w->cols, (long long)tokens[i],
                     backend_kernel_name(f->be));
    }
    mem_free(sets);
    mem_free(y);
}

static void check_levels(const struct weight *w, const float *x, const float *want)
{
    const char *level;
    unsigned cpu;

    for (int i = 0; (level = cpu_level_at(i)); i++) {
        if (cpu_limit(&cpu, cpu_features(), level, NULL))
            continue;
        for (size_t t = 0; t < countof(threads); t++) {
            struct fixture f = open_level(cpu, threads[t], w->cols);
            for (int form = 0; form < REPACK_N_FORMS; form++)
                if (backend_can_repack(f.be, w, (enum repack_form)form))
                    check_form(&f, w, (enum repack_form)form, x, want);
            fixture_close(&f);
        }
    }
}

/* Rows that end within a set; widths that leave 0 to 4 groups after units of five. */
static void test_bits(void **state)
{
    static const int64_t shapes[][2] = {{1, 256}, {33, 768}, {150, 512}, {16, 1280}};
    struct rng r = rng_make(5);

    (void)state;
    for (size_t s = 0; s < countof(shapes); s++) {
        const int64_t rows = shapes[s][0], cols = shapes[s][1];
        float *x = random_floats(&r, MAX_T * cols);
        float *want = mem_calloc((size_t)(MAX_T * rows), sizeof *want);
        assert_non_null(want);
        for (size_t i = 0; i < countof(types); i++) {
            struct weight w = random_weight(&r, types[i], rows, cols);
            struct fixture f = open_level(0, 1, cols);
            for (int64_t t = 0; t < MAX_T; t++) {
                set_act(f.a, x + t * cols, 1, cols);
                backend_matmul(f.be, want + t * rows, &w, f.a);
            }
            fixture_close(&f);
            check_levels(&w, x, want);
            free_weight(&w);
        }
        mem_free(want);
        mem_free(x);
    }
}

/* What no form fits is refused: padded rows, exact mode, scalar code, other types. */
static void test_refused(void **state)
{
    struct rng r = rng_make(6);
    struct weight w = random_weight(&r, DT_PTQ1_0, 16, 256), q;
    struct fixture exact = fixture_open(variants[1], true, 1, 256);
    struct fixture scalar = fixture_open(variants[0], false, 1, 256);
    struct fixture best = fixture_open(variants[1], false, 1, 256);

    (void)state;
    assert_false(backend_can_repack(exact.be, &w, REPACK_2BITS));
    assert_false(backend_can_repack(scalar.be, &w, REPACK_TRITS));
    bool possible = backend_can_repack(best.be, &w, REPACK_TRITS);
    assert_int_equal(possible, (cpu_features() & CPU_AVX2) != 0);
    w.pad = 1;
    assert_false(backend_can_repack(best.be, &w, REPACK_TRITS));
    w.pad = 0;
    q = w;
    q.type = DT_PQ2_0; /* a code of 3 has no place in base 3 */
    assert_false(backend_can_repack(best.be, &q, REPACK_TRITS));
    q.type = DT_Q8_0;
    assert_false(backend_can_repack(best.be, &q, REPACK_2BITS));
    q = w;
    q.cols = 32768; /* sixteen rows of it do not fit the scratch */
    assert_false(backend_can_repack(best.be, &q, REPACK_2BITS));
    fixture_close(&best);
    fixture_close(&scalar);
    fixture_close(&exact);
    free_weight(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("repacked weights", tests, NULL, NULL);
}
