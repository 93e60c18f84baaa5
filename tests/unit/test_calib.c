/*
 * test_calib.c - overlap of texts, cutting of files, shares, and what is refused.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "compress/calib.h"

#include "compress/overlap.h"
#include "unit/scratch.h"
#include "unit/tok_small.h"
#include "unit/unit.h"

static struct scratch scratch;

static void test_overlap(void **state)
{
    static const struct {
        const char *known, *text;
        bool hit;
    } rows[] = {
        {"one two three four", "zero one two three", true},
        {"one two three four", "one two. THREE",
         true}, /* case and marks do not count */
        {"one two three four", "two one three", false},
        {"one two three four", "one two", false}, /* shorter than a run */
        {"one two", "one two three", false},
        {"onetwo three four five", "one two three", false},
        {"\xe4\xb8\x80\xe4\xba\x8c\xe4\xb8\x89",
         "x\xe4\xb8\x80\xe4\xba\x8c\xe4\xb8\x89",
         true}, /* each such character is a word */
        {"na\xc3\xafve words here", "naive words here", false},
        {"", "one two three", false},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct overlap *o = overlap_new(3);
        assert_true(overlap_add(o, rows[i].known, strlen(rows[i].known)));
        ROW_CHECK(i, overlap_has(o, rows[i].text, strlen(rows[i].text)) == rows[i].hit);
        overlap_free(o);
    }
}

/* More runs than the first table holds, all of them found again. */
static void test_overlap_grows(void **state)
{
    struct overlap *o = overlap_new(13);
    char text[64];

    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 3000; i++) {
            int n = snprintf(text, sizeof text, "%d b c d e f g h i j k l m", i);
            if (turn == 0)
                assert_true(overlap_add(o, text, (size_t)n));
            else
                assert_true(overlap_has(o, text, (size_t)n));
        }
    }
    assert_false(overlap_has(o, "3000 b c d e f g h i j k l m", 28));
    overlap_free(o);
}

static struct tokenizer *byte_tokenizer(void)
{
    static struct small s;
    struct tokenizer *t;
    struct b2_err err = {0};

    small_bpe(&s);
    const struct tok_spec spec = small_spec(&s, TOK_BPE);
    if (tok_new(&t, &spec, &err))
        fail_msg("%s", err.msg);
    return t;
}

static const char *put(const char *name, const char *text)
{
    const char *path = scratch_path(&scratch, name);

    assert_int_equal(file_write_all(path, text, strlen(text), true, NULL), B2_OK);
    return path;
}

/* n lines of words that nothing else has. */
static const char *put_lines(const char *name, char letter, int n)
{
    static char text[200000];
    int at = 0;

    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "%c%d %c%d %c%d a b a b a b a b a b a b\n", letter, i, letter,
                       i * 7, letter, i * 13);
    return put(name, text);
}

static enum b2_status make(struct calib *c, const struct tokenizer *tok, const char *a,
                           const char *b, const char *avoid, int64_t n_tokens,
                           struct b2_err *err)
{
    const char *files[] = {a, b};
    const struct calib_params p = {.files = files,
                                   .n_files = b ? 2 : 1,
                                   .avoid = &avoid,
                                   .n_avoid = avoid ? 1 : 0,
                                   .n_tokens = n_tokens,
                                   .ctx = 16};

    return calib_make(c, tok, &p, err);
}

static void test_files(void **state)
{
    struct tokenizer *tok = byte_tokenizer();
    struct calib c, again;
    struct b2_err err = {0};
    char a[512], b[520], eval[512];
    struct str json = {0};

    (void)state;
    snprintf(a, sizeof a, "%s", put_lines("a.txt", 'q', 900));
    snprintf(b, sizeof b, "%s=3",
             put("b.jsonl", "{\"text\":\"some words to be read by a model\"}\n\n"
                            "{\"question\":\"why is it so that we ask\",\"answer\":"
                            "\"because nobody else has asked it yet\"}\n"
                            "{\"prompt\":\"say it again in other words\","
                            "\"completion\":\"it was said in words before\"}\n"));
    if (make(&c, tok, a, b, NULL, 64, &err))
        fail_msg("%s", err.msg);
    /* Five sequences, the last one to probe; a quarter of them from a. */
    assert_int_equal(c.n_seqs, 5);
    assert_int_equal(c.source[0].seqs, 1);
    assert_int_equal(c.source[1].seqs, 4);
    assert_int_equal(c.source[1].pieces, 3);
    calib_json(&c, &json);
    assert_non_null(strstr(json.data, "\"name\":\"b.jsonl\""));
    assert_int_equal(make(&again, tok, a, b, NULL, 64, &err), B2_OK);
    assert_string_equal(c.sha256, again.sha256);
    calib_free(&c);
    calib_free(&again);
    str_free(&json);

    /* A piece that overlaps goes, and the rest stays. */
    snprintf(eval, sizeof eval, "%s",
             put("eval.txt", "q5 q35 q65 a b a b a b a b a b a b\n"));
    assert_int_equal(make(&c, tok, a, NULL, eval, 64, &err), B2_OK);
    assert_int_equal(c.source[0].dropped, 1);
    calib_free(&c);
    /* A text that is the evaluation text. */
    assert_int_equal(make(&c, tok, a, NULL, a, 64, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "evaluation text"));
    assert_int_equal(make(&c, tok, eval, NULL, NULL, 6400, &err), B2_OK); /* short */
    calib_free(&c);
    assert_int_equal(make(&c, tok, put("none.txt", ""), NULL, NULL, 64, &err), B2_EARG);
    assert_int_equal(make(&c, tok, put("x.jsonl", "{\"text\":\"a\"}\n{\"b\":1}\n"),
                          NULL, NULL, 64, &err),
                     B2_EFORMAT);
    assert_non_null(strstr(err.msg, "line 2"));
    assert_int_equal(make(&c, tok, put("y.jsonl", "[1]\n"), NULL, NULL, 64, &err),
                     B2_EFORMAT);
    assert_non_null(calib_known_set(
        "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08"));
    assert_null(calib_known_set("00"));
    tok_free(tok);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_overlap_grows),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
