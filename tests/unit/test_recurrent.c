/*
 * test_recurrent.c - states of gated delta nets: checkpoints, going back, memory, bits.
 *
 * On the tiny Qwen 3.5 of golden/arch. Whatever the way to a sequence of tokens, the
 * logits are the bits of a session that never saw anything else.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "model/plan.h"
#include "model/recurrent.h"
#include "model/settle.h"
#include "unit/unit.h"
#include "unit/variant.h"

enum { V = 320, N = 300 };

static struct model *model;
static int32_t ids[N], other[N];

static int open_model(void **state)
{
    struct b2_err err = {0};

    (void)state;
    for (int i = 0; i < N; i++) {
        ids[i] = (7 * i * i + 3 * i) % 317 + 2;
        other[i] = (5 * i * i + i) % 317 + 2;
    }
    if (model_open(&model, B2_GOLDEN_DIR "/arch/qwen35", NULL, &err) != B2_OK) {
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

static void open_rig(struct rig *r, int threads, int64_t batch, int checkpoints)
{
    const struct session_params sp = {
        .ctx = N, .batch = batch, .checkpoints = checkpoints};
    struct b2_err err = {0};

    if (rig_open(r, model, threads, false, &sp, &err) != B2_OK)
        fail_msg("%s", err.msg);
}

static void fresh(float *out, const int32_t *tokens, int64_t n)
{
    struct rig r;

    open_rig(&r, 1, N, -1);
    assert_int_equal(session_sync(r.s, tokens, n, NULL, NULL), B2_OK);
    memcpy(out, session_logits(r.s), V * sizeof *out);
    rig_close(&r);
}

static void check(struct session *s, const float *want, const char *what)
{
    if (!session_logits(s) || memcmp(session_logits(s), want, V * sizeof *want) != 0)
        fail_msg("%s: other logits than those of a fresh run", what);
}

static void test_threads_and_batches(void **state)
{
    static const struct {
        int threads;
        int64_t batch;
    } ways[] = {{1, 7}, {2, 64}, {7, 300}, {7, 1}, {3, 13}};
    static float want[V];

    (void)state;
    fresh(want, ids, 120);
    for (size_t i = 0; i < countof(ways); i++) {
        struct rig r;
        open_rig(&r, ways[i].threads, ways[i].batch, 0);
        assert_int_equal(session_sync(r.s, ids, 120, NULL, NULL), B2_OK);
        check(r.s, want, "batches");
        rig_close(&r);
    }
}

/* A prompt that comes back runs one token; what is cut off is run again. */
static void test_roads(void **state)
{
    static float at_60[V], at_100[V];
    int64_t reused;
    struct rig r;

    (void)state;
    fresh(at_60, ids, 60);
    fresh(at_100, ids, 100);
    open_rig(&r, 1, 64, 2);
    assert_int_equal(session_sync(r.s, ids, 60, &reused, NULL), B2_OK);
    assert_int_equal(reused, 0);
    check(r.s, at_60, "first run");
    assert_int_equal(session_sync(r.s, ids, 60, &reused, NULL), B2_OK);
    assert_int_equal(reused, 59);
    check(r.s, at_60, "the same prompt");

    for (int i = 60; i < 100; i++)
        assert_int_equal(session_step(r.s, ids[i], NULL), B2_OK);
    check(r.s, at_100, "steps");
    assert_int_equal(session_sync(r.s, ids, 60, &reused, NULL), B2_OK);
    assert_int_equal(reused, 59); /* the mark of the prompt is still there */
    check(r.s, at_60, "back to the prompt");

    /* No checkpoint before 59: back to the start. */
    assert_int_equal(session_rewind(r.s, 20), 0);
    assert_int_equal(session_pos(r.s), 0);
    assert_null(session_logits(r.s));
    assert_int_equal(session_sync(r.s, ids, 100, &reused, NULL), B2_OK);
    assert_int_equal(reused, 0);
    check(r.s, at_100, "after rewinding");
    /* 64 is where the first batch ended: a mark, too. */
    assert_int_equal(session_sync(r.s, ids, 80, &reused, NULL), B2_OK);
    assert_int_equal(reused, 64);
    rig_close(&r);
}

/* Without checkpoints everything runs again, and the answer is the same. */
static void test_none(void **state)
{
    static float want[V];
    int64_t reused;
    struct rig r;

    (void)state;
    fresh(want, ids, 60);
    open_rig(&r, 1, 64, -1);
    assert_int_equal(session_sync(r.s, ids, 60, NULL, NULL), B2_OK);
    assert_int_equal(session_sync(r.s, ids, 60, &reused, NULL), B2_OK);
    assert_int_equal(reused, 0);
    check(r.s, want, "again from the start");
    rig_close(&r);
}

/* Random prompts over two texts with common beginnings, steps and rewinds in between. */
static void test_random_roads(void **state)
{
    static const int checkpoints[] = {-1, 1, 2, 3, 8};
    struct rng rng = rng_make(5);
    static float want[V];
    int32_t text[N];

    (void)state;
    for (size_t k = 0; k < countof(checkpoints); k++) {
        struct rig r;
        open_rig(&r, 2, 32, checkpoints[k]);
        for (int turn = 0; turn < 30; turn++) {
            int64_t common = (int64_t)rng_below(&rng, 250);
            int64_t n = common + 1 + (int64_t)rng_below(&rng, 40);
            for (int64_t i = 0; i < n; i++)
                text[i] = i < common ? ids[i] : other[(i + turn) % N];
            if (turn % 3 == 0)
                session_rewind(r.s, (int64_t)rng_below(&rng, N));
            assert_int_equal(session_sync(r.s, text, n, NULL, NULL), B2_OK);
            for (int i = 0; i < turn % 4; i++, n++) {
                text[n] = ids[n];
                assert_int_equal(session_step(r.s, text[n], NULL), B2_OK);
            }
            if (turn % 5 == 0) {
                fresh(want, text, n);
                check(r.s, want, "random road");
            }
        }
        rig_close(&r);
    }
}

/* Attention layers that slide a window keep rings, which forget: both kinds of memory must
 * agree on where to go on. */
static void test_window(void **state)
{
    const struct session_params sp = {
        .ctx = N, .batch = 16, .checkpoints = 3, .window = 24, .sinks = 2};
    struct rng rng = rng_make(6);
    static float want[V];
    int32_t text[N];
    struct rig r, once;

    (void)state;
    assert_int_equal(rig_open(&r, model, 2, false, &sp, NULL), B2_OK);
    assert_true(r.s != NULL);
    for (int turn = 0; turn < 24; turn++) {
        int64_t common = (int64_t)rng_below(&rng, 250);
        int64_t n = common + 1 + (int64_t)rng_below(&rng, 40);
        for (int64_t i = 0; i < n; i++)
            text[i] = i < common ? ids[i] : other[(i + turn) % N];
        if (turn % 3 == 0)
            session_rewind(r.s, (int64_t)rng_below(&rng, N));
        assert_int_equal(session_sync(r.s, text, n, NULL, NULL), B2_OK);
        assert_int_equal(rig_open(&once, model, 1, false, &sp, NULL), B2_OK);
        assert_int_equal(session_sync(once.s, text, n, NULL, NULL), B2_OK);
        memcpy(want, session_logits(once.s), sizeof want);
        rig_close(&once);
        check(r.s, want, "rings and states");
    }
    rig_close(&r);
}

static void test_cancel(void **state)
{
    static float want[V];
    struct rig r;
    struct b2_err err = {0};

    (void)state;
    fresh(want, ids, 100);
    open_rig(&r, 1, 16, 1);
    assert_int_equal(session_sync(r.s, ids, 40, NULL, NULL), B2_OK);
    session_cancel(r.s);
    assert_int_equal(session_sync(r.s, ids, 100, NULL, &err), B2_ECANCEL);
    assert_int_equal(session_pos(r.s), 40);
    assert_int_equal(session_sync(r.s, ids, 100, NULL, NULL), B2_OK);
    check(r.s, want, "after an interruption");
    rig_close(&r);
}

/* ---- the checkpoints alone: states are numbers here ---- */

static void put(struct recurrent *r, int64_t pos)
{
    for (int64_t i = 0; i < r->n_floats; i++)
        r->floats[i] = (float)pos;
    r->pos = pos;
}

static void expect(struct recurrent *r, int64_t pos, int64_t want)
{
    int64_t got = recurrent_rewind(r, pos);

    if (got != want || r->pos != want || r->floats[0] != (float)want ||
        r->floats[r->n_floats - 1] != (float)want)
        fail_msg("back to %d: position %d, state of %g, expected %d", (int)pos,
                 (int)got, (double)r->floats[0], (int)want);
}

static void test_marks(void **state)
{
    struct recurrent r;

    (void)state;
    assert_int_equal(recurrent_init(&r, &model->hp, 2, NULL), B2_OK);
    put(&r, 10);
    recurrent_save_mark(&r, false);
    put(&r, 30);
    recurrent_save_mark(&r, true);
    put(&r, 50);
    recurrent_save_mark(&r, true); /* takes the place of 30 */
    r.pos = -1;                    /* lost, as by an interruption */
    expect(&r, 60, 50);
    expect(&r, 49, 10);
    expect(&r, 9, 0);

    /* The newest mark stays until the next one is complete. */
    put(&r, 20);
    recurrent_save_mark(&r, false);
    put(&r, 40);
    recurrent_save_mark(&r, false);
    int copy = recurrent_begin_mark(&r);
    assert_in_range(copy, 1, 2);
    r.pos = -1;
    expect(&r, 60, 40);
    copy = recurrent_begin_mark(&r);
    put(&r, 45);
    memcpy(r.floats + copy * r.n_floats, r.floats,
           (size_t)r.n_floats * sizeof *r.floats);
    recurrent_commit_mark(&r, copy, 45);
    put(&r, 70);
    expect(&r, 60, 45);
    recurrent_free(&r);
}

/* However long the sequence, checkpoints are spread over it. */
static void test_spaced(void **state)
{
    struct recurrent r;

    (void)state;
    assert_int_equal(recurrent_init(&r, &model->hp, 8, NULL), B2_OK);
    for (int64_t pos = 16; pos <= 4096; pos += 16) {
        put(&r, pos);
        recurrent_save_spaced(&r);
        assert_in_range(r.n_spaced, pos < 64 ? 0 : 1, 6);
        for (int i = 1; i < r.n_spaced; i++) {
            assert_true(r.spaced[i].pos - r.spaced[i - 1].pos >= r.step);
            for (int j = 0; j < i; j++)
                assert_int_not_equal(r.spaced[i].copy, r.spaced[j].copy);
        }
    }
    assert_true(r.step <= 1024);
    for (int64_t pos = 4096; pos > 0;) {
        int64_t to = recurrent_rewind(&r, pos - 1);
        assert_true(to < pos && to >= pos - 2 * r.step - 16);
        assert_true(r.floats[0] == (float)to);
        pos = to;
    }
    recurrent_free(&r);
}

/* ---- memory ---- */

static void test_plan(void **state)
{
    /* 3 layers: 3 rows of 2 * 2 * 16 + 4 * 16 channels, 4 heads of 16 x 16. */
    const uint64_t one = 4 * 3 * (3 * 128 + 4 * 16 * 16);
    struct session_params sp = {.ctx = 100, .batch = 10, .cache = DT_F16};
    struct rig r, small;
    struct plan plan;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(recurrent_bytes(&model->hp, 0), one);
    assert_int_equal(recurrent_bytes(&model->hp, 3), 4 * one);
    assert_int_equal(recurrent_default_saved(&model->hp, 0), 1);
    assert_int_equal(recurrent_default_saved(&model->hp, 32 * 5 * one), 5);
    assert_int_equal(recurrent_default_saved(&model->hp, UINT64_C(1) << 40), 8);
    open_rig(&r, 1, 10, 0);
    const int saved = recurrent_default_saved(&model->hp, model->weights_bytes);
    const struct cache_params cp = {
        .type = DT_F16, .ctx = 100, .batch = 10, .saved = saved};
    assert_int_equal(session_cache(r.s)->saved, saved);
    assert_int_equal(plan_make(&plan, model, r.be, &cp, NULL), B2_OK);
    assert_int_equal(plan.state_bytes, one * (uint64_t)(1 + saved));
    /* One layer of four is attention: k and v of 2 heads of 32 in F16. */
    assert_int_equal(plan.kv_bytes, 100 * 2 * 2 * 32 * 2);
    assert_int_equal(plan.n_kind_layers[CACHE_NONE], 3);

    /* Checkpoints give way to a limit; the state itself does not. */
    uint64_t rest = plan.total_bytes - plan.state_bytes;
    sp.mem_limit = rest + one;
    assert_int_equal(rig_open(&small, model, 1, false, &sp, &err), B2_OK);
    rig_close(&small);
    sp.mem_limit = rest + one - 1;
    assert_int_equal(rig_open(&small, model, 1, false, &sp, &err), B2_ENOMEM);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_batches),
        cmocka_unit_test(test_roads),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_random_roads),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_spaced),
        cmocka_unit_test(test_plan),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
