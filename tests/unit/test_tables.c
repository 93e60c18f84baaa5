/*
 * test_tables.c - tables of tokens in the head's metric: what is compensated, each row as if
 * it were alone in its type, less lost at the head than by rounding; and which rows are the
 * frequent ones.
 */
#include "compress/table.h"

#include "base/mem.h"
#include "base/rng.h"
#include "compress/tiers.h"
#include "format/tiers.h"
#include "tensor/quant.h"
#include "unit/unit.h"

#include <string.h>

enum { D = 128, ROWS = 90, INPUTS = 400, HOT = 17 };

static struct blas *blas;

/* A tied table of random rows, and inputs of which a few directions are strong. */
struct world {
    float w[ROWS * D];
    struct recipe recipe;
    struct choose c;
    struct choose_item item;
    struct tensor t;
    struct table_metric metric;
};

static void make_world(struct world *x)
{
    struct rng r = rng_make(5);
    float *in = mem_calloc((size_t)INPUTS * D, sizeof *in);

    *x = (struct world){.recipe = {.effort = RECIPE_NORMAL}};
    assert_non_null(in);
    for (int i = 0; i < ROWS * D; i++)
        x->w[i] = (float)rng_normal(&r);
    x->t = (struct tensor){.name = TIERS_TABLE,
                           .type = DT_F32,
                           .rank = 2,
                           .ne = {D, ROWS, 1, 1},
                           .data = (const uint8_t *)x->w,
                           .n_bytes = sizeof x->w};
    x->item = (struct choose_item){
        .t = &x->t, .role = ROLE_EMBED, .layer = -1, .why = CHOOSE_BUDGET};
    x->c = (struct choose){
        .recipe = &x->recipe, .item = &x->item, .n = 1, .n_layers = 1, .tied = true};
    for (int i = 0; i < INPUTS; i++)
        for (int k = 0; k < D; k++)
            in[i * D + k] = (float)rng_normal(&r) * (k % 16 ? 0.2f : 2.0f) +
                            (k ? 0.7f * in[i * D + k - 1] : 0.0f);
    assert_int_equal(metric_sums_new(&x->metric.sums, D, NULL), B2_OK);
    metric_sums_add(&x->metric.sums, blas, NULL, in, NULL, INPUTS);
    x->metric.share = 1.0;
    mem_free(in);
}

static void free_world(struct world *x)
{
    table_metric_free(&x->metric);
    mem_free(x->c.rank);
    rotate_free(x->c.rotate);
}

static uint64_t row_bytes(enum dtype t)
{
    uint64_t n = 0;

    assert_int_equal(dtype_row_bytes(&n, t, D, NULL), B2_OK);
    return n;
}

static struct choose_candidate one_type(enum dtype t)
{
    return (struct choose_candidate){.type = t, .n_bytes = ROWS * row_bytes(t)};
}

static uint8_t *round_all(const struct world *x, const struct choose_candidate *cand)
{
    const struct table_job j = {.c = &x->c,
                                .it = &x->item,
                                .cand = cand,
                                .metric = &x->metric,
                                .passes = 2,
                                .blas = blas};
    uint8_t *bytes = mem_calloc((size_t)cand->n_bytes, 1);
    struct fit_stat stat = {0};
    struct b2_err err = {0};

    assert_non_null(bytes);
    if (table_round(bytes, &stat, &j, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(stat.n, ROWS * D);
    return bytes;
}

/* All rows by compensate_rows(), the metric made here. */
static uint8_t *by_hand(const struct world *x, enum dtype t)
{
    const struct compensate_how how = {0.0, 2, x->recipe.ternary_rule, 0};
    struct metric_sums sums = x->metric.sums;
    struct compensate_out out = {.bytes = mem_calloc(ROWS, (size_t)row_bytes(t))};
    struct metric m = {0};
    struct codes codes;
    double mean = 0;

    sums.h = mem_calloc((size_t)D * D, sizeof *sums.h);
    assert_true(sums.h && out.bytes && codes_of(&codes, t));
    for (int i = 0; i < D; i++)
        mean += x->metric.sums.h[i * D + i] / D;
    for (int i = 0; i < D * D; i++)
        sums.h[i] =
            x->metric.sums.h[i] + (i % (D + 1) == 0 ? x->metric.share * mean : 0.0);
    assert_int_equal(
        metric_new(&m, &sums, x->c.rotate, codes.group, codes.unit, blas, NULL), B2_OK);
    assert_int_equal(compensate_rows(&out, &codes, x->w, ROWS, &m, NULL, x->c.rotate,
                                     &how, blas, NULL, NULL),
                     B2_OK);
    metric_free(&m);
    mem_free(sums.h);
    return out.bytes;
}

static void test_rows(void **state)
{
    static const enum dtype types[] = {DT_B2_T64, DT_B2_Q2, DT_B2_Q3, DT_Q4_0};
    struct world x;

    (void)state;
    make_world(&x);
    for (size_t i = 0; i < countof(types); i++) {
        const struct choose_candidate cand = one_type(types[i]);
        uint8_t *got = round_all(&x, &cand), *want = by_hand(&x, types[i]);
        if (memcmp(got, want, (size_t)cand.n_bytes) != 0)
            fail_msg("%s", dtype_info(types[i])->name);
        mem_free(got);
        mem_free(want);
    }
    free_world(&x);
}

/* A head of its own is turned like a linear layer, and nobody looks it up. */
static void test_head(void **state)
{
    struct choose_candidate cand = one_type(DT_B2_T64);
    struct world x;

    (void)state;
    make_world(&x);
    x.item.role = ROLE_HEAD;
    x.c.tied = false;
    x.metric.share = 0.0;
    x.c.rotate = rotate_new(ROTATE_EACH, 9);
    assert_non_null(x.c.rotate);
    assert_int_equal(rotate_add_width(x.c.rotate, D, NULL), B2_OK);
    cand.fold = true;
    assert_true(table_compensable(&x.c, &x.item, &cand));
    uint8_t *got = round_all(&x, &cand), *want = by_hand(&x, DT_B2_T64);
    assert_memory_equal(got, want, (size_t)cand.n_bytes);
    cand.fold = false;
    uint8_t *plain = round_all(&x, &cand);
    assert_memory_not_equal(got, plain, (size_t)cand.n_bytes);
    mem_free(got);
    mem_free(want);
    mem_free(plain);
    free_world(&x);
}

/* What the head loses: e H eᵀ over all rows. */
static double lost(const struct world *x, enum dtype t, const uint8_t *bytes)
{
    double sum = 0;
    float e[D];

    for (int r = 0; r < ROWS; r++) {
        quant_decode_row(t, e, bytes + (uint64_t)r * row_bytes(t), D);
        for (int i = 0; i < D; i++)
            e[i] -= x->w[r * D + i];
        for (int i = 0; i < D; i++)
            for (int k = 0; k < D; k++)
                sum += (double)e[i] * (double)e[k] *
                       x->metric.sums.h[i < k ? i * D + k : k * D + i];
    }
    return sum;
}

static void test_gain(void **state)
{
    const struct choose_candidate cand = one_type(DT_B2_Q2);
    struct world x;
    struct fit_stat stat;

    (void)state;
    make_world(&x);
    uint8_t *got = round_all(&x, &cand), plain[ROWS * D];
    const struct fit_how how = choose_how(&x.c, &x.item);
    for (int r = 0; r < ROWS; r++)
        assert_int_equal(fit_row(DT_B2_Q2, plain + (uint64_t)r * row_bytes(DT_B2_Q2),
                                 x.w + r * D, D, &how, &stat, NULL),
                         B2_OK);
    assert_true(lost(&x, DT_B2_Q2, got) < 0.8 * lost(&x, DT_B2_Q2, plain));
    mem_free(got);
    free_world(&x);
}

/* Row 3 is everywhere, then 50 to 65; of rows as frequent the lower ones come first. */
static void test_tiers(void **state)
{
    int32_t ids[200], list[ROWS];
    struct world x;
    int n = 0;

    (void)state;
    make_world(&x);
    for (int i = 0; i < 100; i++)
        ids[n++] = 3;
    for (int i = 50; i < 66; i++)
        for (int k = 0; k < 3; k++)
            ids[n++] = i;
    ids[n++] = ROWS; /* of no row */
    x.item.candidate[x.item.n_candidates++] = one_type(DT_Q4_0);
    x.item.candidate[x.item.n_candidates++] = one_type(DT_B2_Q2);
    assert_int_equal(tiers_add(&x.c, ids, n, NULL), B2_OK);
    assert_int_equal(x.item.n_candidates, 6); /* no B2_Q3, so none with it */
    for (int i = 2; i < 6; i++) {
        const struct choose_candidate *cand = &x.item.candidate[i];
        struct choose_part part[2];
        char name[CHOOSE_NAME_MAX];
        assert_int_equal(choose_parts(&x.item, cand, part), 2);
        assert_true(part[0].rows == cand->n_hot && part[1].rows == ROWS - cand->n_hot);
        assert_true(part[1].at % CHOOSE_ALIGN == 0 && part[1].at >= part[0].n_bytes &&
                    part[1].at + part[1].n_bytes == cand->n_bytes);
        assert_non_null(strstr(choose_name(name, cand), "Q4_0 "));
    }
    struct choose_candidate cand = x.item.candidate[4];
    assert_int_equal(cand.n_hot, HOT + 1); /* a fifth */
    tiers_list(&x.c, &cand, ROWS, list);
    assert_true(list[0] == 0 && list[1] == 3 && list[2] == 50 && list[HOT] == 65);
    assert_true(list[HOT + 1] == 1 && list[HOT + 2] == 2 && list[ROWS - 1] == ROWS - 1);

    /* Each row is what it is in a table of its type. */
    uint8_t *got = round_all(&x, &cand), *hot = by_hand(&x, DT_Q4_0),
            *rare = by_hand(&x, DT_B2_Q2);
    struct weight_tiers t;
    const struct weight w = tiers_weight(&x.item, &cand, got, &t, list);
    for (int64_t r = 0; r < ROWS; r++) {
        int64_t at = r;
        const struct weight *tier = weight_of_row(&w, &at);
        const bool is_hot = choose_row_type(&x.c, &cand, r) == DT_Q4_0;
        const uint8_t *want = is_hot ? hot : rare;
        assert_ptr_equal(tier, is_hot ? &t.hot : &t.rare);
        assert_memory_equal(tier->data + (uint64_t)at * tier->row_bytes,
                            want + (uint64_t)r * tier->row_bytes, tier->row_bytes);
    }
    mem_free(got);
    mem_free(hot);
    mem_free(rare);
    free_world(&x);
}

static void test_which(void **state)
{
    struct world x;
    struct choose_candidate q2 = one_type(DT_B2_Q2), q8 = one_type(DT_Q8_0);

    (void)state;
    make_world(&x);
    assert_true(table_compensable(&x.c, &x.item, &q2));
    assert_false(table_compensable(&x.c, &x.item, &q8)); /* 255 levels */
    q2.copy = true;
    assert_false(table_compensable(&x.c, &x.item, &q2));
    q2.copy = false;
    x.c.tied = false; /* only looked up */
    assert_false(table_compensable(&x.c, &x.item, &q2));
    x.item.role = ROLE_HEAD;
    assert_true(table_compensable(&x.c, &x.item, &q2));
    x.recipe.metric_width = D - 1;
    assert_false(table_compensable(&x.c, &x.item, &q2));
    x.recipe.metric_width = D;
    x.recipe.layers = 1;
    assert_true(table_compensable(&x.c, &x.item, &q2));
    x.c.n_layers = 2; /* of which one is left out */
    assert_false(table_compensable(&x.c, &x.item, &q2));
    x.recipe.layers = 0;
    x.recipe.effort = RECIPE_FAST;
    assert_false(table_compensable(&x.c, &x.item, &q2));
    free_world(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_head),
        cmocka_unit_test(test_gain),  cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_which),
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
