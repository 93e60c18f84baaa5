/*
 * test_loops.c - cycles and 4-grams of answers whose measures are known.
 */
#include "eval/loops.h"

#include "base/util.h"
#include "unit/unit.h"

#include <math.h>

/* Each letter of the answer is a token. Values counted by hand. */
static void test_answers(void **state)
{
    static const struct {
        const char *answer;
        int cycle;
        bool loop;
        double distinct4;
    } cases[] = {
        {"", 0, false, 1.0},
        {"abc", 0, false, 1.0},
        {"abcdefghijklmnopqrstuvwxyz", 0, false, 1.0},
        {"aaaaaaaaaaaaaaaa", 16, true, 1.0 / 13},    /* period 1, 16 times */
        {"aaaaaaaaaaaaaaa", 0, false, 1.0 / 12},     /* one token short */
        {"abcdabcdabcdabcd", 16, true, 4.0 / 13},    /* period 4, four times */
        {"abcdefghabcdefgh", 0, false, 8.0 / 13},    /* twice is no cycle */
        {"xyzabcdabcdabcdabcd", 16, true, 7.0 / 16}, /* reaches the end */
        {"abcdabcdabcdabcdxyzuvwqrstmnopklji", 16, false, 22.0 / 31}, /* it recovered */
        {"abcdabcdabcdabcdxyz", 16, true, 7.0 / 16}, /* most of the answer */
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        int32_t ids[64];
        struct loops_answer a;
        size_t n = strlen(cases[c].answer);
        for (size_t i = 0; i < n; i++)
            ids[i] = cases[c].answer[i];
        assert_int_equal(
            loops_measure(&a, ids, (int64_t)n, cases[c].answer, n, true, NULL), 0);
        ROW_CHECK(c, a.cycle == cases[c].cycle);
        ROW_CHECK(c, a.loop == cases[c].loop);
        ROW_CHECK(c, fabs(a.distinct4 - cases[c].distinct4) < 1e-12);
        ROW_CHECK(c, a.limit && a.n_tokens == (int64_t)n);
    }
}

/* The prompts that come with the program: 16 of each slice, no text twice. */
static void test_prompts(void **state)
{
    int64_t n = 0, english = 0, chinese = 0, code = 0;
    const struct loops_prompt *p = loops_prompts(&n);

    (void)state;
    assert_int_equal(n, 48);
    for (int64_t i = 0; i < n; i++) {
        english += strcmp(p[i].slice, "english") == 0;
        chinese += strcmp(p[i].slice, "chinese") == 0;
        code += strcmp(p[i].slice, "code") == 0;
        for (int64_t k = 0; k < i; k++)
            assert_true(strcmp(p[i].text, p[k].text) != 0);
    }
    assert_true(english == 16 && chinese == 16 && code == 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_prompts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
