/*
 * test_generate.c - held-back text with scripted pieces (USERS T14), and the loop on a
 * model that tells a known story (golden/stories260K/SOURCE.txt).
 */
#include "model/textout.h"

#include "unit/unit.h"
#include "unit/variant.h"

/* ---- text ---- */

/* What came out, with a bar between pieces. */
struct heard {
    struct str text;
    int stop_after; /* pieces; 0: never */
    int n;
};

static bool hear(void *ctx, const char *text, size_t n)
{
    struct heard *h = ctx;

    if (h->n++ > 0)
        str_put(&h->text, "|");
    str_putn(&h->text, text, n);
    return h->n != h->stop_after;
}

struct script {
    const char *pieces[6];
    const char *stop[3];
    const char *want;  /* the whole text */
    const char *heard; /* as it came */
    bool found;
};

static const struct script scripts[] = {
    /* T14 (a): one character in two tokens; cut short it is one replacement character */
    {{" \xf0\x9f\x98", "\x81"}, {0}, " \xf0\x9f\x98\x81", " |\xf0\x9f\x98\x81", false},
    {{" \xf0\x9f\x98"}, {0}, " \xef\xbf\xbd", " |\xef\xbf\xbd", false},
    /* T14 (b): the beginning of a stop string at the end is text after all */
    {{"UNO", " DUE", " TRE"}, {"TRE\nAAAA"}, "UNO DUE TRE", "UNO| DUE| |TRE", false},
    /* T14 (c): found across tokens, nothing after it */
    {{"UNO DUE TRE", "\nAAAA", "x"}, {"TRE\nAAAA"}, "UNO DUE ", "UNO DUE ", true},
    {{"ab", "c"}, {"abc"}, "", "", true},
    {{"xabab", "c"}, {"abc"}, "xab", "xab", true},
    {{"one", " two"}, {"two", "one"}, "", "", true},
    {{"aXbY"}, {"Y", "X"}, "a", "a", true}, /* the first in the text wins */
    {{"aaa", "aab"}, {"aab"}, "aaa", "a|aa", true},
    /* bytes that are no UTF-8 */
    {{"a\xff", "b"},
     {0},
     "a\xef\xbf\xbd"
     "b",
     "a\xef\xbf\xbd|b",
     false},
    {{"\xe2", "\x82", "\xac!"}, {"!"}, "\xe2\x82\xac", "\xe2\x82\xac", true},
    {{"", "a", ""}, {"b"}, "a", "a", false},
};

static void test_scripts(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(scripts); i++) {
        const struct script *c = &scripts[i];
        struct heard h = {0};
        struct str text = {0};
        struct textout o;
        int n_stop = 0;

        while (n_stop < 3 && c->stop[n_stop])
            n_stop++;
        assert_int_equal(textout_init(&o, &text, c->stop, n_stop, NULL), B2_OK);
        o.on_text = hear;
        o.ctx = &h;
        for (int k = 0; k < 6 && c->pieces[k]; k++)
            if (!textout_put(&o, c->pieces[k], strlen(c->pieces[k])))
                break;
        textout_end(&o);
        assert_true(str_ok(&text) && str_ok(&h.text));
        const char *got = text.len ? text.data : "", *out = h.n ? h.text.data : "";
        if (strcmp(got, c->want) != 0 || strcmp(out, c->heard) != 0 ||
            o.found != c->found)
            fail_msg("row %zu: text '%s', heard '%s', found %d", i, got, out, o.found);
        str_free(&text);
        str_free(&h.text);
    }
}

/* Every cut of a text into pieces gives the same whole. */
static void test_all_cuts(void **state)
{
    static const char whole[] =
        "na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd STOX \xf0\x9f\x98\x81 STOP x";
    const char *const stop[] = {"STOP"};
    const size_t n = sizeof whole - 1;

    (void)state;
    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct str text = {0};
            struct heard h = {0};
            struct textout o;
            assert_int_equal(textout_init(&o, &text, stop, 1, NULL), B2_OK);
            o.on_text = hear;
            o.ctx = &h;
            if (textout_put(&o, whole, a) && textout_put(&o, whole + a, b - a))
                textout_put(&o, whole + b, n - b);
            textout_end(&o);
            assert_true(str_ok(&text) && o.found && text.len == n - 6);
            assert_memory_equal(text.data, whole, n - 6);
            str_free(&text);
            str_free(&h.text);
        }
    }
}

static void test_empty_stop(void **state)
{
    const char *const stop[] = {"x", ""};
    struct str text = {0};
    struct textout o;

    (void)state;
    assert_int_equal(textout_init(&o, &text, stop, 2, NULL), B2_EARG);
    assert_int_equal(textout_init(&o, &text, stop, -1, NULL), B2_EARG);
    assert_int_equal(textout_init(&o, &text, NULL, 1, NULL), B2_EARG);
    assert_int_equal(textout_init(&o, &text, (const char *[]){NULL}, 1, NULL), B2_EARG);
    assert_int_equal(textout_init(&o, &text, NULL, 0, NULL), B2_OK);
}

/* ---- the loop ---- */

static const struct {
    int32_t id;
    float gap;
} story[] = {
#include "golden/stories260K/greedy.inc"
};

static struct model *model;
static struct rig rig;
static struct sampler *greedy;

static int open_all(void **state)
{
    const struct session_params sp = {.ctx = 128, .batch = 16};
    struct b2_err err = {0};

    (void)state;
    if (model_open(&model, B2_STORIES, NULL, &err) ||
        rig_open(&rig, model, 1, true, &sp, &err) ||
        sampler_new(&greedy, &SAMPLER_PARAMS_GREEDY, model->hp.vocab, &err)) {
        print_error("%s\n", err.msg);
        return 1;
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    sampler_free(greedy);
    rig_close(&rig);
    model_close(model);
    return 0;
}

static struct generate_result run(const struct generate_params *p)
{
    const int32_t bos = tok_bos(model->tok);
    struct generate_result r;
    struct b2_err err = {0};

    sampler_reset(greedy);
    if (generate_run(rig.s, greedy, &bos, 1, p, &r, &err) != B2_OK)
        fail_msg("%s", err.msg);
    return r;
}

/* The story that the model's author publishes, token by token as llama.cpp tells it. */
static void test_story(void **state)
{
    static const char begin[] = " Once upon a time, there was a little girl named "
                                "Lily. She loved to play outside "
                                "in the park. One day, she saw a big, red ball.";
    struct generate_result r = run(&(struct generate_params){.max_tokens = 64});

    (void)state;
    assert_int_equal(r.finish, FINISH_LENGTH);
    assert_int_equal(r.tokens.n, countof(story));
    for (size_t i = 0; i < countof(story); i++)
        ROW_CHECK(i, r.tokens.id[i] == story[i].id);
    assert_true(r.text.len > sizeof begin);
    assert_memory_equal(r.text.data, begin, sizeof begin - 1);
    assert_int_equal(r.n_first, 5);
    assert_int_equal(r.first_ids[0], story[0].id);
    for (int i = 1; i < 5; i++)
        assert_true(r.first_logits[i] <= r.first_logits[i - 1]);
    assert_true(r.first_logits[0] - r.first_logits[1] > story[0].gap - 0.02f);
    generate_result_free(&r);
}

static void test_stops(void **state)
{
    const char *const stop[] = {"never", "girl named"};
    struct heard h = {0}, short_h = {.stop_after = 3};
    struct generate_params p = {.stop = stop, .n_stop = 2, .on_text = hear, .ctx = &h};
    struct generate_result r = run(&p);

    (void)state;
    assert_int_equal(r.finish, FINISH_STOP);
    assert_string_equal(r.text.data, " Once upon a time, there was a little ");
    generate_result_free(&r);

    p.ctx = &short_h; /* the listener has enough */
    r = run(&p);
    assert_int_equal(r.finish, FINISH_CANCEL);
    assert_int_equal(short_h.n, 3);
    generate_result_free(&r);
    str_free(&h.text);
    str_free(&short_h.text);
}

/* The context bounds the answer: 128 positions hold the prompt and 127 tokens, and one
 * more can be picked from the last logits. */
static void test_context_full(void **state)
{
    struct generate_result r = run(&(struct generate_params){.ignore_eos = true});

    (void)state;
    assert_int_equal(r.finish, FINISH_LENGTH);
    assert_int_equal(r.tokens.n, 128);
    assert_int_equal(session_pos(rig.s), 128);
    generate_result_free(&r);
}

/* A vocabulary whose end token is one that the story uses. */
static enum b2_status end_in_story(struct meta *m, struct b2_err *err)
{
    return meta_set_u32(m, "tokenizer.ggml.eos_token_id", 432, err); /* story[4] */
}

static void test_end_token(void **state)
{
    const struct session_params sp = {.ctx = 64};
    const struct generate_params p = {.max_tokens = 20},
                                 on = {.max_tokens = 20, .ignore_eos = true};
    const int32_t bos = 1;
    struct model *m = NULL;
    struct rig r;
    struct generate_result g;

    (void)state;
    assert_int_equal(story[4].id, 432);
    assert_int_equal(
        variant_open(&m, &(struct variant){.keys = end_in_story}, NULL, NULL), B2_OK);
    assert_int_equal(rig_open(&r, m, 1, true, &sp, NULL), B2_OK);
    assert_int_equal(generate_run(r.s, greedy, &bos, 1, &p, &g, NULL), B2_OK);
    assert_int_equal(g.finish, FINISH_STOP);
    assert_int_equal(g.tokens.n, 5);
    generate_result_free(&g);
    assert_int_equal(generate_run(r.s, greedy, &bos, 1, &on, &g, NULL), B2_OK);
    assert_int_equal(g.finish, FINISH_LENGTH);
    assert_int_equal(g.tokens.n, 20);
    generate_result_free(&g);
    rig_close(&r);
    model_close(m);
}

static bool cancel_at_third(void *ctx, const char *text, size_t n)
{
    (void)text;
    (void)n;
    if (++*(int *)ctx == 3)
        session_cancel(rig.s);
    return true;
}

static void test_cancel(void **state)
{
    int pieces = 0;
    const int32_t bos = 1;
    const struct generate_params p = {.on_text = cancel_at_third, .ctx = &pieces};
    struct generate_result r;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(generate_run(rig.s, greedy, &bos, 1, &p, &r, &err), B2_ECANCEL);
    assert_int_equal(r.finish, FINISH_CANCEL);
    assert_true(r.text.len > 0 && r.tokens.n >= 3);
    generate_result_free(&r);
    /* The warm cache still gives the cold answer. */
    r = run(&(struct generate_params){.max_tokens = 8});
    for (int i = 0; i < 8; i++)
        ROW_CHECK(i, r.tokens.id[i] == story[i].id);
    assert_int_equal(r.prompt_done, 1);
    generate_result_free(&r);
}

/* An interrupted prompt counts what was computed, not what was asked. */
static void test_cancel_in_prompt(void **state)
{
    const int32_t prompt[] = {1, 403, 407, 261, 378};
    struct generate_result r;
    struct b2_err err = {0};

    (void)state;
    session_rewind(rig.s, 0);
    session_cancel(rig.s);
    assert_int_equal(
        generate_run(rig.s, greedy, prompt, 5, &(struct generate_params){0}, &r, &err),
        B2_ECANCEL);
    assert_true(r.prompt_tokens == 5 && r.prompt_done == 0 && r.tokens.n == 0);
    generate_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_all_cuts),
        cmocka_unit_test(test_empty_stop),
        cmocka_unit_test(test_story),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_context_full),
        cmocka_unit_test(test_end_token),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_in_prompt),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
