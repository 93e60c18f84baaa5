/*
 * test_cache.c - sessions with rings, windows, sinks and small caches: the same answers
 * as whole caches where they must be, going back, and what is settled by memory.
 */
#include "model/settle.h"

#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>

enum { N = 200, V = 512, WINDOW = 24 };

static int32_t ids[N];

/* Heads of 32 values, which block types can hold: 2 heads, 1 for keys and values. */
static enum b2_status wide_heads(struct meta *m, struct b2_err *err)
{
    assert_int_equal(meta_set_u32(m, "llama.attention.head_count", 2, NULL), B2_OK);
    assert_int_equal(meta_set_u32(m, "llama.rope.dimension_count", 32, NULL), B2_OK);
    return meta_set_u32(m, "llama.attention.head_count_kv", 1, err);
}

static enum b2_status sliding(struct meta *m, struct b2_err *err)
{
    assert_int_equal(wide_heads(m, NULL), B2_OK);
    return meta_set_u32(m, "llama.attention.sliding_window", WINDOW, err);
}

static enum b2_status one_layer(struct meta *m, struct b2_err *err)
{
    assert_int_equal(wide_heads(m, NULL), B2_OK);
    return meta_set_u32(m, "llama.block_count", 1, err);
}

static struct model *open_variant(enum b2_status (*keys)(struct meta *,
                                                         struct b2_err *))
{
    struct model *m = NULL;
    struct b2_err err = {0};

    if (variant_open(&m, &(struct variant){.keys = keys}, NULL, &err) != B2_OK)
        fail_msg("%s", err.msg);
    return m;
}

static struct rig open_rig(const struct model *m, struct session_params sp, int threads)
{
    struct rig r;
    struct b2_err err = {0};

    if (rig_open(&r, m, threads, false, &sp, &err) != B2_OK)
        fail_msg("%s", err.msg);
    return r;
}

static void logits_of(float *out, const struct model *m, struct session_params sp,
                      int threads, int64_t n)
{
    struct rig r = open_rig(m, sp, threads);

    assert_int_equal(session_sync(r.s, ids, n, NULL, NULL), B2_OK);
    memcpy(out, session_logits(r.s), V * sizeof *out);
    rig_close(&r);
}

/* A batch as long as the context leaves no ring; small ones do. */
static void test_ring_has_the_bits_of_a_whole_cache(void **state)
{
    static const enum dtype types[] = {DT_F16, DT_Q8_0, DT_Q4_0};
    static const int64_t batches[] = {1, 7, 64};
    static float want[V], got[V];
    struct model *m = open_variant(sliding);

    (void)state;
    for (size_t t = 0; t < countof(types); t++) {
        struct session_params sp = {.ctx = N, .batch = N, .cache = types[t]};
        logits_of(want, m, sp, 1, N);
        for (size_t b = 0; b < countof(batches); b++) {
            sp.batch = batches[b];
            logits_of(got, m, sp, 2, N);
            ROW_CHECK(t * 10 + b, memcmp(got, want, sizeof got) == 0);
        }
    }
    model_close(m);
}

/* Going back a little is free, going back far runs everything again; both are exact. */
static void test_rewind_over_a_ring(void **state)
{
    static float want[V];
    const struct session_params sp = {.ctx = N, .batch = 8};
    struct model *m = open_variant(sliding);
    struct rig r = open_rig(m, sp, 1);
    int64_t reused;

    (void)state;
    assert_int_equal(session_sync(r.s, ids, 150, NULL, NULL), B2_OK);
    /* The ring has room for a batch before the window. */
    assert_int_equal(session_rewind(r.s, 145), 145);
    assert_int_equal(session_sync(r.s, ids, 150, &reused, NULL), B2_OK);
    assert_int_equal(reused, 145);
    logits_of(want, m, sp, 1, 150);
    assert_memory_equal(session_logits(r.s), want, sizeof want);

    assert_int_equal(session_sync(r.s, ids, 100, &reused, NULL), B2_OK);
    assert_int_equal(reused, 0);
    logits_of(want, m, sp, 1, 100);
    assert_memory_equal(session_logits(r.s), want, sizeof want);

    /* What was forgotten wrote over older positions: they do not come back. */
    assert_int_equal(session_sync(r.s, ids, 130, &reused, NULL), B2_OK);
    assert_int_equal(session_rewind(r.s, 125), 125);
    assert_int_equal(session_rewind(r.s, 123), 123);
    assert_int_equal(session_rewind(r.s, 110), 0);
    assert_int_equal(session_pos(r.s), 0);
    rig_close(&r);
    model_close(m);
}

/* Nothing is lost before the ring is full. */
static void test_rewind_before_the_ring_is_full(void **state)
{
    struct model *m = open_variant(sliding);
    struct rig r = open_rig(m, (struct session_params){.ctx = N, .batch = 8}, 1);

    (void)state;
    assert_int_equal(session_sync(r.s, ids, WINDOW + 7, NULL, NULL), B2_OK);
    assert_int_equal(session_rewind(r.s, 3), 3);
    rig_close(&r);
    model_close(m);
}

/* In one layer, what a token sees through a window with sinks is what it would see if the
 * tokens between were not there: the same logits as those tokens alone. */
static void test_window_with_sinks(void **state)
{
    enum { SINKS = 3, W = 9, AT = 120 };
    static float far[V], got[V];
    int32_t some[SINKS + W];
    struct session_params sp = {
        .ctx = N, .batch = 16, .window = W, .sinks = SINKS, .cache = DT_F16};
    struct model *m = open_variant(one_layer);

    (void)state;
    logits_of(far, m, sp, 1, AT);
    for (int i = 0; i < SINKS; i++)
        some[i] = ids[i];
    for (int i = 0; i < W; i++)
        some[SINKS + i] = ids[AT - W + i];
    struct rig r = open_rig(m, (struct session_params){.ctx = 64}, 1);
    assert_int_equal(session_sync(r.s, some, SINKS + W, NULL, NULL), B2_OK);
    memcpy(got, session_logits(r.s), sizeof got);
    float off = 0, without = 0;
    assert_int_equal(session_sync(r.s, some + SINKS, W, NULL, NULL), B2_OK);
    for (int i = 0; i < V; i++) {
        off = fmaxf(off, fabsf(got[i] - far[i]));
        without = fmaxf(without, fabsf(session_logits(r.s)[i] - far[i]));
    }
    if (off > 0.02f || without < 4 * off)
        fail_msg("off by %g with the sinks, %g without", (double)off, (double)without);
    rig_close(&r);
    model_close(m);
}

/* A window lets the context pass the training length in the same memory, and every batch
 * and number of threads gives the same bits there too. */
static void test_window_goes_on(void **state)
{
    enum { LONG = 700 };
    static int32_t many[LONG];
    static float want[V];
    struct session_params sp = {.ctx = LONG, .batch = 16, .window = 100};
    struct model *m = open_variant(NULL);
    struct plan a, b;
    struct rig r = open_rig(m, sp, 1);

    (void)state;
    for (int i = 0; i < LONG; i++)
        many[i] = (5 * i * i + i) % 509 + 3;
    assert_int_equal(session_sync(r.s, many, LONG, NULL, NULL), B2_OK);
    memcpy(want, session_logits(r.s), sizeof want);
    for (int i = 0; i < V; i++)
        assert_true(isfinite(want[i]));
    assert_int_equal(plan_make(&a, m, r.be, session_cache(r.s), NULL), B2_OK);
    rig_close(&r);
    sp.batch = 9;
    r = open_rig(m, sp, 2);
    assert_int_equal(session_sync(r.s, many, LONG, NULL, NULL), B2_OK);
    assert_memory_equal(session_logits(r.s), want, sizeof want);
    struct cache_params longer = {
        .type = DT_F16, .ctx = 100000, .batch = 16, .window = 100, .sinks = 4};
    assert_int_equal(plan_make(&b, m, r.be, &longer, NULL), B2_OK);
    assert_int_equal(a.kv_bytes, b.kv_bytes);
    rig_close(&r);
    model_close(m);
}

/* ---- what is settled ---- */

static char lines[4][300];
static int n_lines;

static void keep_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (n_lines < (int)countof(lines))
        snprintf(lines[n_lines++], sizeof lines[0], "%s", line);
}

static void test_settle(void **state)
{
    const struct log log = {.level = LOG_DEBUG, .sink = keep_line};
    struct model *m = open_variant(wide_heads);
    struct rig r = open_rig(m, (struct session_params){.ctx = 16}, 1);
    struct cache_params c, f16 = {.type = DT_F16, .ctx = 512, .batch = 32}, q8 = f16;
    struct session_params p = {.batch = 32, .log = &log};
    struct plan big, small;
    struct b2_err err = {0};

    (void)state;
    q8.type = DT_Q8_0;
    assert_int_equal(plan_make(&big, m, r.be, &f16, NULL), B2_OK);
    assert_int_equal(plan_make(&small, m, r.be, &q8, NULL), B2_OK);
    assert_true(small.total_bytes < big.total_bytes);

    /* Nothing asked, room enough: F16 and the training length (512), no note. */
    n_lines = 0;
    assert_int_equal(settle_params(&c, m, r.be, &p, &err), B2_OK);
    assert_int_equal(c.type, DT_F16);
    assert_int_equal(c.ctx, 512);
    assert_int_equal(n_lines, 0);

    /* Only 8 bits fit: taken, with one line that says so. */
    p.mem_limit = small.total_bytes;
    assert_int_equal(settle_params(&c, m, r.be, &p, &err), B2_OK);
    assert_int_equal(c.type, DT_Q8_0);
    assert_int_equal(n_lines, 1);
    assert_non_null(strstr(lines[0], "Q8_0"));

    /* F16 insisted on: refused with the numbers. */
    p.cache = DT_F16;
    p.ctx = 512;
    assert_int_equal(settle_params(&c, m, r.be, &p, &err), B2_ENOMEM);
    assert_non_null(strstr(err.msg, "context of 512"));
    assert_non_null(strstr(err.msg, "F16"));

    /* Longest contexts: exactly what fits. */
    int64_t n = settle_longest(m, r.be, &f16, small.total_bytes, 512);
    assert_int_equal(n, 0); /* not even the least */
    n = settle_longest(m, r.be, &f16, big.total_bytes, 100000);
    assert_int_equal(n, 512);
    assert_int_equal(settle_longest(m, r.be, &q8, small.total_bytes, 512), 512);
    rig_close(&r);
    model_close(m);
}

static void test_refused(void **state)
{
    struct model *m = open_variant(NULL); /* heads of 8 values */
    struct b2_err err = {0};
    struct rig r;

    (void)state;
    struct session_params sp = {.ctx = 64, .cache = DT_Q8_0};
    assert_int_equal(rig_open(&r, m, 1, false, &sp, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "multiple of 32"));
    sp = (struct session_params){.ctx = 513};
    assert_int_equal(rig_open(&r, m, 1, false, &sp, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "513"));
    assert_non_null(strstr(err.msg, "1..512"));
    sp = (struct session_params){.ctx = 64, .window = 600};
    assert_int_equal(rig_open(&r, m, 1, false, &sp, &err), B2_EARG);
    sp = (struct session_params){.ctx = 64, .window = 10, .sinks = 1000};
    assert_int_equal(rig_open(&r, m, 1, false, &sp, &err), B2_EARG);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_has_the_bits_of_a_whole_cache),
        cmocka_unit_test(test_rewind_over_a_ring),
        cmocka_unit_test(test_rewind_before_the_ring_is_full),
        cmocka_unit_test(test_window_with_sinks),
        cmocka_unit_test(test_window_goes_on),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_refused),
    };

    for (int i = 0; i < N; i++)
        ids[i] = (7 * i * i + 3 * i) % 509 + 3;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
