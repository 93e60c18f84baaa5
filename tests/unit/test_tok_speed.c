/*
 * test_tok_speed.c - texts that make careless tokenizers quadratic, each of a million
 * characters, under every pattern, within two seconds of processor time.
 */
#include "base/mem.h"
#include "text/utf8.h"
#include "unit/tok_small.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <time.h>

enum { N = 1000 * 1000 };

/* Sanitizers and valgrind slow everything by an order of magnitude. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double limit_s = 20.0;
#else
static const double limit_s = 2.0;
#endif

/* "a", "aa", "aaaa", … up to 64, so that merging has work to do at every level. */
static void make_bpe(struct small *s)
{
    static const char *const letters[] = {"a", "\xC4\xA0"};

    small_bpe(s);
    for (size_t k = 0; k < countof(letters); k++) {
        char half[160] = "", whole[330];
        strncat(half, letters[k], 8);
        for (int len = 1; len < 64; len *= 2) {
            snprintf(whole, sizeof whole, "%s %s", half, half);
            small_merge(s, whole);
            snprintf(whole, sizeof whole, "%s%s", half, half);
            small_add(s, whole, TOK_NORMAL, 0);
            memcpy(half, whole, strlen(whole) + 1);
        }
    }
}

static void check_time(const struct tokenizer *t, const char *what, const char *text,
                       size_t n)
{
    struct tok_ids ids = {0};
    struct b2_err err = {0};
    clock_t start = clock();

    if (tok_encode(t, text, n, TOK_SPECIAL, &ids, &err))
        fail_msg("%s: %s", what, err.msg);
    double spent_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    tok_ids_free(&ids);
    if (spent_s > limit_s)
        fail_msg("%s: %.2f s", what, spent_s);
}

/* n copies of unit, and tail. */
static char *repeat(const char *unit, size_t n, const char *tail, size_t *len)
{
    size_t n_unit = strlen(unit), n_tail = strlen(tail);
    char *p = mem_calloc(n * n_unit + n_tail + 1, 1);

    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        memcpy(p + i * n_unit, unit, n_unit);
    memcpy(p + n * n_unit, tail, n_tail);
    *len = n * n_unit + n_tail;
    return p;
}

static const struct {
    const char *unit, *tail;
    size_t n;
} hard[] = {
    /* One character a million times. */
    {"a", "", N},
    {"A", "", N}, /* o200k looks for a lower-case letter behind */
    {" ", "", N},
    {"\n", "", N},
    {"1", "", N},
    {".", "", N},
    {"\xE4\xBD\xA0", "", N},
    /* Others that invite to look back or ahead, shorter to save time: quadratic work
     * would still take minutes. */
    {" ", "x", N / 4}, /* trailing-space patterns look for the end */
    {"\r\n", "!", N / 8},
    {"'s", "", N / 8},
    {"aA1 .\n", "", N / 24},
    {"\xCC\x81\xCC\xA3", "", N / 8}, /* marks that NFC must put in order */
    {"<|", "", N / 8},               /* beginnings of an added token */
};

static void run_all(const struct tokenizer *t, const char *name)
{
    for (size_t i = 0; i < countof(hard); i++) {
        char what[96];
        size_t len;
        char *text = repeat(hard[i].unit, hard[i].n, hard[i].tail, &len);
        snprintf(what, sizeof what, "%s, row %d", name, (int)i);
        check_time(t, what, text, len);
        mem_free(text);
    }
}

/* The part of the patterns that this process looks at: part, part + n_parts, … */
static size_t part, n_parts = 1;

static void test_patterns(void **state)
{
    static const char *const names[] = {
        "default", "gpt-2",  "smollm",       "llama-bpe",      "qwen2",       "qwen35",
        "gpt-4o",  "tekken", "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon",
    };
    struct small s;

    (void)state;
    make_bpe(&s);
    small_add(&s, "<|<|<|<|<|end|>", TOK_CONTROL, 0);
    for (size_t i = part; i < countof(names); i += n_parts) {
        struct tok_spec spec = small_spec(&s, TOK_BPE);
        struct tokenizer *t = NULL;
        spec.pre = names[i];
        assert_int_equal(tok_new(&t, &spec, NULL), B2_OK);
        run_all(t, names[i]);
        tok_free(t);
    }
}

static void test_spm(void **state)
{
    struct small s;
    struct tokenizer *t = NULL;

    (void)state;
    small_spm(&s);
    for (size_t len = 1; len <= 64; len *= 2) {
        char text[65];
        memset(text, 'a', len);
        text[len] = '\0';
        small_add(&s, text, TOK_NORMAL, -(float)len);
    }
    struct tok_spec spec = small_spec(&s, TOK_SPM);
    spec.space_prefix = TOK_PREFIX_ALWAYS;
    assert_int_equal(tok_new(&t, &spec, NULL), B2_OK);
    run_all(t, "spm");
    tok_free(t);
}

/* Arguments: which part of the patterns, and of how many. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_spm),
    };

    if (argc > 2) {
        part = (size_t)strtoul(argv[1], NULL, 10);
        n_parts = (size_t)strtoul(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
