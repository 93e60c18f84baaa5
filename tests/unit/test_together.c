/*
 * test_together.c - sessions that decode together against the same sessions alone, bit for
 * bit: attention over all positions, over windows with sinks, gated delta nets.
 */
#include "base/mem.h"
#include "unit/unit.h"
#include "unit/variant.h"

enum { N_SESSIONS = 5, CTX = 200, STEPS = 24, MAX_V = 512 };

/* A prompt for each session: other lengths, other tokens. */
static const int64_t prompt_len[N_SESSIONS] = {1, 37, 5, 130, 64};

static int32_t token(int session, int64_t pos, int64_t vocab)
{
    int64_t i = pos + 17 * session;

    return (int32_t)((7 * i * i + 3 * i + session) % (vocab - 4) + 3);
}

static void fill_prompt(struct session *s, int session, int64_t vocab)
{
    int32_t ids[CTX];

    for (int64_t i = 0; i < prompt_len[session]; i++)
        ids[i] = token(session, i, vocab);
    assert_int_equal(session_sync(s, ids, prompt_len[session], NULL, NULL), B2_OK);
}

/* Every session of its own, on one thread: want[session][step][V]. */
static float *alone(const struct model *m, const struct session_params *sp)
{
    const int64_t vocab = m->hp.vocab;
    float *want = mem_calloc((size_t)(N_SESSIONS * STEPS * vocab), sizeof *want);
    float *to = want;

    assert_non_null(want);
    for (int i = 0; i < N_SESSIONS; i++) {
        struct rig r;
        assert_int_equal(rig_open(&r, m, 1, false, sp, NULL), B2_OK);
        fill_prompt(r.s, i, vocab);
        for (int k = 0; k < STEPS; k++, to += vocab) {
            int32_t id = token(i, prompt_len[i] + k, vocab);
            assert_int_equal(session_step(r.s, id, NULL), B2_OK);
            memcpy(to, session_logits(r.s), (size_t)vocab * sizeof *to);
        }
        rig_close(&r);
    }
    return want;
}

/* Steps of growing and shrinking groups, each session at its own pace. */
static void check_model(const struct model *m, struct session_params sp, int threads)
{
    const int64_t vocab = m->hp.vocab;
    float *want = alone(m, &sp), logits[N_SESSIONS * MAX_V];
    struct session *s[N_SESSIONS] = {NULL};
    int done[N_SESSIONS] = {0};
    struct rig r;

    assert_true(vocab <= MAX_V);
    assert_int_equal(rig_open(&r, m, threads, false, &sp, NULL), B2_OK);
    s[0] = r.s;
    for (int i = 1; i < N_SESSIONS; i++)
        assert_int_equal(session_new(&s[i], m, r.be, &sp, NULL), B2_OK);
    for (int i = 0; i < N_SESSIONS; i++)
        fill_prompt(s[i], i, vocab);
    for (int turn = 0; turn < STEPS; turn++) {
        struct session *group[N_SESSIONS];
        int member[N_SESSIONS], n = 0;
        int32_t ids[N_SESSIONS];
        for (int i = 0; i < N_SESSIONS; i++)
            if (turn % (i + 1) == 0 && done[i] < STEPS) {
                ids[n] = token(i, session_pos(s[i]), vocab);
                member[n] = i;
                group[n++] = s[i];
            }
        assert_int_equal(sessions_step(group, ids, n, logits, NULL), B2_OK);
        for (int j = 0; j < n; j++) {
            int i = member[j];
            const float *right = want + (i * STEPS + done[i]++) * vocab;
            if (memcmp(logits + j * vocab, right, (size_t)vocab * sizeof *right) != 0)
                fail_msg("session %d, step %d of its own, in a group of %d: other bits",
                         i, done[i], n);
            assert_int_equal(session_pos(s[i]), prompt_len[i] + done[i]);
        }
    }
    for (int i = 1; i < N_SESSIONS; i++)
        session_free(s[i]);
    rig_close(&r);
    mem_free(want);
}

static struct model *open_file(const char *path)
{
    struct model *m = NULL;
    struct b2_err err = {0};

    if (model_open(&m, path, NULL, &err) != B2_OK)
        fail_msg("%s", err.msg);
    return m;
}

static void test_same_bits(void **state)
{
    static const char *const paths[] = {B2_STORIES, B2_GOLDEN_DIR "/arch/qwen35"};

    (void)state;
    for (size_t i = 0; i < countof(paths); i++) {
        struct model *m = open_file(paths[i]);
        check_model(m, (struct session_params){.ctx = CTX, .batch = 16}, 1);
        check_model(m, (struct session_params){.ctx = CTX, .batch = 7}, 3);
        check_model(
            m,
            (struct session_params){.ctx = CTX, .batch = 16, .window = 24, .sinks = 2},
            2);
        model_close(m);
    }
}

static void test_errors(void **state)
{
    const struct session_params sp = {.ctx = 64, .batch = 2};
    const struct session_params windowed = {.ctx = 64, .batch = 2, .window = 16};
    struct model *m = open_file(B2_STORIES);
    static float logits[3 * MAX_V];
    const int32_t ids[3] = {5, 6, 7}, wrong[2] = {5, 100000};
    struct session *other = NULL, *third = NULL;
    struct b2_err err = {0};
    struct rig r, far;

    (void)state;
    assert_int_equal(rig_open(&r, m, 1, false, &sp, NULL), B2_OK);
    assert_int_equal(rig_open(&far, m, 1, false, &sp, NULL), B2_OK);
    assert_int_equal(session_new(&other, m, r.be, &sp, NULL), B2_OK);
    assert_int_equal(session_new(&third, m, r.be, &windowed, NULL), B2_OK);
    struct session *const same[] = {r.s, r.s}, *const backends[] = {r.s, far.s};
    struct session *const windows[] = {r.s, third}, *const fine[] = {r.s, other};
    struct session *const many[] = {r.s, other, third};
    assert_int_equal(sessions_step(same, ids, 2, logits, &err), B2_EARG);
    assert_int_equal(sessions_step(backends, ids, 2, logits, &err), B2_EARG);
    assert_int_equal(sessions_step(windows, ids, 2, logits, &err), B2_EARG);
    assert_int_equal(sessions_step(many, ids, 3, logits, &err), B2_EARG); /* batch */
    assert_int_equal(sessions_step(fine, wrong, 2, logits, &err), B2_EARG);
    assert_int_equal(session_pos(r.s), 0);
    session_cancel(r.s);
    assert_int_equal(sessions_step(fine, ids, 2, logits, &err), B2_ECANCEL);
    assert_int_equal(session_pos(r.s) + session_pos(other), 0);
    assert_int_equal(sessions_step(fine, ids, 0, logits, &err), B2_OK);
    assert_int_equal(sessions_step(fine, ids, 2, logits, &err), B2_OK);
    assert_int_equal(session_pos(other), 1);
    session_free(other);
    session_free(third);
    rig_close(&far);
    rig_close(&r);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
