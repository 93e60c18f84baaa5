/*
 * test_meta.c - typed keys, and the set of names below them.
 */
#include "format/meta.h"
#include "format/names.h"
#include "unit/unit.h"

#include <stdlib.h>

static struct meta *fresh(void)
{
    struct meta *m = meta_new(8 << 20);

    assert_non_null(m);
    return m;
}

/* Adds one scalar of any type from its bytes. */
static void put_raw(struct meta *m, const char *key, enum meta_type type, const void *v)
{
    struct meta_kv kv = {.key = key, .type = type, .n = 1, .v.raw = v};
    struct b2_err err = {0};

    if (meta_copy(m, &kv, &err))
        fail_msg("%s", err.msg);
}

/* Every integer type, its ends, through both getters. */
static void test_integers(void **state)
{
    static const struct {
        enum meta_type type;
        int64_t value;
        enum b2_status u32, u64;
    } cases[] = {
        {MT_U8, 255, B2_OK, B2_OK},
        {MT_I8, 127, B2_OK, B2_OK},
        {MT_I8, -1, B2_EFORMAT, B2_EFORMAT},
        {MT_U16, 65535, B2_OK, B2_OK},
        {MT_I16, -32768, B2_EFORMAT, B2_EFORMAT},
        {MT_U32, 4294967295, B2_OK, B2_OK},
        {MT_I32, 2147483647, B2_OK, B2_OK},
        {MT_I32, -5, B2_EFORMAT, B2_EFORMAT},
        {MT_U64, 4294967295, B2_OK, B2_OK},
        {MT_U64, 4294967296, B2_EFORMAT, B2_OK},
        {MT_I64, INT64_MAX, B2_EFORMAT, B2_OK},
        {MT_I64, INT64_MIN, B2_EFORMAT, B2_EFORMAT},
        {MT_F32, 1, B2_EFORMAT, B2_EFORMAT},
        {MT_F64, 1, B2_EFORMAT, B2_EFORMAT},
        {MT_BOOL, 1, B2_EFORMAT, B2_EFORMAT},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = fresh();
        struct b2_err err = {0};
        uint32_t u32 = 7;
        uint64_t u64 = 7;
        put_raw(m, "k", cases[i].type, &cases[i].value); /* little-endian prefix */
        ROW_CHECK(i, meta_get_u32(m, "k", &u32, &err) == cases[i].u32);
        ROW_CHECK(i, u32 == (cases[i].u32 ? 7 : (uint32_t)cases[i].value));
        ROW_CHECK(i, meta_get_u64(m, "k", &u64, &err) == cases[i].u64);
        ROW_CHECK(i, u64 == (cases[i].u64 ? 7 : (uint64_t)cases[i].value));
        ROW_CHECK(i, cases[i].u64 == B2_OK || strstr(err.msg, "key k"));
        meta_free(m);
    }
}

static void test_other_types(void **state)
{
    struct meta *m = fresh();
    struct b2_err err = {0};
    const struct meta_str zero = {"a\0b", 3};
    const struct meta_kv kv = {.key = "z", .type = MT_STR, .n = 1, .v.strs = &zero};
    const char *s = NULL;
    double d = 0.25;
    float f = 0;
    bool b = false;

    (void)state;
    assert_int_equal(meta_set_f32(m, "f", 0.5f, &err), B2_OK);
    put_raw(m, "d", MT_F64, &d);
    assert_int_equal(meta_set_bool(m, "b", true, &err), B2_OK);
    assert_int_equal(meta_set_str(m, "s", "text", &err), B2_OK);
    assert_int_equal(meta_copy(m, &kv, &err), B2_OK);
    assert_int_equal(meta_get_f32(m, "f", &f, &err), B2_OK);
    assert_true(f == 0.5f);
    assert_int_equal(meta_get_f32(m, "d", &f, &err), B2_OK);
    assert_true(f == 0.25f);
    assert_int_equal(meta_get_bool(m, "b", &b, &err), B2_OK);
    assert_true(b);
    assert_int_equal(meta_get_str(m, "s", &s, &err), B2_OK);
    assert_string_equal(s, "text");
    assert_int_equal(meta_get_str(m, "z", &s, &err), B2_EFORMAT);
    assert_int_equal(meta_get_str(m, "f", &s, &err), B2_EFORMAT);
    assert_int_equal(meta_get_f32(m, "s", &f, &err), B2_EFORMAT);
    assert_int_equal(meta_get_bool(m, "f", &b, &err), B2_EFORMAT);
    assert_int_equal(meta_get_str(m, "none", &s, &err), B2_ENOTFOUND);
    assert_non_null(strstr(err.msg, "none"));
    meta_free(m);
}

/* The forms with a default: absent gives it, a wrong type is still an error. */
static void test_defaults(void **state)
{
    struct meta *m = fresh();
    struct b2_err err = {0};
    uint32_t u = 0;
    float f = 0;
    bool b = false;
    const char *s = NULL;

    (void)state;
    assert_int_equal(meta_opt_u32(m, "k", &u, 5, &err), B2_OK);
    assert_int_equal(meta_opt_f32(m, "k", &f, 2.0f, &err), B2_OK);
    assert_int_equal(meta_opt_bool(m, "k", &b, true, &err), B2_OK);
    assert_int_equal(meta_opt_str(m, "k", &s, "def", &err), B2_OK);
    assert_true(u == 5 && f == 2.0f && b);
    assert_string_equal(s, "def");
    assert_int_equal(err.msg[0], '\0');
    assert_int_equal(meta_set_str(m, "k", "x", &err), B2_OK);
    assert_int_equal(meta_opt_u32(m, "k", &u, 5, &err), B2_EFORMAT);
    assert_int_equal(meta_opt_f32(m, "k", &f, 2.0f, &err), B2_EFORMAT);
    assert_int_equal(meta_opt_bool(m, "k", &b, true, &err), B2_EFORMAT);
    assert_int_equal(meta_opt_str(m, "k", &s, "def", &err), B2_OK);
    assert_string_equal(s, "x");
    meta_free(m);
}

static void test_arrays(void **state)
{
    static const int32_t ints[] = {-1, 0, 1};
    static const uint32_t small[] = {1, 2147483647}, large[] = {2147483648u};
    static const float floats[] = {0.5f};
    struct meta *m = fresh();
    struct b2_err err = {0};
    const int32_t *i32 = NULL;
    const float *f32 = NULL;
    const struct meta_str *strs = NULL;
    uint64_t n = 0;

    (void)state;
    assert_int_equal(meta_set_arr(m, "i", MT_I32, ints, 3, &err), B2_OK);
    assert_int_equal(meta_set_arr(m, "u", MT_U32, small, 2, &err), B2_OK);
    assert_int_equal(meta_set_arr(m, "big", MT_U32, large, 1, &err), B2_OK);
    assert_int_equal(meta_set_arr(m, "f", MT_F32, floats, 1, &err), B2_OK);
    assert_int_equal(meta_set_arr(m, "none", MT_F32, floats, 0, &err), B2_OK);
    assert_int_equal(meta_set_arr(m, "x", MT_STR, floats, 1, &err), B2_EARG);
    assert_int_equal(meta_get_i32s(m, "i", &i32, &n, &err), B2_OK);
    assert_true(n == 3 && i32[0] == -1 && i32[2] == 1);
    assert_int_equal(meta_get_i32s(m, "u", &i32, &n, &err), B2_OK);
    assert_true(n == 2 && i32[1] == INT32_MAX);
    assert_int_equal(meta_get_i32s(m, "big", &i32, &n, &err), B2_EFORMAT);
    assert_int_equal(meta_get_i32s(m, "f", &i32, &n, &err), B2_EFORMAT);
    assert_int_equal(meta_get_f32s(m, "f", &f32, &n, &err), B2_OK);
    assert_true(n == 1 && f32[0] == 0.5f);
    assert_int_equal(meta_get_f32s(m, "none", &f32, &n, &err), B2_OK);
    assert_int_equal(n, 0);
    assert_int_equal(meta_get_strs(m, "f", &strs, &n, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "array of f32"));
    meta_free(m);
}

/* An empty array as the very first value: there is a place for nothing, too. */
static void test_empty_array(void **state)
{
    struct meta *m = fresh();
    struct b2_err err = {0};
    const struct meta_str *strs = NULL;
    uint64_t n = 7;

    (void)state;
    assert_int_equal(meta_set_strs(m, "s", NULL, 0, &err), B2_OK);
    assert_int_equal(meta_get_strs(m, "s", &strs, &n, &err), B2_OK);
    assert_true(strs && n == 0);
    meta_free(m);
}

/* Order of setting, replacing in place, removing, copying all to another meta. */
static void test_order(void **state)
{
    static const char *const want[] = {"a", "c", "d", "b"};
    struct meta *m = fresh(), *copy = fresh();
    struct b2_err err = {0};
    uint32_t v = 0;

    (void)state;
    assert_int_equal(meta_set_u32(m, "a", 1, &err), B2_OK);
    assert_int_equal(meta_set_u32(m, "b", 2, &err), B2_OK);
    assert_int_equal(meta_set_u32(m, "c", 3, &err), B2_OK);
    assert_int_equal(meta_set_u64(m, "d", 4, &err), B2_OK);
    assert_int_equal(meta_set_str(m, "a", "now a string", &err), B2_OK);
    meta_remove(m, "b");
    meta_remove(m, "b");
    assert_null(meta_find(m, "b"));
    assert_int_equal(meta_set_u32(m, "b", 5, &err), B2_OK);
    assert_int_equal(meta_count(m), 4);
    for (int64_t i = 0; i < 4; i++) {
        assert_string_equal(meta_at(m, i)->key, want[i]);
        assert_int_equal(meta_copy(copy, meta_at(m, i), &err), B2_OK);
    }
    meta_free(m);
    assert_int_equal(meta_get_u32(copy, "b", &v, &err), B2_OK);
    assert_int_equal(v, 5);
    assert_int_equal(meta_find(copy, "a")->type, MT_STR);
    meta_free(copy);
}

/* A limit on memory is an error, not a crash. */
static void test_limit(void **state)
{
    struct meta *m = meta_new(100000);
    struct b2_err err = {0};
    char *big = calloc(200001, 1);

    (void)state;
    assert_true(m && big);
    memset(big, 'x', 200000);
    assert_int_equal(meta_set_str(m, "k", big, &err), B2_ENOMEM);
    assert_null(meta_find(m, "k"));
    assert_int_equal(meta_set_str(m, "k", "small", &err), B2_OK);
    free(big);
    meta_free(m);
}

static void test_names(void **state)
{
    enum { N = 20000 };
    struct names set = {0};
    char(*name)[16] = calloc(N, sizeof *name);

    (void)state;
    assert_non_null(name);
    assert_int_equal(names_find(&set, "x"), -1);
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "n%d", i);
        assert_int_equal(names_add(&set, name[i]), NAMES_ADDED);
    }
    assert_int_equal(names_add(&set, "n7"), NAMES_EXISTS);
    for (int i = 0; i < N; i++)
        assert_int_equal(names_find(&set, name[i]), i);
    names_remove(&set, 5);
    assert_int_equal(names_find(&set, "n5"), -1);
    assert_int_equal(names_find(&set, "n4"), 4);
    assert_int_equal(names_find(&set, "n6"), 5);
    names_free(&set);
    names_free(&set);
    free(name);
}

static void test_shown_names(void **state)
{
    char buf[NAMES_SHOW_MAX], longest[200];

    (void)state;
    assert_string_equal(names_show(buf, "a\x1b\n\xc3\xa9", 5), "a????");
    assert_string_equal(names_show(buf, "", 0), "");
    memset(longest, 'x', sizeof longest);
    names_show(buf, longest, sizeof longest);
    assert_int_equal(strlen(buf), NAMES_SHOW_MAX - 1);
    assert_string_equal(buf + NAMES_SHOW_MAX - 4, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),    cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_defaults),    cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_empty_array), cmocka_unit_test(test_order),
        cmocka_unit_test(test_limit),       cmocka_unit_test(test_names),
        cmocka_unit_test(test_shown_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
