/*
 * test_dtype.c - the table of types against itself, gguf-py and the real sizes.
 */
#include "tensor/dtype.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Names and ids are unique (42 twice, by design), sizes are sane, flags fit together. */
static void test_table(void **state)
{
    (void)state;
    for (int t = 0; t < N_DTYPES; t++) {
        const struct dtype_info *a = dtype_info((enum dtype)t);
        assert_non_null(a->name);
        assert_true(a->block >= 1 && a->block <= 256 && a->bytes >= 1);
        if (a->flags & DTF_FLOAT)
            assert_int_equal(a->block, 1);
        if (a->flags & DTF_WRITE)
            assert_true(a->flags & DTF_WEIGHT);
        for (int u = 0; u < t; u++) {
            const struct dtype_info *b = dtype_info((enum dtype)u);
            assert_string_not_equal(a->name, b->name);
            if (a->gguf_id >= 0 && a->gguf_id != 42)
                assert_int_not_equal(a->gguf_id, b->gguf_id);
        }
    }
}

static void test_against_gguf_py(void **state)
{
    static const struct {
        const char *name;
        int id, block, bytes;
    } other[] = {
#include "golden/quant/types.inc"
    };
    int n_shared = 0;

    (void)state;
    for (size_t i = 0; i < countof(other); i++) {
        enum dtype t;
        if (!dtype_from_name(&t, other[i].name))
            continue; /* gguf-py knows many that are not supported here */
        const struct dtype_info *d = dtype_info(t);
        assert_int_equal(d->gguf_id, other[i].id);
        assert_int_equal(d->block, other[i].block);
        assert_int_equal(d->bytes, other[i].bytes);
        n_shared++;
    }
    assert_int_equal(n_shared, 21);
}

static void test_lookup(void **state)
{
    static const struct {
        uint32_t id;
        bool known;
        enum dtype t;
    } ids[] = {
        {0, true, DT_F32},           {30, true, DT_BF16},    {42, true, DT_Q2_0},
        {142, true, DT_PQ2_0},       {143, true, DT_PTQ1_0}, {28, true, DT_F64},
        {4, false, DT_F32},          {36, true, DT_I2_S},    {999, false, DT_F32},
        {UINT32_MAX, false, DT_F32}, {37, false, DT_F32},
    };
    enum dtype t;

    (void)state;
    for (size_t i = 0; i < countof(ids); i++) {
        assert_int_equal(dtype_from_gguf(&t, ids[i].id), ids[i].known);
        if (ids[i].known)
            assert_int_equal(t, ids[i].t);
    }
    assert_true(dtype_from_name(&t, "tq1_0") && t == DT_TQ1_0);
    assert_true(dtype_from_name(&t, "Q2_0_g128") && t == DT_Q2_0_G128);
    assert_true(dtype_from_name(&t, "pTq1_0") && t == DT_PTQ1_0);
    assert_false(dtype_from_name(&t, "Q4"));
    assert_false(dtype_from_name(&t, "Q4_0x"));
    assert_false(dtype_from_name(&t, ""));
}

/* Every type with an id is in the list that messages print, and no other word is. */
static void test_list(void **state)
{
    const char *p = dtype_list();
    int n = 0, n_ids = 0;

    (void)state;
    while (*p) {
        char word[32];
        size_t len = strcspn(p, ",");
        enum dtype t;
        assert_true(len < sizeof word);
        memcpy(word, p, len);
        word[len] = '\0';
        assert_true(dtype_from_name(&t, word) && dtype_info(t)->gguf_id >= 0);
        n++;
        p += len;
        p += strspn(p, ", ");
    }
    for (int t = 0; t < N_DTYPES; t++)
        n_ids += dtype_info((enum dtype)t)->gguf_id >= 0 && t != DT_Q2_0_G128;
    assert_int_equal(n, n_ids);
}

static void test_row_bytes(void **state)
{
    static const struct {
        enum dtype t;
        uint64_t n, rows, want;
    } cases[] = {
        {DT_Q2_0, 5120, 248320, 357580800},      /* the two meanings of 42, on the */
        {DT_Q2_0_G128, 5120, 248320, 337715200}, /* embedding of the 27B model */
        {DT_PQ2_0, 128, 32, 1088},
        {DT_PTQ1_0, 5120, 1, 1120},
        {DT_TQ1_0, 256, 1, 54},
        {DT_Q2_0, 576, 1, 162},
        {DT_F64, 3, 1, 24},
        {DT_Q4_K, 0, 1, 0},
    };
    struct b2_err err;
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        assert_int_equal(dtype_row_bytes(&bytes, cases[i].t, cases[i].n, &err), B2_OK);
        assert_true(bytes * cases[i].rows == cases[i].want);
    }
    assert_int_equal(dtype_row_bytes(&bytes, DT_PQ2_0, 200, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "200"));
    assert_non_null(strstr(err.msg, "128"));
    assert_non_null(strstr(err.msg, "72"));
    assert_int_equal(dtype_row_bytes(&bytes, DT_F32, UINT64_MAX / 2, &err), B2_EARG);
    assert_int_equal(dtype_row_bytes(&bytes, DT_Q2_0, 576 + 32, NULL), B2_EARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),     cmocka_unit_test(test_against_gguf_py),
        cmocka_unit_test(test_lookup),    cmocka_unit_test(test_list),
        cmocka_unit_test(test_row_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
