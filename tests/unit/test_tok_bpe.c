/*
 * test_tok_bpe.c - byte-level BPE on a vocabulary made by hand: the 256 bytes and a few
 * merges, so that every expected id can be followed with a pencil.
 */
#include "base/str.h"
#include "unit/tok_small.h"
#include "unit/unit.h"

enum { AB = 256, BC, ABC, AA, SPACE_A, E_ACUTE, N_MERGED };

static void make(struct small *s)
{
    small_bpe(s);
    small_add(s, "ab", TOK_NORMAL, 0);
    small_add(s, "bc", TOK_NORMAL, 0);
    small_add(s, "abc", TOK_NORMAL, 0);
    small_add(s, "aa", TOK_NORMAL, 0);
    small_add(s,
              "\xC4\xA0"
              "a",
              TOK_NORMAL, 0);                        /* " a" */
    small_add(s, "\xC3\x83\xC2\xA9", TOK_NORMAL, 0); /* the bytes C3 A9 */
    small_merge(s, "b c");
    small_merge(s, "a b");
    small_merge(s, "a bc");
    small_merge(s, "a a");
    small_merge(s, "\xC4\xA0 a");
    small_merge(s, "\xC3\x83 \xC2\xA9");
}

static struct tokenizer *build(const struct tok_spec *spec)
{
    struct tokenizer *t = NULL;
    struct b2_err err = {0};

    if (tok_new(&t, spec, &err))
        fail_msg("%s", err.msg);
    return t;
}

/* want ends with -1. */
static void check(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                  const int32_t *want)
{
    struct tok_ids ids = {0};
    struct b2_err err = {0};
    int64_t n_want = 0;

    while (want[n_want] >= 0)
        n_want++;
    if (tok_encode(t, text, n, flags, &ids, &err))
        fail_msg("\"%s\": %s", text, err.msg);
    bool same = ids.n == n_want;
    for (int64_t i = 0; same && i < n_want; i++)
        same = ids.id[i] == want[i];
    if (!same) {
        for (int64_t i = 0; i < ids.n; i++)
            print_error(" %d", ids.id[i]);
        tok_ids_free(&ids);
        fail_msg(" is what \"%s\" gives", text);
    }
    tok_ids_free(&ids);
}

#define CHECK(t, text, flags, ...)                                                     \
    check(t, text, strlen(text), flags, (const int32_t[]){__VA_ARGS__, -1})

static void test_merges(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    CHECK(t, "", 0, -1);
    CHECK(t, "abc", 0, ABC); /* "b c" has the better rank, then "a bc" */
    CHECK(t, "abd", 0, AB, 'd');
    CHECK(t, "aaa", 0, AA, 'a'); /* equal ranks: leftmost */
    CHECK(t, "aaaa", 0, AA, AA);
    CHECK(t, " a", 0, SPACE_A);
    CHECK(t, "a a", 0, 'a', SPACE_A); /* words never merge across */
    CHECK(t, "\xC3\xA9", 0, E_ACUTE);
    /* One U+FFFD (EF BF BD) per ill-formed prefix; never an error. */
    CHECK(t, "a\xFF", 0, 'a', 0xEF, 0xBF, 0xBD);
    CHECK(t, "\xE2\x82x", 0, 0xEF, 0xBF, 0xBD, 'x');
    tok_free(t);
}

static void test_zero_bytes(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    check(t, "a\0b", 3, 0, (const int32_t[]){'a', 0, 'b', -1});
    tok_free(t);
}

static void test_ignore_merges(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    int32_t whole = small_add(&s, "cab", TOK_NORMAL, 0); /* no merge makes it */
    int32_t control = small_add(&s, "dab", TOK_CONTROL, 0);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    CHECK(t, "cab", 0, 'c', AB);
    tok_free(t);
    spec.ignore_merges = TOK_ON;
    t = build(&spec);
    CHECK(t, "cab", 0, whole);
    CHECK(t, "dab", 0, 'd', AB); /* a control token is not a word */
    CHECK(t, "dab", TOK_SPECIAL, control);
    tok_free(t);
    spec.ignore_merges = TOK_BY_PRE;
    spec.pre = "llama-bpe";
    t = build(&spec);
    CHECK(t, "cab", 0, whole);
    tok_free(t);
}

static void test_nfc(void **state)
{
    /* Composed; decomposed; two marks in the wrong order (230 before 220). */
    static const char composed[] = "\xC3\xA9", split[] = "e\xCC\x81";
    static const char marks[] = "a\xCC\x81\xCC\xA3", ordered[] = "\xE1\xBA\xA1\xCC\x81";
    static const char hangul[] = "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB";
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    CHECK(t, split, 0, 'e', 0xCC, 0x81);
    tok_free(t);
    spec.nfc = TOK_ON;
    t = build(&spec);
    CHECK(t, composed, 0, E_ACUTE);
    CHECK(t, split, 0, E_ACUTE);
    CHECK(t, marks, 0, 0xE1, 0xBA, 0xA1, 0xCC, 0x81);
    CHECK(t, ordered, 0, 0xE1, 0xBA, 0xA1, 0xCC, 0x81);
    CHECK(t, hangul, 0, 0xED, 0x95, 0x9C);
    tok_free(t);
    spec.nfc = TOK_BY_PRE;
    spec.pre = "qwen2";
    t = build(&spec);
    CHECK(t, split, 0, E_ACUTE);
    tok_free(t);
    spec.nfc = TOK_OFF;
    t = build(&spec);
    CHECK(t, split, 0, 'e', 0xCC, 0x81);
    tok_free(t);
}

static void test_added(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    int32_t user = small_add(&s, "<u>", TOK_USER, 0);
    int32_t longer = small_add(&s, "<u>>", TOK_CONTROL, 0);
    int32_t left = small_add(&s, "<l>", TOK_CONTROL, 0);
    int32_t right = small_add(&s, "<r>", TOK_CONTROL, 0);
    int32_t overlap = small_add(&s, "><l", TOK_USER, 0);
    s.lstrip[left] = true;
    s.rstrip[right] = true;
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    CHECK(t, "a<u>b", 0, 'a', user, 'b');
    CHECK(t, "<u>>", TOK_SPECIAL, longer); /* longest */
    CHECK(t, "<u>>", 0, user, '>');        /* a hidden control token hides nothing */
    CHECK(t, "<u><l>", 0, user, '<', 'l', '>');
    CHECK(t, "<u><l>", TOK_SPECIAL, user, left); /* leftmost: "><l" overlaps, is out */
    CHECK(t, "a><l", 0, 'a', overlap);
    CHECK(t, "a \t\xE3\x80\x80<l> b", TOK_SPECIAL, 'a', left, ' ', 'b');
    CHECK(t, "a <r> \n b", TOK_SPECIAL, 'a', ' ', right, 'b');
    CHECK(t, "<r>  ", TOK_SPECIAL, right);
    CHECK(t, "<u> <l>", TOK_SPECIAL, user, left); /* not past the token before */
    CHECK(t, "a <l>", 0, 'a', ' ', '<', 'l', '>');
    assert_int_equal(tok_find(t, "<u>"), user);
    assert_int_equal(tok_find(t, "\xC4\xA0"
                                 "a"),
                     SPACE_A);
    assert_int_equal(tok_find(t, "abc"), ABC);
    assert_int_equal(tok_find(t, "abcd"), -1);
    assert_int_equal(tok_find(t, ""), -1);
    tok_free(t);
}

static void test_begin_and_end(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    int32_t bos = small_add(&s, "<s>", TOK_CONTROL, 0);
    int32_t eos = small_add(&s, "</s>", TOK_CONTROL, 0);
    int32_t turn = small_add(&s, "<|im_end|>", TOK_CONTROL, 0);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    spec.bos = bos;
    spec.eos = eos;
    struct tokenizer *t = build(&spec);
    assert_false(tok_adds_bos(t)); /* gpt-2 adds none */
    CHECK(t, "a", TOK_ADD_BOS, 'a');
    tok_free(t);
    spec.add_bos = spec.add_eos = TOK_ON;
    t = build(&spec);
    assert_true(tok_adds_bos(t));
    CHECK(t, "a", 0, 'a');
    CHECK(t, "a", TOK_ADD_BOS, bos, 'a', eos);
    CHECK(t, "", TOK_ADD_BOS, bos, eos);
    CHECK(t, "<s>a</s>", TOK_ADD_BOS | TOK_SPECIAL, bos, 'a', eos); /* exactly one */
    CHECK(t, "<s>", TOK_ADD_BOS, bos, '<', 's', '>', eos);
    assert_true(tok_is_end(t, eos) && tok_is_end(t, turn));
    assert_false(tok_is_end(t, bos) || tok_is_end(t, -1) || tok_is_end(t, 100000));
    assert_int_equal(tok_bos(t), bos);
    assert_int_equal(tok_eos(t), eos);
    assert_int_equal(tok_count(t), s.n);
    tok_free(t);
    spec.add_bos = TOK_BY_PRE;
    spec.pre = "llama-bpe";
    t = build(&spec);
    assert_true(tok_adds_bos(t));
    tok_free(t);
}

static void test_decode(void **state)
{
    struct small s;
    struct str out = {0};
    struct b2_err err = {0};
    size_t n;

    (void)state;
    make(&s);
    int32_t control = small_add(&s, "<|x|>", TOK_CONTROL, 0);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    const int32_t ids[] = {SPACE_A, control, E_ACUTE, 0, ABC};
    assert_int_equal(tok_decode(t, ids, 5, false, &out, &err), B2_OK);
    assert_int_equal(out.len, 8);
    assert_memory_equal(out.data, " a\xC3\xA9\0abc", 8);
    str_clear(&out);
    assert_int_equal(tok_decode(t, ids, 2, true, &out, &err), B2_OK);
    assert_string_equal(out.data, " a<|x|>");
    assert_int_equal(
        tok_decode(t, (const int32_t[]){(int32_t)s.n}, 1, true, &out, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "outside the vocabulary"));
    assert_null(tok_bytes(t, -1, true, &n));
    assert_null(tok_bytes(t, (int32_t)s.n, true, &n));
    assert_non_null(tok_bytes(t, control, false, &n));
    assert_int_equal(n, 0);
    str_free(&out);
    tok_free(t);
}

/* A vocabulary may lack bytes that no UTF-8 text holds; without it they are dropped. */
static void test_missing_byte(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    s.attrs[0x07] = TOK_UNUSED;
    s.tokens[0x07] = small_text(&s, "[PAD7]", 6);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    struct tokenizer *t = build(&spec);
    CHECK(t,
          "a\x07"
          "b",
          0, 'a', 'b');
    tok_free(t);
}

static void expect_error(const struct tok_spec *spec, enum b2_status want,
                         const char *word)
{
    struct tokenizer *t = NULL;
    struct b2_err err = {0};
    enum b2_status rc = tok_new(&t, spec, &err);

    tok_free(t);
    if (rc != want || !strstr(err.msg, word))
        fail_msg("status %d, \"%s\"; wanted %d with \"%s\"", rc, err.msg, want, word);
}

static void test_errors(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = small_spec(&s, TOK_BPE);
    spec.pre = "gpt-5";
    expect_error(&spec, B2_EUNSUP, "gpt-5");
    expect_error(&spec, B2_EUNSUP, "qwen2"); /* lists what it knows */
    spec.pre = NULL;
    expect_error(&spec, B2_EUNSUP, "(none)");
    spec = small_spec(&s, TOK_BPE);
    spec.bos = (int32_t)s.n;
    expect_error(&spec, B2_EFORMAT, "outside the vocabulary");
    spec = small_spec(&s, TOK_BPE);
    spec.n_tokens = 0;
    expect_error(&spec, B2_EFORMAT, "vocabulary of 0");
    small_merge(&s, "q z");
    spec = small_spec(&s, TOK_BPE);
    expect_error(&spec, B2_EFORMAT, "q z");
    s.merges[s.n_merges - 1] = small_text(&s, "qz", 2);
    expect_error(&spec, B2_EFORMAT, "qz");
    make(&s);
    small_add(&s, "abc", TOK_NORMAL, 0);
    spec = small_spec(&s, TOK_BPE);
    expect_error(&spec, B2_EFORMAT, "same text");
    make(&s);
    spec = small_spec(&s, TOK_BPE);
    spec.tokens += ABC; /* longer tokens only */
    spec.n_tokens = 2;
    spec.attrs = NULL;
    spec.n_merges = 0;
    spec.lstrip = spec.rstrip = NULL;
    expect_error(&spec, B2_EFORMAT, "single byte");
    assert_true(tok_knows_pre("smollm"));
    assert_false(tok_knows_pre("smolln"));
    tok_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges),        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_ignore_merges), cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_added),         cmocka_unit_test(test_begin_and_end),
        cmocka_unit_test(test_decode),        cmocka_unit_test(test_missing_byte),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
