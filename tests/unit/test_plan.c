/*
 * test_plan.c - the planned bytes against hand arithmetic, the limit, and the memory that
 * the process really takes.
 */
#include "base/file.h"
#include "model/plan.h"

#include "unit/unit.h"
#include "unit/variant.h"

#include <stdlib.h>

static void test_arithmetic(void **state)
{
    struct model *m = NULL;
    struct rig r;
    struct plan a, b;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(model_open(&m, B2_STORIES, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&r, m, 1, false, NULL, NULL), B2_OK);
    assert_int_equal(
        plan_make(&a, m, r.be,
                  &(struct cache_params){.type = DT_F16, .ctx = 100, .batch = 10},
                  NULL),
        B2_OK);
    /* 2 (k, v) * 5 layers * 4 heads * 8 * 100 positions * 2 bytes */
    assert_int_equal(a.kv_bytes, 64000);
    /* F32: table 512*64; per layer q, o 64*64, k, v 64*32, ffn 3*64*172, norms 2*64; the
     * last norm. Norms count twice: mapped, and copied. */
    const uint64_t layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 172;
    assert_int_equal(a.weights_bytes,
                     4 * (512 * 64 + 5 * layer + 2 * (5 * 2 * 64 + 64)));
    assert_int_equal(a.state_bytes, 0);
    assert_int_equal(a.total_bytes, a.weights_bytes + a.kv_bytes + a.scratch_bytes);
    assert_int_equal(
        plan_make(&b, m, r.be,
                  &(struct cache_params){.type = DT_F16, .ctx = 200, .batch = 10},
                  NULL),
        B2_OK);
    assert_int_equal(b.kv_bytes, 128000);
    assert_int_equal(
        plan_make(&b, m, r.be,
                  &(struct cache_params){.type = DT_F16, .ctx = 100, .batch = 20},
                  NULL),
        B2_OK);
    assert_true(b.scratch_bytes > a.scratch_bytes);
    assert_int_equal(
        plan_make(&b, m, r.be,
                  &(struct cache_params){.type = DT_F16, .ctx = 10, .batch = 20}, &err),
        B2_EARG);
    assert_int_equal(
        plan_make(&b, m, r.be,
                  &(struct cache_params){.type = DT_F16, .ctx = 0, .batch = 1}, &err),
        B2_EARG);
    rig_close(&r);
    model_close(m);
}

static void test_limit(void **state)
{
    struct session_params sp = {.ctx = 100, .batch = 10, .mem_limit = 100000};
    struct model *m = NULL;
    struct rig r, none;
    struct plan plan;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(model_open(&m, B2_STORIES, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&r, m, 1, false, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&none, m, 1, false, &sp, &err), B2_ENOMEM);
    assert_non_null(strstr(err.msg, "over the limit of 100000"));
    assert_int_equal(
        plan_make(&plan, m, r.be,
                  &(struct cache_params){.type = DT_F16, .ctx = 100, .batch = 10},
                  NULL),
        B2_OK);
    sp.mem_limit = plan.total_bytes; /* exactly enough */
    assert_int_equal(rig_open(&none, m, 1, false, &sp, &err), B2_OK);
    rig_close(&none);
    rig_close(&r);
    model_close(m);
}

/* Fills a large cache and compares the growth of the process with the plan. The rest of
 * the process is what it had before the session. */
static void test_reality(void **state)
{
    const struct session_params sp = {.ctx = 512, .batch = 512};
    struct model *m = NULL;
    struct rig r;
    struct plan plan;
    int32_t ids[512];

    (void)state;
    assert_int_equal(model_open(&m, B2_STORIES, NULL, NULL), B2_OK);
    uint64_t before = file_peak_rss();
    assert_int_equal(rig_open(&r, m, 1, false, &sp, NULL), B2_OK);
    assert_int_equal(plan_make(&plan, m, r.be, session_cache(r.s), NULL), B2_OK);
    for (int i = 0; i < 512; i++)
        ids[i] = 3 + i % 500;
    assert_int_equal(session_sync(r.s, ids, 512, NULL, NULL), B2_OK);
    uint64_t grown = file_peak_rss() - before;
    if (before > 0 && grown > plan.total_bytes + (1 << 20))
        fail_msg("grew by %llu bytes, planned %llu", (unsigned long long)grown,
                 (unsigned long long)plan.total_bytes);
    rig_close(&r);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_reality),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
