/*
 * test_session.c - the same bits for any way to the same tokens; positions of every kind
 * against llama.cpp (golden/model/SOURCE.txt).
 */
#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>

enum { N = 300, V = 512 };

static struct model *model;
static int32_t ids[N];

static int open_model(void **state)
{
    struct b2_err err = {0};

    (void)state;
    for (int i = 0; i < N; i++)
        ids[i] = (7 * i * i + 3 * i) % 509 + 3;
    if (model_open(&model, B2_STORIES, NULL, &err) != B2_OK) {
        print_error("%s\n", err.msg);
        return 1;
    }
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    model_close(model);
    return 0;
}

static void open_rig(struct rig *r, int threads, bool exact, int64_t ctx, int64_t batch)
{
    const struct session_params sp = {.ctx = ctx, .batch = batch};
    struct b2_err err = {0};

    if (rig_open(r, model, threads, exact, &sp, &err) != B2_OK)
        fail_msg("%s", err.msg);
}

/* ---- against llama.cpp ---- */

static enum b2_status set_rope(struct meta *m, const char *type, float factor)
{
    assert_int_equal(meta_set_str(m, "llama.rope.scaling.type", type, NULL), B2_OK);
    return meta_set_f32(m, "llama.rope.scaling.factor", factor, NULL);
}

static enum b2_status base_keys(struct meta *m, struct b2_err *err)
{
    return meta_set_f32(m, "llama.rope.freq_base", 500000.0f, err);
}

static enum b2_status linear_keys(struct meta *m, struct b2_err *err)
{
    (void)err;
    return set_rope(m, "linear", 4);
}

static enum b2_status old_linear_keys(struct meta *m, struct b2_err *err)
{
    return meta_set_f32(m, "llama.rope.scale_linear", 4, err);
}

static enum b2_status yarn_keys(struct meta *m, struct b2_err *err)
{
    assert_int_equal(set_rope(m, "yarn", 4), B2_OK);
    return meta_set_u32(m, "llama.rope.scaling.original_context_length", 128, err);
}

static enum b2_status yarn_attn_keys(struct meta *m, struct b2_err *err)
{
    assert_int_equal(set_rope(m, "yarn", 2), B2_OK);
    return meta_set_f32(m, "llama.rope.scaling.attn_factor", 0.8f, err);
}

static const float factors[] = {1.0f, 1.5f, 4.0f, 8.0f};

static const struct {
    const char *name;
    struct variant v;
} variants[] = {
    {"plain", {0}},
    {"base", {.keys = base_keys}},
    {"linear", {.keys = linear_keys}},
    {"old_linear", {.keys = old_linear_keys}},
    {"yarn", {.keys = yarn_keys}},
    {"yarn_attn", {.keys = yarn_attn_keys}},
    {"factors",
     {.add = "rope_freqs.weight", .add_cols = 4, .add_rows = 1, .add_data = factors}},
};

static const struct {
    const char *name;
    float logits[3][8]; /* 300..307 at positions 7, 64, 299 */
} rope_golden[] = {
#include "golden/model/rope.inc"
};

static void test_rope_golden(void **state)
{
    static const int at[] = {7, 64, 299};
    const struct session_params sp = {.ctx = 512};
    static float logits[N * V];

    (void)state;
    assert_int_equal(countof(variants), countof(rope_golden));
    for (size_t i = 0; i < countof(variants); i++) {
        struct model *m = NULL;
        struct rig r;
        struct b2_err err = {0};
        if (variant_open(&m, &variants[i].v, NULL, &err) != B2_OK)
            fail_msg("%s: %s", variants[i].name, err.msg);
        assert_string_equal(variants[i].name, rope_golden[i].name);
        assert_int_equal(rig_open(&r, m, 2, true, &sp, NULL), B2_OK);
        assert_int_equal(session_eval(r.s, ids, N, logits, NULL), B2_OK);
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 8; j++) {
                float got = logits[at[k] * V + 300 + j];
                float want = rope_golden[i].logits[k][j];
                if (fabsf(got - want) > 0.02f) /* the caches are F16 */
                    fail_msg("%s position %d logit %d: %g, golden %g", variants[i].name,
                             at[k], 300 + j, (double)got, (double)want);
            }
        rig_close(&r);
        model_close(m);
    }
}

/* ---- one answer, many ways ---- */

static void logits_after(float *out, int threads, bool exact, int64_t batch)
{
    struct rig r;

    open_rig(&r, threads, exact, 320, batch);
    assert_int_equal(session_sync(r.s, ids, 60, NULL, NULL), B2_OK);
    memcpy(out, session_logits(r.s), V * sizeof *out);
    rig_close(&r);
}

static void test_same_bits(void **state)
{
    static const struct {
        int threads;
        int64_t batch;
    } ways[] = {{1, 512}, {1, 7}, {1, 1}, {2, 512}, {2, 7}, {7, 64}, {3, 1}};
    static float want[V], got[V];

    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        logits_after(want, 1, exact, 60);
        for (size_t i = 0; i < countof(ways); i++) {
            logits_after(got, ways[i].threads, exact, ways[i].batch);
            ROW_CHECK(i, memcmp(got, want, sizeof got) == 0);
        }
    }
}

/* Steps, whole-batch evaluation, prefix reuse and rewinding lead to the same logits. */
static void test_roads(void **state)
{
    static float want[V], all[60 * V];
    struct rig r;
    int64_t reused;

    (void)state;
    logits_after(want, 1, false, 60);
    open_rig(&r, 1, false, 320, 64);
    assert_null(session_logits(r.s));
    for (int i = 0; i < 60; i++)
        assert_int_equal(session_step(r.s, ids[i], NULL), B2_OK);
    assert_memory_equal(session_logits(r.s), want, sizeof want);

    session_rewind(r.s, 20);
    assert_null(session_logits(r.s));
    assert_int_equal(session_pos(r.s), 20);
    assert_int_equal(session_eval(r.s, ids + 20, 40, all, NULL), B2_OK);
    assert_memory_equal(all + 39 * V, want, sizeof want);
    assert_null(session_logits(r.s)); /* they went to the caller */

    /* The whole prompt is there already: only its last token runs again. */
    assert_int_equal(session_sync(r.s, ids, 60, &reused, NULL), B2_OK);
    assert_int_equal(reused, 59);
    assert_memory_equal(session_logits(r.s), want, sizeof want);

    /* Another continuation, then back: the common part is kept. */
    const int32_t other[] = {ids[0], ids[1], ids[2], 9, 9};
    assert_int_equal(session_sync(r.s, other, 5, &reused, NULL), B2_OK);
    assert_int_equal(reused, 3);
    assert_int_equal(session_pos(r.s), 5);
    assert_int_equal(session_sync(r.s, ids, 60, &reused, NULL), B2_OK);
    assert_int_equal(reused, 3);
    assert_memory_equal(session_logits(r.s), want, sizeof want);
    rig_close(&r);
}

/* A filled cache is as long as asked, the same for one seed, and gone without a trace. */
static void test_fill(void **state)
{
    static float want[V], first[V];
    struct rig r;

    (void)state;
    logits_after(want, 1, false, 60);
    open_rig(&r, 1, false, 320, 64);
    for (uint64_t seed = 1; seed <= 3; seed++) { /* 1, 1, 2 */
        assert_int_equal(session_fill(r.s, ids, 150, 1 + (seed > 2), NULL), B2_OK);
        assert_int_equal(session_pos(r.s), 150);
        assert_null(session_logits(r.s));
        assert_int_equal(session_step(r.s, ids[0], NULL), B2_OK);
        for (int i = 0; i < V; i++)
            assert_true(isfinite(session_logits(r.s)[i]));
        bool same = memcmp(first, session_logits(r.s), sizeof first) == 0;
        assert_int_equal(same, seed == 2);
        if (seed == 1)
            memcpy(first, session_logits(r.s), sizeof first);
    }
    assert_int_equal(session_fill(r.s, ids, 321, 1, NULL), B2_EARG);
    session_rewind(r.s, 0);
    assert_int_equal(session_sync(r.s, ids, 60, NULL, NULL), B2_OK);
    assert_memory_equal(session_logits(r.s), want, sizeof want);
    rig_close(&r);
}

/* ---- limits ---- */

static void test_limits(void **state)
{
    static float all[3 * V];
    const int32_t bad_high[] = {5, V}, bad_low[] = {-1};
    const struct session_params too_long = {.ctx = 513}, negative = {.batch = -1};
    struct rig r, none;
    struct b2_err err = {0};

    (void)state;
    open_rig(&r, 1, false, 16, 2);
    assert_int_equal(session_ctx(r.s), 16);
    assert_int_equal(session_batch(r.s), 2);
    assert_ptr_equal(session_model(r.s), model);
    assert_int_equal(session_sync(r.s, ids, 0, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "empty"));
    assert_int_equal(session_sync(r.s, ids, 17, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "17 tokens do not fit into the context of 16"));
    assert_int_equal(session_sync(r.s, bad_high, 2, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "token 512 at index 1"));
    assert_int_equal(session_sync(r.s, bad_low, 1, NULL, &err), B2_EARG);
    assert_int_equal(session_eval(r.s, ids, 3, all, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "batch is 2"));
    assert_int_equal(session_sync(r.s, ids, 16, NULL, NULL), B2_OK);
    assert_int_equal(session_step(r.s, 5, &err), B2_EARG);
    assert_int_equal(session_pos(r.s), 16);
    rig_close(&r);

    assert_int_equal(rig_open(&none, model, 1, false, &too_long, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "1..512"));
    assert_int_equal(rig_open(&none, model, 1, false, &negative, &err), B2_EARG);
}

/* A wish to stop is kept until a call sees it, and takes effect once. */
static void test_cancel(void **state)
{
    struct rig r;
    struct b2_err err = {0};

    (void)state;
    open_rig(&r, 1, false, 64, 8);
    assert_int_equal(session_sync(r.s, ids, 10, NULL, NULL), B2_OK);
    session_cancel(r.s);
    assert_int_equal(session_sync(r.s, ids, 40, NULL, &err), B2_ECANCEL);
    assert_int_equal(session_pos(r.s), 10); /* what was there stays */
    assert_null(session_logits(r.s));
    assert_int_equal(session_sync(r.s, ids, 40, NULL, NULL), B2_OK);
    rig_close(&r);
}

/* With one layer and a window of 5 only the last 5 tokens matter. Rotary positions are
 * relative, so the same 5 tokens alone give the same logits but for rounding. */
static enum b2_status window_keys(struct meta *m, struct b2_err *err)
{
    assert_int_equal(meta_set_u32(m, "llama.block_count", 1, NULL), B2_OK);
    return meta_set_u32(m, "llama.attention.sliding_window", 5, err);
}

/* Largest difference between logits and those after ids[from..from+n) alone. */
static float distance_alone(struct rig *r, int from, int n, const float *logits)
{
    float most = 0;

    assert_int_equal(session_sync(r->s, ids + from, n, NULL, NULL), B2_OK);
    for (int i = 0; i < V; i++)
        most = fmaxf(most, fabsf(session_logits(r->s)[i] - logits[i]));
    return most;
}

static void test_window(void **state)
{
    const struct session_params sp = {.ctx = 64, .batch = 16};
    static float far[V];
    struct model *m = NULL;
    struct rig r;

    (void)state;
    assert_int_equal(
        variant_open(&m, &(struct variant){.keys = window_keys}, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&r, m, 1, true, &sp, NULL), B2_OK);
    assert_int_equal(session_sync(r.s, ids, 40, NULL, NULL), B2_OK);
    memcpy(far, session_logits(r.s), sizeof far);
    float off_5 = distance_alone(&r, 35, 5, far),
          off_4 = distance_alone(&r, 36, 4, far),
          off_6 = distance_alone(&r, 34, 6, far);
    if (off_5 > 0.005f || off_4 < 4 * off_5 || off_6 > 0.005f)
        fail_msg("last 4 alone: off by %g, 5: %g, 6: %g", (double)off_4, (double)off_5,
                 (double)off_6);
    rig_close(&r);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_golden), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_roads),       cmocka_unit_test(test_fill),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_window),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
