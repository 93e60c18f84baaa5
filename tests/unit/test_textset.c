/*
 * test_textset.c - windows of both conventions; rolling against the harness's own.
 */
#include "eval/textset.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Token i of the text is 100 + i. */
static struct tok_ids make_ids(int64_t n)
{
    struct tok_ids ids = {.n = n, .cap = n};

    ids.id = mem_calloc((size_t)n, sizeof *ids.id);
    assert_non_null(ids.id);
    for (int64_t i = 0; i < n; i++)
        ids.id[i] = (int32_t)(100 + i);
    return ids;
}

static void test_llama_cpp(void **state)
{
    static const struct {
        int64_t n, ctx, max;
        int32_t first;
        int64_t windows, scored;
    } cases[] = {
        {8, 8, 0, -1, 1, 3},   {15, 8, 0, -1, 1, 3},       {16, 8, 0, 7, 2, 6},
        {100, 8, 3, 7, 3, 9},  {2048, 512, 0, 1, 4, 1020}, {2048, 512, 9, 1, 4, 1020},
        {30, 7, 0, -1, 4, 12},
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        struct tok_ids ids = make_ids(cases[c].n);
        struct textset t = {0};
        struct b2_err err = {0};
        assert_int_equal(textset_from_ids(&t, &ids, CONV_LLAMA_CPP, cases[c].first,
                                          cases[c].ctx, cases[c].max, &err),
                         B2_OK);
        assert_null(ids.id); /* taken */
        assert_int_equal(t.n_windows, cases[c].windows);
        assert_int_equal(t.n_scored, cases[c].scored);
        assert_int_equal(t.stride, cases[c].ctx);
        for (int64_t w = 0; w < t.n_windows; w++) {
            const struct text_window *win = &t.win[w];
            int32_t at = (int32_t)(100 + w * cases[c].ctx);
            assert_int_equal(win->n, cases[c].ctx);
            assert_int_equal(win->ids[0], cases[c].first >= 0 ? cases[c].first : at);
            assert_int_equal(win->ids[1], at + 1);
            assert_int_equal(win->score_from, cases[c].ctx / 2);
            assert_int_equal(win->score_to, cases[c].ctx - 1);
            for (int64_t i = 0; i < win->score_to; i++)
                assert_int_equal(win->target[i], at + i + 1);
        }
        textset_free(&t);
    }
}

static void test_rolling(void **state)
{
    static const struct {
        int64_t n, ctx, win, inputs;
        int32_t first_input;
        int64_t score_from;
        int32_t first_target, last_target;
    } cases[] = {
#include "golden/eval/rolling.inc"
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        struct tok_ids ids = make_ids(cases[c].n);
        struct textset t = {0};
        struct b2_err err = {0};
        assert_int_equal(
            textset_from_ids(&t, &ids, CONV_ROLLING, 7, cases[c].ctx, 0, &err), B2_OK);
        assert_int_equal(t.n_scored, cases[c].n); /* each token once */
        assert_true(cases[c].win < t.n_windows);
        const struct text_window *win = &t.win[cases[c].win];
        assert_int_equal(win->n, cases[c].inputs);
        assert_int_equal(win->ids[0], cases[c].first_input);
        assert_int_equal(win->score_from, cases[c].score_from);
        assert_int_equal(win->score_to, win->n);
        assert_int_equal(win->target[win->score_from], cases[c].first_target);
        assert_int_equal(win->target[win->n - 1], cases[c].last_target);
        textset_free(&t);
    }
}

static void test_refused(void **state)
{
    static const struct {
        int64_t n, ctx;
        enum text_convention conv;
        int32_t first;
        const char *word; /* in the message */
    } cases[] = {
        {7, 8, CONV_LLAMA_CPP, -1, "7 tokens"},
        {0, 8, CONV_LLAMA_CPP, -1, "0 tokens"},
        {0, 8, CONV_ROLLING, 7, "0 tokens"},
        {9, 8, CONV_ROLLING, -1, "neither a begin nor an end token"},
        {9, 3, CONV_LLAMA_CPP, -1, "at least 4"},
        {9, 0, CONV_ROLLING, 7, "at least 4"},
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        struct tok_ids ids = make_ids(cases[c].n);
        struct textset t = {0};
        struct b2_err err = {0};
        assert_int_equal(textset_from_ids(&t, &ids, cases[c].conv, cases[c].first,
                                          cases[c].ctx, 0, &err),
                         B2_EARG);
        assert_null(t.win); /* left alone */
        assert_non_null(strstr(err.msg, cases[c].word));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_cpp),
        cmocka_unit_test(test_rolling),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
