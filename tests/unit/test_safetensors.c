/*
 * test_safetensors.c - the container against the safetensors library and against
 * hostile files (USERS.md T09).
 */
#define _GNU_SOURCE
#include "format/safetensors.h"
#include "unit/format_dump.h"
#include "unit/scratch.h"

/* A length field, a header, and n zero bytes of data. Returned owned. */
static uint8_t *build(const char *header, size_t data, size_t *size)
{
    size_t n = strlen(header);
    uint8_t *file = calloc(8 + n + data, 1);

    assert_non_null(file);
    le_put64(file, n);
    memcpy(file + 8, header, n);
    *size = 8 + n + data;
    return file;
}

#define ONE(dtype, shape, offsets)                                                     \
    "{\"t.w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets  \
    "}}"

static void test_refused_headers(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        enum b2_status want;
        const char *words;
    } cases[] = {
        {"\xff", 0, B2_EFORMAT, "JSON"},
        {"{", 0, B2_EFORMAT, "JSON"},
        {"[]", 0, B2_EFORMAT, "object"},
        {"{} x", 0, B2_EFORMAT, "after the JSON"},
        {"{}", 1, B2_EFORMAT, "1 bytes after the last tensor"},
        {"{\"t.w\":1}", 0, B2_EFORMAT, "t.w"},
        {"{\"t.w\":{}}", 0, B2_EFORMAT, "dtype"},
        {ONE("F33", "[2]", "[0,8]"), 8, B2_EUNSUP, "F33"},
        {ONE("Q4_0", "[32]", "[0,18]"), 18, B2_EUNSUP, "Q4_0"},
        {ONE("F32", "[-1]", "[0,8]"), 8, B2_EFORMAT, "dimension"},
        {ONE("F32", "[1.5]", "[0,8]"), 8, B2_EFORMAT, "dimension"},
        {ONE("F32", "2", "[0,8]"), 8, B2_EFORMAT, "shape"},
        {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, B2_EUNSUP, "9 dimensions"},
        {ONE("F32", "[4503599627370496,4503599627370496,1,1,1]", "[0,4]"), 4,
         B2_EFORMAT, "too many elements"},
        {ONE("F32", "[4294967296,4294967296]", "[0,8]"), 8, B2_EFORMAT, "elements"},
        {ONE("F32", "[2]", "[0,9]"), 9, B2_EFORMAT, "take 8 bytes"},
        {ONE("F32", "[2]", "[8,0]"), 8, B2_EFORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[0]"), 8, B2_EFORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[0,1e300]"), 8, B2_EFORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[4,12]"), 12, B2_EFORMAT, "hole"},
        {ONE("F32", "[2]", "[0,8]"), 5, B2_ETRUNC, "needed 8 bytes, present 5"},
        {ONE("F32", "[2]", "[0,8]"), 9, B2_EFORMAT, "belong to none"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, B2_EFORMAT, "inside another"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
         4, B2_EFORMAT, "twice"},
        {"{\"__metadata__\":{\"a\":1}}", 0, B2_EFORMAT, "__metadata__"},
        {"{\"__metadata__\":[]}", 0, B2_EFORMAT, "__metadata__"},
        {"{\"a\\u0000b\":{}}", 0, B2_EFORMAT, "zero byte"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        size_t size;
        uint8_t *file = build(cases[i].header, cases[i].data, &size);
        struct safetensors s;
        struct b2_err err = {0};
        enum b2_status rc = safetensors_parse(&s, file, size, &err);
        if (rc != cases[i].want || err.status != rc || !strstr(err.msg, cases[i].words))
            fail_msg("row %zu: status %d: %s", i, rc, err.msg);
        assert_null(s.meta);
        free(file);
    }
}

static void test_refused_lengths(void **state)
{
    static const struct {
        uint64_t length;
        size_t size; /* of the whole file */
        enum b2_status want;
    } cases[] = {
        {1000000, 10, B2_ETRUNC},
        {(uint64_t)1 << 63, 100, B2_EFORMAT},
        {100000001, 100, B2_EFORMAT},
        {0, 100, B2_EFORMAT},
        {UINT64_MAX, 100, B2_EFORMAT},
        {100, 7, B2_ETRUNC},
        {0, 0, B2_ETRUNC},
        {UINT64_MAX - 8, 100, B2_EFORMAT},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        uint8_t *file = calloc(cases[i].size + 8, 1);
        struct safetensors s;
        struct b2_err err = {0};
        assert_non_null(file);
        le_put64(file, cases[i].length);
        enum b2_status rc = safetensors_parse(&s, file, cases[i].size, &err);
        if (rc != cases[i].want || err.msg[0] == '\0')
            fail_msg("row %zu: status %d: %s", i, rc, err.msg);
        free(file);
    }
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
         "Git LFS pointer"},
        {"<!DOCTYPE html>\n<html>", "looks like a web page"},
        {"\n<HTML><body>", "looks like a web page"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct safetensors s;
        struct b2_err err = {0};
        assert_int_equal(
            safetensors_parse(&s, cases[i].text, strlen(cases[i].text), &err),
            B2_EFORMAT);
        ROW_CHECK(i, strstr(err.msg, cases[i].words));
    }
}

/* A filter over time and space, as vision models have it: the slowest two become one. */
static void test_five_dimensions(void **state)
{
    size_t size;
    uint8_t *file = build(ONE("U8", "[2,3,1,2,2]", "[0,24]"), 24, &size);
    struct safetensors s;

    (void)state;
    assert_int_equal(safetensors_parse(&s, file, size, NULL), B2_OK);
    assert_int_equal(s.tensors[0].rank, 4);
    assert_int_equal(s.tensors[0].ne[0], 2);
    assert_int_equal(s.tensors[0].ne[2], 1);
    assert_int_equal(s.tensors[0].ne[3], 6);
    safetensors_close(&s);
    free(file);
}

static void test_accepted(void **state)
{
    static const char *const headers[] = {"{}    ", "    {}", "  {}  ", "\n\t{}\r\n"};

    (void)state;
    for (size_t i = 0; i < countof(headers); i++) {
        size_t size;
        uint8_t *file = build(headers[i], 0, &size);
        struct safetensors s;
        struct b2_err err = {0};
        ROW_CHECK(i, safetensors_parse(&s, file, size, &err) == B2_OK);
        ROW_CHECK(i, s.n_tensors == 0);
        safetensors_close(&s);
        free(file);
    }
}

/* 129 brackets are refused before anything recurses; so is a value per two bytes. */
static void test_limits(void **state)
{
    enum { DEEP = 200000 };
    char *deep = calloc(DEEP + 1, 1);
    struct safetensors s;
    struct b2_err err = {0};
    size_t size;

    (void)state;
    assert_non_null(deep);
    memset(deep, '[', DEEP);
    uint8_t *file = build(deep, 0, &size);
    assert_int_equal(safetensors_parse(&s, file, size, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "deeper"));
    free(file);
    for (size_t i = 1; i < DEEP; i++)
        deep[i] = i % 2 ? '0' : ',';
    file = build(deep, 0, &size);
    assert_int_equal(safetensors_parse(&s, file, size, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "values"));
    free(file);
    free(deep);
}

static void golden(struct file_map *map)
{
    char path[512];
    struct b2_err err = {0};

    snprintf(path, sizeof path, "%s/format/kinds.safetensors", B2_GOLDEN_DIR);
    if (file_map(map, path, &err))
        fail_msg("%s", err.msg);
}

static void test_read_like_the_library(void **state)
{
    struct file_map map;
    struct safetensors s;
    struct b2_err err = {0};
    struct str dump = {0};

    (void)state;
    golden(&map);
    if (safetensors_parse(&s, map.data, map.size, &err))
        fail_msg("%s", err.msg);
    for (int64_t i = 0; i < meta_count(s.meta); i++)
        str_printf(&dump, "M %s %s\n", meta_at(s.meta, i)->key,
                   meta_at(s.meta, i)->v.strs->data);
    for (int64_t i = 0; i < s.n_tensors; i++)
        dump_tensor(&dump, &s.tensors[i]);
    safetensors_close(&s);
    file_unmap(&map);
    dump_check(&dump, "kinds.safetensors.dump");
}

static void test_truncation(void **state)
{
    struct file_map map;

    (void)state;
    golden(&map);
    for (size_t n = 0; n < map.size; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        struct safetensors s;
        struct b2_err err = {0};
        assert_non_null(copy);
        memcpy(copy, map.data, n);
        enum b2_status rc = safetensors_parse(&s, copy, n, &err);
        if (rc != B2_ETRUNC || err.msg[0] == '\0')
            fail_msg("cut at %zu: status %d: %s", n, rc, err.msg);
        free(copy);
    }
    file_unmap(&map);
}

/* Reads, writes and reads again: the same tensors and remarks. */
static void test_write(void **state)
{
    struct file_map map, again;
    struct safetensors s;
    struct safetensors_out *o = NULL;
    struct b2_err err = {0};
    struct scratch dir;
    struct str dump = {0};
    uint64_t size = 0;

    (void)state;
    scratch_make(&dir);
    const char *path = scratch_path(&dir, "again.safetensors");
    golden(&map);
    assert_int_equal(safetensors_parse(&s, map.data, map.size, &err), B2_OK);
    assert_int_equal(safetensors_out_open(&o, path, false, s.meta, &err), B2_OK);
    for (int64_t i = 0; i < s.n_tensors; i++) {
        const struct tensor *t = &s.tensors[i];
        assert_int_equal(
            safetensors_out_tensor(o, t->name, t->type, t->rank, t->ne, &err), B2_OK);
    }
    assert_int_equal(safetensors_out_size(o, &size, &err), B2_OK);
    assert_int_equal(safetensors_out_header(o, &err), B2_OK);
    for (int64_t i = 0; i < s.n_tensors; i++)
        assert_int_equal(safetensors_out_data(o, s.tensors[i].data,
                                              (size_t)s.tensors[i].n_bytes, &err),
                         B2_OK);
    assert_int_equal(safetensors_out_finish(o, &err), B2_OK);
    safetensors_close(&s);
    file_unmap(&map);
    assert_int_equal(file_map(&again, path, &err), B2_OK);
    assert_int_equal(again.size, size);
    assert_int_equal(le_get64(again.data) % 8, 0);
    assert_int_equal(safetensors_parse(&s, again.data, again.size, &err), B2_OK);
    for (int64_t i = 0; i < meta_count(s.meta); i++)
        str_printf(&dump, "M %s %s\n", meta_at(s.meta, i)->key,
                   meta_at(s.meta, i)->v.strs->data);
    for (int64_t i = 0; i < s.n_tensors; i++)
        dump_tensor(&dump, &s.tensors[i]);
    safetensors_close(&s);
    file_unmap(&again);
    scratch_remove(&dir);
    dump_check(&dump, "kinds.safetensors.dump");
}

static void test_write_misuse(void **state)
{
    static const int64_t ne[] = {32};
    struct safetensors_out *o = NULL;
    struct b2_err err = {0};
    struct scratch dir;
    char path[512];

    (void)state;
    scratch_make(&dir);
    snprintf(path, sizeof path, "%s", scratch_path(&dir, "x.safetensors"));
    assert_int_equal(safetensors_out_open(&o, path, false, NULL, &err), B2_OK);
    assert_int_equal(safetensors_out_tensor(o, "q", DT_Q8_0, 1, ne, &err), B2_EUNSUP);
    assert_int_equal(safetensors_out_tensor(o, "a\"\\\n", DT_F32, 1, ne, &err), B2_OK);
    assert_int_equal(safetensors_out_header(o, &err), B2_OK);
    assert_int_equal(safetensors_out_finish(o, &err), B2_EARG);
    assert_false(file_exists(path));
    scratch_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_headers),
        cmocka_unit_test(test_refused_lengths),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_five_dimensions),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_read_like_the_library),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_misuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
