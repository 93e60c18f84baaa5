/*
 * test_api.c - the public library through its header alone.
 */
#include "bonsai2.h"

#include "unit/unit.h"

static const char *story = B2_STORIES;
static char last_note[256];

static void note(void *ctx, enum b2_log_level level, const char *line)
{
    (void)level;
    ++*(int *)ctx;
    snprintf(last_note, sizeof last_note, "%s", line);
}

static bool gather(void *ctx, const char *text, size_t n)
{
    strncat(ctx, text, n);
    return true;
}

static void test_errors(void **state)
{
    struct b2_model *m = NULL;
    struct b2_session *s = NULL;
    struct b2_err err = {0};

    (void)state;
    assert_non_null(strchr(b2_version(), '.'));
    assert_string_equal(b2_status_name(B2_ETRUNC), "truncated");
    assert_int_equal(b2_model_open(NULL, story, NULL, &err), B2_EARG);
    assert_int_equal(b2_model_open(&m, "no.gguf", NULL, &err), B2_ENOTFOUND);
    assert_int_equal(err.status, B2_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no.gguf"));
    assert_null(m);
    assert_int_equal(b2_model_open(&m, "no.gguf", NULL, NULL), B2_ENOTFOUND);

    assert_int_equal(b2_model_open(&m, story, NULL, NULL), B2_OK);
    const struct b2_session_params long_ctx = {.ctx = 1 << 20}, level = {.cpu = "z80"},
                                   threads = {.threads = -1}, tight = {.mem_limit = 9};
    assert_int_equal(b2_session_new(&s, m, &long_ctx, &err), B2_EARG);
    assert_int_equal(b2_session_new(&s, m, &level, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "z80"));
    assert_int_equal(b2_session_new(&s, m, &threads, &err), B2_EARG);
    assert_int_equal(b2_session_new(&s, m, &tight, &err), B2_ENOMEM);
    /* Heads of 8 values do not fit blocks of 32; a window is limited by training. */
    const struct b2_session_params q8 = {.ctx = 64, .cache = B2_CACHE_Q8_0},
                                   wide = {.ctx = 64, .window = 1000};
    assert_int_equal(b2_session_new(&s, m, &q8, &err), B2_EUNSUP);
    assert_int_equal(b2_session_new(&s, m, &wide, &err), B2_EARG);
    assert_null(s);
    const struct b2_session_params past = {
        .ctx = 5000, .batch = 32, .window = 64, .cache = B2_CACHE_F16, .sinks = -1};
    assert_int_equal(b2_session_new(&s, m, &past, &err), B2_OK);
    assert_int_equal(b2_session_ctx(s), 5000);
    b2_session_free(s);
    b2_session_free(NULL);
    b2_model_close(m);
    b2_model_close(NULL);
}

static void test_tokens(void **state)
{
    static const char text[] = "Once upon a time";
    struct b2_model *m = NULL;
    int32_t ids[32];
    int64_t n = 0;
    char back[64];
    size_t bytes;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(b2_model_open(&m, story, NULL, NULL), B2_OK);
    assert_int_equal(b2_model_vocab(m), 512);
    assert_int_equal(b2_model_context(m), 512);
    assert_int_equal(strlen(b2_model_fingerprint(m)), 64);
    assert_int_equal(b2_tokenize(m, text, strlen(text), NULL, 0, &n, &err), B2_EARG);
    assert_true(n > 1 && n < 32);
    assert_int_equal(b2_tokenize(m, text, strlen(text), ids, 32, &n, &err), B2_OK);
    assert_int_equal(ids[0], 1); /* the begin token */
    assert_int_equal(b2_detokenize(m, ids, n, back, sizeof back, &bytes, &err), B2_OK);
    assert_string_equal(back, text);
    assert_int_equal(bytes, strlen(text));
    assert_int_equal(b2_detokenize(m, ids, n, back, strlen(text), &bytes, &err),
                     B2_EARG);
    ids[0] = 512;
    assert_int_equal(b2_detokenize(m, ids, n, back, sizeof back, &bytes, &err),
                     B2_EARG);
    b2_model_close(m);
}

static void test_generate(void **state)
{
    const struct b2_session_params sp = {.ctx = 64, .threads = 2, .exact = true};
    const int32_t bos = 1;
    char heard[512] = "";
    const char *const stop[] = {"girl"};
    struct b2_generate_params p = {.max_tokens = 10, .on_text = gather, .ctx = heard};
    struct b2_model *m = NULL;
    struct b2_session *s = NULL;
    struct b2_generate_result r;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(b2_model_open(&m, story, NULL, NULL), B2_OK);
    assert_int_equal(b2_session_new(&s, m, &sp, NULL), B2_OK);
    assert_null(b2_session_logits(s));
    assert_int_equal(b2_generate(s, &bos, 1, &p, &r, &err), B2_OK);
    assert_int_equal(r.n_ids, 10);
    assert_int_equal(r.finish, B2_FINISH_LENGTH);
    assert_string_equal(r.text, heard);
    assert_memory_equal(r.text, " Once upon a time", 17);
    b2_generate_result_free(&r);

    p.stop = stop;
    p.n_stop = 1;
    p.max_tokens = 0;
    assert_int_equal(b2_generate(s, &bos, 1, &p, &r, &err), B2_OK);
    assert_int_equal(r.finish, B2_FINISH_STOP);
    assert_string_equal(r.text, " Once upon a time, there was a little ");
    b2_generate_result_free(&r);

    p.temperature = -1;
    assert_int_equal(b2_generate(s, &bos, 1, &p, &r, &err), B2_EARG);
    b2_generate_result_free(&r);
    p.temperature = 0;
    b2_session_cancel(s);
    assert_int_equal(b2_generate(s, &bos, 1, &p, &r, &err), B2_ECANCEL);
    assert_non_null(r.text);
    assert_string_equal(r.text, "");
    b2_generate_result_free(&r);

    assert_int_equal(b2_session_sync(s, &bos, 1, &err), B2_OK);
    assert_non_null(b2_session_logits(s));
    assert_int_equal(b2_session_step(s, 403, &err), B2_OK);
    assert_int_equal(b2_session_pos(s), 2);
    assert_int_equal(b2_session_ctx(s), 64);
    assert_int_equal(b2_session_step(s, 1000, &err), B2_EARG);
    b2_session_free(s);
    b2_model_close(m);
}

static void test_notes(void **state)
{
    int n = 0;
    const struct b2_model_params mp = {
        .log = note, .log_ctx = &n, .log_level = B2_LOG_DEBUG};
    struct b2_model *m = NULL;

    (void)state;
    assert_int_equal(b2_model_open(&m, story, &mp, NULL), B2_OK);
    assert_true(n == 0 || last_note[0] != '\0');
    b2_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_notes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
