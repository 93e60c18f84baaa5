/*
 * test_tok_spm.c - SentencePiece-style BPE on a vocabulary made by hand.
 */
#include "base/str.h"
#include "unit/tok_small.h"
#include "unit/unit.h"

#include <math.h>

#define BAR "\xE2\x96\x81" /* U+2581 */

enum {
    B0 = 3, /* byte b is B0 + b */
    SPACE = 259,
    A,
    B,
    C,
    AB,
    BC,
    SPACE_A,
    CONTROL,
    USER
};

static void make(struct small *s)
{
    small_spm(s);
    small_add(s, BAR, TOK_NORMAL, -10);
    small_add(s, "a", TOK_NORMAL, -11);
    small_add(s, "b", TOK_NORMAL, -12);
    small_add(s, "c", TOK_NORMAL, -13);
    small_add(s, "ab", TOK_NORMAL, -2);
    small_add(s, "bc", TOK_NORMAL, -1);
    small_add(s, BAR "a", TOK_NORMAL, -3);
    small_add(s, "<|c|>", TOK_CONTROL, 0);
    small_add(s, "<u>", TOK_USER, 0);
}

static struct tokenizer *build(const struct tok_spec *spec)
{
    struct tokenizer *t = NULL;
    struct b2_err err = {0};

    if (tok_new(&t, spec, &err))
        fail_msg("%s", err.msg);
    return t;
}

static struct tok_spec spec_of(const struct small *s, enum tok_prefix prefix)
{
    struct tok_spec spec = small_spec(s, TOK_SPM);

    spec.bos = 1;
    spec.eos = 2;
    spec.space_prefix = prefix;
    return spec;
}

/* Checks the ids (want ends with -1) and that they decode to back. */
static void check(const struct tokenizer *t, const char *text, unsigned flags,
                  const int32_t *want, const char *back)
{
    struct tok_ids ids = {0};
    struct str out = {0};
    struct b2_err err = {0};
    int64_t n = 0;

    while (want[n] >= 0)
        n++;
    if (tok_encode(t, text, strlen(text), flags, &ids, &err))
        fail_msg("\"%s\": %s", text, err.msg);
    bool same = ids.n == n && (n == 0 || memcmp(ids.id, want, (size_t)n * 4) == 0);
    for (int64_t i = 0; !same && i < ids.n; i++)
        print_error(" %d", ids.id[i]);
    if (!same)
        fail_msg(" is what \"%s\" gives", text);
    if (tok_decode(t, ids.id, ids.n, (flags & TOK_SPECIAL) != 0, &out, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(out.data ? out.data : "", back);
    str_free(&out);
    tok_ids_free(&ids);
}

#define CHECK(t, text, flags, back, ...)                                               \
    check(t, text, flags, (const int32_t[]){__VA_ARGS__, -1}, back)

static void test_scores(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = spec_of(&s, TOK_PREFIX_NONE);
    struct tokenizer *t = build(&spec);
    CHECK(t, "", 0, "", -1);
    CHECK(t, "ab", 0, "ab", AB);
    CHECK(t, "abc", 0, "abc", A, BC); /* the higher score first */
    CHECK(t, "abab", 0, "abab", AB, AB);
    CHECK(t, " ab", 0, " ab", SPACE, AB);
    CHECK(t, " a", 0, " a", SPACE_A);
    CHECK(t, BAR "a", 0, " a", SPACE_A); /* U+2581 and a space are one */
    CHECK(t, "\xC3\xA9", 0, "\xC3\xA9", B0 + 0xC3, B0 + 0xA9);
    CHECK(t,
          "a\xFF"
          "b",
          0,
          "a\xFF"
          "b",
          A, B0 + 0xFF, B); /* any byte comes back */
    CHECK(t, "<0x41>", 0, "<0x41>", B0 + '<', B0 + '0', B0 + 'x', B0 + '4', B0 + '1',
          B0 + '>');
    CHECK(t, "</s>", 0, "</s>", B0 + '<', B0 + '/', B0 + 's', B0 + '>');
    CHECK(t, "</s>", TOK_SPECIAL, "</s>", 2);
    tok_free(t);
}

static void test_prefix(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = spec_of(&s, TOK_PREFIX_ALWAYS);
    struct tokenizer *t = build(&spec);
    CHECK(t, "a", 0, "a", SPACE_A);
    CHECK(t, " a", 0, " a", SPACE, SPACE_A);
    CHECK(t, "", 0, "", -1);
    CHECK(t, "<|c|>a", TOK_SPECIAL, "<|c|>a", CONTROL, SPACE_A);
    CHECK(t, "b<u>a", 0, "b<u>a", SPACE, B, USER, SPACE_A);
    CHECK(t, "<unk>a", TOK_SPECIAL, "<unk>a", 0, SPACE_A);
    CHECK(t, "<s>a", TOK_SPECIAL | TOK_ADD_BOS, "<s>a", 1, SPACE_A);
    tok_free(t);

    spec = spec_of(&s, TOK_PREFIX_UNLESS_SPACE);
    t = build(&spec);
    CHECK(t, "a", 0, "a", SPACE_A);
    CHECK(t, "b<u>a", 0, "b<u>a", SPACE, B, USER, SPACE_A);
    CHECK(t, " a", 0, "a", SPACE_A); /* the text's own space counts as the prefix */
    tok_free(t);

    spec = spec_of(&s, TOK_PREFIX_FIRST);
    t = build(&spec);
    CHECK(t, "a", 0, "a", SPACE_A);
    CHECK(t, "b<u>a", 0, "b<u>a", SPACE, B, USER, A);
    CHECK(t, "<|c|> a", TOK_SPECIAL, "<|c|> a", CONTROL, SPACE_A);
    tok_free(t);
}

/* Where byte tokens are missing, one unknown token stands for the character. */
static void test_unknown(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    for (int b = 0; b < 256; b++)
        s.attrs[B0 + b] = TOK_UNUSED;
    struct tok_spec spec = spec_of(&s, TOK_PREFIX_NONE);
    struct tokenizer *t = build(&spec);
    CHECK(t,
          "a\xE4\xBD\xA0"
          "b",
          0, "ab", A, 0, B);
    tok_free(t);
    spec.unk = -1;
    t = build(&spec);
    CHECK(t,
          "a\xE4\xBD\xA0"
          "b",
          0, "ab", A, B);
    tok_free(t);
}

/* With merges the pair's rank decides, not the score of what it makes. */
static void test_merges(void **state)
{
    struct small s;

    (void)state;
    make(&s);
    small_merge(&s, "a b");
    small_merge(&s, "b c");
    small_merge(&s, BAR " a");
    struct tok_spec spec = spec_of(&s, TOK_PREFIX_NONE);
    spec.merges = s.merges;
    spec.n_merges = s.n_merges;
    struct tokenizer *t = build(&spec);
    CHECK(t, "abc", 0, "abc", AB, C);
    CHECK(t, " a", 0, " a", SPACE_A);
    CHECK(t, " ab", 0, " ab", SPACE, AB);
    tok_free(t);
}

static void test_errors(void **state)
{
    struct tokenizer *t = NULL;
    struct b2_err err = {0};
    struct small s;

    (void)state;
    make(&s);
    struct tok_spec spec = spec_of(&s, TOK_PREFIX_NONE);
    s.scores[AB] = NAN;
    assert_int_equal(tok_new(&t, &spec, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "not a number"));
    spec.scores = NULL;
    assert_int_equal(tok_new(&t, &spec, &err), B2_EARG);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),  cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_unknown), cmocka_unit_test(test_merges),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
