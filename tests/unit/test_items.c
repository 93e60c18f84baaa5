/*
 * test_items.c - files of items: what is read, what is refused, how a run goes on.
 */
#define _GNU_SOURCE
#include "eval/items.h"

#include "base/file.h"
#include "base/mem.h"
#include "eval/task_sum.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <math.h>

#define HEAD                                                                           \
    "{\"task\":\"t\",\"metric\":\"acc\",\"metrics\":[\"acc\",\"norm\"],"               \
    "\"chance\":0.25,\"n\":3,\"model\":\"m.gguf\",\"fingerprint\":\"f\","              \
    "\"settings\":{\"shots\":0},\"prompt_sha256\":\"p\"}\n"
#define ONE "{\"id\":\"a\",\"score\":1,\"scores\":{\"acc\":1,\"norm\":0}}\n"
#define TWO                                                                            \
    "{\"id\":\"b\",\"score\":0,\"scores\":{\"acc\":0,\"norm\":1},"                     \
    "\"weights\":{\"norm\":3}}\n"

static struct scratch scratch;
static const char *path;

static void put(const char *text)
{
    assert_int_equal(file_write_all(path, text, strlen(text), true, NULL), B2_OK);
}

static void test_read(void **state)
{
    static const struct {
        const char *text;
        int64_t n;
        bool whole;
    } table[] = {
        {HEAD, 0, false},
        {HEAD ONE, 1, false},
        {HEAD ONE TWO ONE, 3, true},
        {HEAD ONE "{\"id\":\"b\",\"sco", 1, false}, /* cut inside a line */
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct item_set s = {0};
        struct b2_err err = {0};
        bool whole;
        put(table[i].text);
        if (item_set_read(&s, path, &whole, &err))
            fail_msg("row %d: %s", (int)i, err.msg);
        ROW_CHECK(i, s.n == table[i].n && whole == table[i].whole);
        ROW_CHECK(i, strcmp(s.task, "t") == 0 && s.n_metrics == 2 && s.chance == 0.25);
        ROW_CHECK(i, strcmp(s.settings, "{\"shots\":0}") == 0);
        item_set_free(&s);
    }
}

static void test_means(void **state)
{
    struct item_set s = {0};
    bool whole;

    (void)state;
    put(HEAD ONE TWO);
    assert_int_equal(item_set_read(&s, path, &whole, NULL), B2_OK);
    assert_string_equal(s.item[1].id, "b");
    assert_true(s.item[1].score == 0.0 && s.item[1].scores[1] == 1.0);
    assert_int_equal(item_set_metric(&s, "norm"), 1);
    assert_int_equal(item_set_metric(&s, "other"), -1);
    assert_true(item_set_mean(&s, 0) == 0.5);
    assert_true(item_set_mean(&s, 1) == 0.75); /* (0 * 1 + 1 * 3) / 4 */
    item_set_free(&s);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *want;
    } table[] = {
        {"", "no whole line"},
        {"{}\n", "line 1"},
        {HEAD "{}\n", "line 2"},
        {HEAD "[1]\n", "line 2"},
        {HEAD ONE "{\"id\":\"b\",\"score\":2}\n", "line 3"},
        {HEAD ONE "{\"id\":7,\"score\":1}\n", "line 3"},
        {HEAD ONE "nonsense\n", "line 3"},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct item_set s = {0};
        struct b2_err err = {0};
        bool whole;
        put(table[i].text);
        ROW_CHECK(i, item_set_read(&s, path, &whole, &err) == B2_EFORMAT);
        ROW_CHECK(i, strstr(err.msg, table[i].want) != NULL);
    }
}

static struct item_set description(void)
{
    struct item_set s = {.task = mem_strdup("t"),
                         .metric = mem_strdup("acc"),
                         .metrics = {mem_strdup("acc"), mem_strdup("norm")},
                         .n_metrics = 2,
                         .chance = 0.25,
                         .model = mem_strdup("m.gguf"),
                         .fingerprint = mem_strdup("f"),
                         .settings = mem_strdup("{\"shots\":0}"),
                         .prompt_sha256 = mem_strdup("p")};

    return s;
}

static const char one[] =
    "{\"id\":\"a\",\"score\":1,\"scores\":{\"acc\":1,\"norm\":0}}";

/* An interrupted run goes on behind its last whole line. */
static void test_go_on(void **state)
{
    struct item_set s = description();
    struct item_file *f = NULL;
    bool whole;

    (void)state;
    put(HEAD ONE "{\"id\":\"b\",\"sc");
    assert_int_equal(item_file_open(&f, &s, path, 3, false, NULL), B2_OK);
    assert_int_equal(s.n, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(item_file_add(f, &s, one, sizeof one - 1, NULL), B2_OK);
    assert_int_equal(item_file_close(f, NULL), B2_OK);
    assert_int_equal(s.n, 3);
    item_set_free(&s);
    assert_int_equal(item_set_read(&s, path, &whole, NULL), B2_OK);
    assert_true(whole);
    item_set_free(&s);
}

/* Another run's file is left alone, unless that is what was asked for. */
static void test_other_run(void **state)
{
    static const struct {
        const char *old, *want;
    } table[] = {
        {"\"task\":\"t\"", "another task"},
        {"\"fingerprint\":\"f\"", "another model"},
        {"\"shots\":0", "other settings"},
        {"\"prompt_sha256\":\"p\"", "other prompts"},
        {"\"n\":3", "other settings"},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        char text[] = HEAD ONE;
        struct item_set s = description();
        struct item_file *f = NULL;
        struct b2_err err = {0};
        char *at = strstr(text, table[i].old) + strlen(table[i].old) - 1;
        at -= *at == '"';
        *at = *at == '9' ? '8' : '9';
        put(text);
        ROW_CHECK(i, item_file_open(&f, &s, path, 3, false, &err) == B2_EEXIST);
        ROW_CHECK(i, strstr(err.msg, table[i].want) != NULL);
        ROW_CHECK(i, item_file_open(&f, &s, path, 3, true, NULL) == B2_OK);
        ROW_CHECK(i, s.n == 0 && item_file_close(f, NULL) == B2_OK);
        item_set_free(&s);
    }
}

/* Nothing is kept without a path. */
static void test_no_file(void **state)
{
    struct item_set s = description();
    struct item_file *f = NULL;

    (void)state;
    assert_int_equal(item_file_open(&f, &s, NULL, 1, false, NULL), B2_OK);
    assert_int_equal(item_file_add(f, &s, one, sizeof one - 1, NULL), B2_OK);
    assert_int_equal(item_file_add(f, &s, "{}", 2, NULL), B2_EFORMAT);
    assert_int_equal(item_file_close(f, NULL), B2_OK);
    assert_int_equal(s.n, 1);
    item_set_free(&s);
}

/* Published intervals: Newcombe, "Two-sided confidence intervals for the single
 * proportion", Statistics in Medicine 17 (1998), table I, method 3. */
static void test_wilson(void **state)
{
    static const struct {
        double k, n, low, high;
    } table[] = {
        {81, 263, 0.2553, 0.3662},
        {15, 148, 0.0624, 0.1605},
        {0, 20, 0.0000, 0.1611},
        {1, 29, 0.0061, 0.1718},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        double low, high;
        task_sum_wilson(&low, &high, table[i].k, table[i].n, 1.959963984540054);
        if (fabs(low - table[i].low) > 5e-5 || fabs(high - table[i].high) > 5e-5)
            fail_msg("row %d: %.17g %.17g", (int)i, low, high);
    }
}

static void test_sum(void **state)
{
    struct item_set s = {0};
    struct task_sum sum;
    bool whole;

    (void)state;
    put(HEAD "{\"id\":\"a\",\"score\":1,\"loglik\":[-1,-2],\"gold\":0}\n"
             "{\"id\":\"b\",\"score\":0,\"loglik\":[-1,-3],\"gold\":1,\"truncated\":"
             "true}\n");
    assert_int_equal(item_set_read(&s, path, &whole, NULL), B2_OK);
    task_sum_make(&sum, &s);
    assert_true(sum.mean == 0.5 && sum.n_cut == 1 && sum.n_unfinished == 0);
    assert_true(fabs(sum.ppl - exp(2.0)) < 1e-12);
    item_set_free(&s);
    put(HEAD "{\"id\":\"a\",\"score\":0.5,\"finish\":[\"stop\",\"length\"]}\n"
             "{\"id\":\"b\",\"score\":1,\"finish\":[\"length\",\"length\"]}\n");
    assert_int_equal(item_set_read(&s, path, &whole, NULL), B2_OK);
    task_sum_make(&sum, &s);
    assert_true(sum.mean == 0.75 && sum.n_unfinished == 3 && sum.ppl == 0.0);
    assert_true(sum.low > 0.0 && sum.low < 0.75 && sum.high == 1.0);
    item_set_free(&s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),      cmocka_unit_test(test_means),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_go_on),
        cmocka_unit_test(test_other_run), cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_wilson),    cmocka_unit_test(test_sum),
    };
    int failed;

    scratch_make(&scratch);
    path = scratch_path(&scratch, "items.jsonl");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return failed;
}
