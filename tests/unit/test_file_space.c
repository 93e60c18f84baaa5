/*
 * test_file_space.c - numbers on the disk: zeros at first, kept when their pages are given
 * back, gone with the space; too little room is an error before the work.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/file_space.h"

#include "base/file.h"
#include "base/file_append.h"
#include "unit/scratch.h"
#include "unit/unit.h"

static struct scratch scratch;

static void test_keeps(void **state)
{
    enum { N = 100000 };
    struct b2_err err = {0};
    struct file_space *s;
    char path[400], **names;
    int64_t n_names;

    (void)state;
    snprintf(path, sizeof path, "%s/out.gguf", scratch.dir);
    const uint64_t bytes = file_space_piece(N * sizeof(float));
    assert_int_equal(file_space_open(&s, path, 2 * bytes, &err), B2_OK);
    float *a = file_space_take(s, N * sizeof(float));
    float *b = file_space_take(s, N * sizeof(float));
    assert_non_null(a);
    assert_non_null(b);
    assert_null(file_space_take(s, 1));
    assert_null(file_space_take(s, UINT64_MAX));
    for (int i = 0; i < N; i++) {
        assert_true(a[i] == 0.0f && b[i] == 0.0f);
        a[i] = (float)i;
        b[i] = (float)-i;
    }
    file_space_drop(s, a, N * sizeof(float));
    file_space_drop(s, b + 1, 3 * sizeof(float)); /* no whole page: nothing happens */
    for (int i = 0; i < N; i++)
        assert_true(a[i] == (float)i && b[i] == (float)-i);
    /* nothing to be seen in the folder */
    assert_int_equal(file_match(&names, &n_names, scratch.dir, "*", &err), B2_OK);
    assert_int_equal(n_names, 0);
    file_match_free(names, n_names);
    file_space_close(s);
}

static void test_refused(void **state)
{
    struct b2_err err = {0};
    struct file_space *s;
    char path[400];

    (void)state;
    snprintf(path, sizeof path, "%s/x", scratch.dir);
    assert_int_equal(file_space_open(&s, path, (uint64_t)1 << 60, &err), B2_EIO);
    assert_non_null(strstr(err.msg, "bytes free"));
    snprintf(path, sizeof path, "%s/no/such/x", scratch.dir);
    assert_true(file_space_open(&s, path, 4096, &err) != B2_OK);
    assert_true(file_space_open(&s, path, UINT64_MAX, &err) != B2_OK);
    file_space_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps),
        cmocka_unit_test(test_refused),
    };

    scratch_make(&scratch);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return rc;
}
