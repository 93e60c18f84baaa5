/*
 * test_gguf_read.c - files that must be taken as they are meant, and cut ones.
 *
 * Each file is parsed from a copy of exactly its size, so that a sanitizer sees every
 * read past the end.
 */
#include "unit/gguf_build.h"

static void legacy_42(struct gb *b)
{
    gb_type_42(b, 1088, 1472);
}

static void mainline_42(struct gb *b)
{
    gb_type_42(b, 1152, 1536);
}

static void test_small_file(void **state)
{
    struct gb b = {0};
    struct gguf g;
    struct b2_err err = {0};
    uint8_t *copy;
    const struct meta_str *words;
    const float *floats;
    uint64_t n;

    (void)state;
    gb_small(&b);
    assert_int_equal(gb_parse(&g, &b, &copy, &err), B2_OK);
    assert_int_equal(g.version, 3);
    assert_int_equal(g.alignment, 32);
    assert_int_equal(g.n_tensors, 3);
    assert_int_equal(meta_count(g.meta), 5);
    assert_int_equal(meta_get_strs(g.meta, "a.words", &words, &n, &err), B2_OK);
    assert_int_equal(n, 3);
    assert_string_equal(words[0].data, "one");
    assert_int_equal(words[1].len, 0);
    assert_string_equal(words[2].data, "three");
    assert_int_equal(meta_get_f32s(g.meta, "a.floats", &floats, &n, &err), B2_OK);
    assert_true(n == 2 && floats[0] == 1.0f && floats[1] == -2.0f);
    const struct tensor *t = &g.tensors[1];
    assert_string_equal(t->name, "a.weight");
    assert_true(t->type == DT_Q8_0 && t->rank == 2 && t->ne[0] == 32 && t->ne[1] == 2);
    assert_true(t->ne[2] == 1 && t->ne[3] == 1 && t->n_bytes == 68);
    assert_true(t->data[0] == 0 && t->data[67] == 67);
    assert_ptr_equal(t->data, copy + g.offsets[1]);
    gguf_close(&g);
    free(copy);
}

/* A file cut at any length is refused with words, whatever the cut hits. */
static void test_truncation(void **state)
{
    struct gb whole = {0};

    (void)state;
    gb_small(&whole);
    for (size_t n = 0; n < whole.n; n++) {
        struct gb b = whole;
        struct gguf g;
        struct b2_err err = {0};
        uint8_t *copy;
        b.n = n;
        enum b2_status rc = gb_parse(&g, &b, &copy, &err);
        if (rc != B2_ETRUNC || err.msg[0] == '\0')
            fail_msg("cut at %zu of %zu: status %d: %s", n, whole.n, rc, err.msg);
    }
}

/* Every byte changed in turn: any answer, but no crash and no answer without words. */
static void test_one_byte_wrong(void **state)
{
    static const uint8_t xors[] = {0x01, 0x80, 0xff};
    struct gb whole = {0};

    (void)state;
    gb_small(&whole);
    for (size_t n = 0; n < whole.n; n++) {
        for (size_t k = 0; k < countof(xors); k++) {
            struct gb b = whole;
            struct gguf g;
            struct b2_err err = {0};
            uint8_t *copy;
            b.b[n] ^= xors[k];
            enum b2_status rc = gb_parse(&g, &b, &copy, &err);
            if (rc != B2_OK && (err.msg[0] == '\0' || err.status != rc))
                fail_msg("byte %zu: status %d without words", n, rc);
            gguf_close(&g);
            free(copy);
        }
    }
}

static void test_alignments(void **state)
{
    static const uint32_t good[] = {8, 32, 64, 4096, 65536};

    (void)state;
    for (size_t i = 0; i < countof(good); i++) {
        struct gb b = {0};
        struct gguf g;
        struct b2_err err = {0};
        uint8_t *copy;
        gb_align_with(&b, good[i]);
        assert_int_equal(b.n, 57); /* T03 */
        ROW_CHECK(i, gb_parse(&g, &b, &copy, &err) == B2_OK);
        ROW_CHECK(i, g.alignment == good[i] && g.n_tensors == 0);
        gguf_close(&g);
        free(copy);
    }
}

static void test_zero_dimensions(void **state)
{
    static const uint64_t dims[][2] = {{0, 0}, {4, 0}, {0, 4}};

    (void)state;
    for (size_t i = 0; i < countof(dims); i++) {
        struct gb b = {0};
        struct gguf g;
        struct b2_err err = {0};
        uint8_t *copy;
        gb_header(&b, 3, 1, 0);
        gb_tensor(&b, "t", dims[i][0], dims[i][1], 0, 0);
        gb_zeros(&b, 96 - b.n);
        ROW_CHECK(i, gb_parse(&g, &b, &copy, &err) == B2_OK);
        ROW_CHECK(i, g.n_tensors == 1 && g.tensors[0].n_bytes == 0);
        gguf_close(&g);
        free(copy);
    }
}

static void test_type_42(void **state)
{
    static const struct {
        void (*build)(struct gb *b);
        enum dtype want;
        uint64_t n_bytes;
    } cases[] = {
        {legacy_42, DT_Q2_0_G128, 1088},
        {mainline_42, DT_Q2_0, 1152},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct gb b = {0};
        struct gguf g;
        struct b2_err err = {0};
        uint8_t *copy;
        cases[i].build(&b);
        ROW_CHECK(i, gb_parse(&g, &b, &copy, &err) == B2_OK);
        ROW_CHECK(i, g.tensors[0].type == cases[i].want);
        ROW_CHECK(i, g.tensors[0].n_bytes == cases[i].n_bytes);
        gguf_close(&g);
        free(copy);
    }
}

/* One clear distance decides for tensors whose own distance fits both layouts. */
static void test_type_42_votes(void **state)
{
    struct gb b = {0};
    struct gguf g;
    struct b2_err err = {0};
    uint8_t *copy;

    (void)state;
    gb_header(&b, 3, 3, 0);
    gb_tensor(&b, "one.weight", 128, 1, 42, 0); /* 34 or 36 bytes: both pad to 64 */
    gb_tensor(&b, "two.weight", 128, 32, 42, 64);
    gb_tensor(&b, "n", 8, GB_RANK1, 0, 64 + 1088);
    gb_pad(&b, 32);
    gb_zeros(&b, 64 + 1088 + 32);
    assert_int_equal(gb_parse(&g, &b, &copy, &err), B2_OK);
    assert_int_equal(g.tensors[0].type, DT_Q2_0_G128);
    assert_int_equal(g.tensors[0].n_bytes, 34);
    gguf_close(&g);
    free(copy);
}

/* USERS.md T06: the sizes of a real embedding. */
static void test_type_42_sizes(void **state)
{
    uint64_t row;

    (void)state;
    assert_int_equal(dtype_row_bytes(&row, DT_Q2_0_G128, 5120, NULL), B2_OK);
    assert_int_equal(row * 248320, 337715200);
    assert_int_equal(dtype_row_bytes(&row, DT_Q2_0, 5120, NULL), B2_OK);
    assert_int_equal(row * 248320, 357580800);
}

static void test_version_2(void **state)
{
    struct gb b = {0};
    struct gguf g;
    struct b2_err err = {0};
    uint8_t *copy;

    (void)state;
    gb_small(&b);
    b.b[4] = 2;
    assert_int_equal(gb_parse(&g, &b, &copy, &err), B2_OK);
    assert_int_equal(g.version, 2);
    gguf_close(&g);
    free(copy);
}

/* Escape sequences in names do not reach the terminal. */
static void test_names_are_shown_safely(void **state)
{
    struct gb b = {0};
    struct gguf g;
    struct b2_err err = {0};
    uint8_t *copy;

    (void)state;
    gb_header(&b, 3, 1, 0);
    gb_tensor(&b, "\033[31mred\n", 128, 1, 999, 0);
    gb_zeros(&b, 64);
    assert_int_equal(gb_parse(&g, &b, &copy, &err), B2_EUNSUP);
    assert_null(strpbrk(err.msg, "\033\n"));
    assert_non_null(strstr(err.msg, "?[31mred?"));
}

/* 100,000 keys and tensors: linear time and memory, found again. */
static void test_many_keys(void **state)
{
    enum { N = 100000 };
    struct b2_err err = {0};
    struct gguf g;
    size_t size = 24 + N * (8 + 6 + 4 + 4), at = 24;
    uint8_t *file = calloc(size, 1);

    (void)state;
    assert_non_null(file);
    memcpy(file, "GGUF\3", 5);
    memcpy(file + 16, &(uint64_t){N}, 8);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "%06d", i);
        file[at] = 6;
        memcpy(file + at + 8, name, 6);
        file[at + 14] = 4;
        at += 22;
    }
    assert_int_equal(gguf_parse(&g, file, size, &err), B2_OK);
    assert_int_equal(meta_count(g.meta), N);
    assert_non_null(meta_find(g.meta, "099999"));
    gguf_close(&g);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_file),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_one_byte_wrong),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_zero_dimensions),
        cmocka_unit_test(test_type_42),
        cmocka_unit_test(test_type_42_votes),
        cmocka_unit_test(test_type_42_sizes),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_names_are_shown_safely),
        cmocka_unit_test(test_many_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
