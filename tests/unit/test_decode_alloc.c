/*
 * test_decode_alloc.c - a decode step allocates nothing: every buffer exists before.
 *
 * The linker's --wrap sends the allocator's calls of our code here, to be counted.
 */
#include "unit/unit.h"
#include "unit/variant.h"

#include <stdlib.h>

static long n_calls;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    n_calls++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_calls++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    n_calls++;
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    n_calls++;
    return __real_aligned_alloc(align, n);
}

static void steps(const char *path, bool exact)
{
    const struct session_params sp = {.ctx = 96, .batch = 16};
    const struct sampler_params smp = {.temperature = 0.8f,
                                       .top_k = 40,
                                       .top_p = 0.9f,
                                       .repeat_penalty = 1.1f,
                                       .penalty_last_n = 8};
    struct model *m = NULL;
    struct sampler *s = NULL;
    struct rig r;
    int32_t id = 1;

    assert_int_equal(model_open(&m, path, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&r, m, 2, exact, &sp, NULL), B2_OK);
    assert_int_equal(sampler_new(&s, &smp, m->hp.vocab, NULL), B2_OK);
    assert_true(n_calls > 0); /* the counter is there */
    n_calls = 0;
    assert_int_equal(session_sync(r.s, (int32_t[]){1, 303, 307}, 3, NULL, NULL), B2_OK);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(sampler_pick(s, session_logits(r.s), &id, NULL), B2_OK);
        sampler_accept(s, id);
        assert_int_equal(session_step(r.s, id, NULL), B2_OK);
    }
    assert_int_equal(n_calls, 0);
    sampler_free(s);
    rig_close(&r);
    model_close(m);
}

static void test_default(void **state)
{
    (void)state;
    steps(B2_STORIES, false);
}

static void test_exact(void **state)
{
    (void)state;
    steps(B2_STORIES, true);
}

/* With a recurrent state, and checkpoints of it along the way. */
static void test_recurrent(void **state)
{
    (void)state;
    steps(B2_GOLDEN_DIR "/arch/qwen35", false);
    steps(B2_GOLDEN_DIR "/arch/qwen35", true);
}

/* Sessions that decode together, in groups of every size up to all of them. */
static void together(const char *path)
{
    enum { GROUP = 4 };
    const struct session_params sp = {.ctx = 96, .batch = 16};
    struct session *s[GROUP] = {NULL};
    const int32_t prompt[3] = {1, 303, 307};
    int32_t ids[GROUP];
    struct model *m = NULL;
    struct rig r;

    assert_int_equal(model_open(&m, path, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&r, m, 2, false, &sp, NULL), B2_OK);
    float *logits = calloc((size_t)(GROUP * m->hp.vocab), sizeof *logits);
    assert_non_null(logits);
    s[0] = r.s;
    for (int i = 1; i < GROUP; i++)
        assert_int_equal(session_new(&s[i], m, r.be, &sp, NULL), B2_OK);
    n_calls = 0;
    for (int i = 0; i < GROUP; i++)
        assert_int_equal(session_sync(s[i], prompt, 1 + i % 3, NULL, NULL), B2_OK);
    for (int turn = 0; turn < 60; turn++) {
        int n = 1 + turn % GROUP;
        for (int i = 0; i < n; i++)
            ids[i] = 3 + (7 * turn + i) % 200;
        assert_int_equal(sessions_step(s, ids, n, logits, NULL), B2_OK);
    }
    assert_int_equal(n_calls, 0);
    for (int i = 1; i < GROUP; i++)
        session_free(s[i]);
    free(logits);
    rig_close(&r);
    model_close(m);
}

static void test_together(void **state)
{
    (void)state;
    together(B2_STORIES);
    together(B2_GOLDEN_DIR "/arch/qwen35");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
