/*
 * test_table.c - rows of JSON lines, arrays, CSV and TSV; packed files; what is refused.
 */
#define _GNU_SOURCE
#include "eval/table.h"

#include "base/file_append.h"
#include "base/mem.h"
#include "format/gunzip.h"
#include "unit/scratch.h"
#include "unit/unit.h"

static struct scratch scratch;

/* What a table came to, as one text: rows in compact JSON. */
static char *rows_text(const struct table *t)
{
    struct str s = {0};
    char *copy;

    for (int64_t i = 0; i < t->n; i++) {
        char *row = cJSON_PrintUnformatted(t->row[i]);
        str_put(&s, row);
        cJSON_free(row);
    }
    str_put(&s, "");
    copy = mem_strdup(s.data);
    str_free(&s);
    return copy;
}

static void test_rows(void **state)
{
    static const struct {
        enum table_kind kind;
        const char *text, *want;
    } table[] = {
        {TABLE_JSONL, "", ""},
        {TABLE_JSONL, "{\"a\":1}\n\n{\"a\":2}", "{\"a\":1}{\"a\":2}"},
        {TABLE_JSONL, "\xef\xbb\xbf{\"a\":1}\r\n", "{\"a\":1}"},
        {TABLE_JSON, "[{\"a\":1},{\"b\":[2]}]", "{\"a\":1}{\"b\":[2]}"},
        {TABLE_CSV, "", ""},
        {TABLE_CSV, "a,b\n", ""},
        {TABLE_CSV, "a,b\n1,2\n", "{\"a\":\"1\",\"b\":\"2\"}"},
        {TABLE_CSV, "a,b\r\n1,2\r\n3,4",
         "{\"a\":\"1\",\"b\":\"2\"}{\"a\":\"3\",\"b\":\"4\"}"},
        {TABLE_CSV, "a,b\n\"x, \"\"y\"\"\nz\",\n",
         "{\"a\":\"x, \\\"y\\\"\\nz\",\"b\":\"\"}"},
        {TABLE_CSV, ",Question\n0,q\n\n", "{\"\":\"0\",\"Question\":\"q\"}"},
        {TABLE_CSV, "a\nx\"y\n", "{\"a\":\"x\\\"y\"}"},
        {TABLE_TSV, "a\tb\n1\t2,3\n", "{\"a\":\"1\",\"b\":\"2,3\"}"},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct table t = {0};
        struct b2_err err = {0};
        char *got;
        if (table_parse(&t, table[i].kind, table[i].text, strlen(table[i].text), &err))
            fail_msg("row %d: %s", (int)i, err.msg);
        got = rows_text(&t);
        if (strcmp(got, table[i].want) != 0)
            fail_msg("row %d: got %s want %s", (int)i, got, table[i].want);
        mem_free(got);
        table_free(&t);
    }
}

static void test_refused(void **state)
{
    static const struct {
        enum table_kind kind;
        const char *text, *want;
    } table[] = {
        {TABLE_JSONL, "{\"a\":1}\n[2]\n", "line 2: not a JSON object"},
        {TABLE_JSONL, "{\"a\":1}\n{", "line 2"},
        {TABLE_JSON, "{}", "not a JSON array"},
        {TABLE_JSON, "[{},1]", "element 1"},
        {TABLE_CSV, "a,b\n1\n", "line 2: 1 fields, there are 2 columns"},
        {TABLE_CSV, "a,b\n1,2\n1,2,3\n", "line 3: more fields"},
        {TABLE_CSV, "a,b\n1,\"2\n3\n", "line 2: a quoted field has no end"},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct table t = {0};
        struct b2_err err = {0};
        ROW_CHECK(i, table_parse(&t, table[i].kind, table[i].text,
                                 strlen(table[i].text), &err) == B2_EFORMAT);
        if (!strstr(err.msg, table[i].want))
            fail_msg("row %d: %s", (int)i, err.msg);
    }
}

static void test_nul_in_csv(void **state)
{
    struct table t = {0};

    (void)state;
    assert_int_equal(table_parse(&t, TABLE_CSV, "a\nx\0y\n", 6, NULL), B2_EFORMAT);
}

/* gzip -9n of "a,b\n1,2\n", twice: a file may have several members. */
static const unsigned char packed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0xd4, 0x49, 0xe2,
    0x32, 0xd4, 0x31, 0xe2, 0x02, 0x00, 0x7b, 0x07, 0x97, 0x0a, 0x08, 0x00, 0x00, 0x00};

static void test_packed(void **state)
{
    struct table t = {0};
    const char *path = scratch_path(&scratch, "t.csv.gz");
    char *text;

    (void)state;
    assert_int_equal(file_write_all(path, packed, sizeof packed, true, NULL), B2_OK);
    assert_int_equal(table_read(&t, path, NULL), B2_OK);
    text = rows_text(&t);
    assert_string_equal(text, "{\"a\":\"1\",\"b\":\"2\"}");
    mem_free(text);
    table_free(&t);
}

static void test_gunzip(void **state)
{
    unsigned char twice[2 * sizeof packed];
    char *out = NULL;
    size_t n = 0;

    (void)state;
    memcpy(twice, packed, sizeof packed);
    memcpy(twice + sizeof packed, packed, sizeof packed);
    assert_int_equal(gunzip(&out, &n, twice, sizeof twice, 1000, NULL), B2_OK);
    assert_int_equal(n, 16);
    assert_string_equal(out, "a,b\n1,2\na,b\n1,2\n");
    mem_free(out);
    assert_int_equal(gunzip(&out, &n, packed, sizeof packed, 7, NULL), B2_EUNSUP);
    for (size_t cut = 10; cut < sizeof packed; cut++)
        if (gunzip(&out, &n, packed, cut, 1000, NULL) != B2_ETRUNC)
            fail_msg("cut to %zu bytes", cut);
    twice[21] ^= 1; /* the sum of the first member */
    assert_int_equal(gunzip(&out, &n, twice, sizeof twice, 1000, NULL), B2_EFORMAT);
}

static void test_names(void **state)
{
    struct table t = {0};
    struct b2_err err = {0};
    char **names = NULL;
    int64_t n = 0;

    (void)state;
    assert_int_equal(table_read(&t, "x.txt", &err), B2_EARG);
    assert_non_null(strstr(err.msg, ".jsonl"));
    assert_int_equal(table_read(&t, scratch_path(&scratch, "no.csv"), NULL),
                     B2_ENOTFOUND);
    for (int i = 0; i < 3; i++) {
        static const char *const files[] = {"b_dev.csv", "a_dev.csv", ".c_dev.csv"};
        assert_int_equal(
            file_write_all(scratch_path(&scratch, files[i]), "a\n", 2, true, NULL),
            B2_OK);
    }
    assert_int_equal(file_match(&names, &n, scratch.dir, "*_dev.csv", NULL), B2_OK);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "a_dev.csv");
    file_match_free(names, n);
    assert_int_equal(file_match(&names, &n, scratch_path(&scratch, "none"), "*", NULL),
                     B2_ENOTFOUND);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nul_in_csv), cmocka_unit_test(test_packed),
        cmocka_unit_test(test_gunzip),     cmocka_unit_test(test_names),
    };
    int failed;

    scratch_make(&scratch);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return failed;
}
