/*
 * test_arena.c - alignment, zeroing, the limit, reuse after a reset.
 */
#include "base/arena.h"
#include "base/mem.h"
#include "unit/unit.h"

static void test_zeroed_and_aligned(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 65536, 200000};
    struct arena *a = arena_new(SIZE_MAX);

    (void)state;
    assert_non_null(a);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *p = arena_calloc(a, sizes[i], 1);
            ROW_CHECK(i, p && (uintptr_t)p % 64 == 0);
            for (size_t k = 0; k < sizes[i]; k++)
                ROW_CHECK(i, p[k] == 0);
            if (sizes[i])
                memset(p, 0xa5, sizes[i]); /* dirt for the next round */
        }
        arena_reset(a);
        assert_int_equal(arena_used(a), 0);
    }
    arena_free(a);
}

/* No two allocations share a byte, across block borders as well. */
static void test_no_overlap(void **state)
{
    enum { N = 400 };
    struct arena *a = arena_new(SIZE_MAX);
    unsigned char *p[N];

    (void)state;
    assert_non_null(a);
    for (int i = 0; i < N; i++) {
        p[i] = arena_calloc(a, (size_t)(i * 7 % 999 + 1), 1);
        assert_non_null(p[i]);
        memset(p[i], i % 251, (size_t)(i * 7 % 999 + 1));
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i * 7 % 999 + 1; k++)
            ROW_CHECK(i, p[i][k] == i % 251);
    arena_free(a);
}

static void test_limit(void **state)
{
    struct arena *a = arena_new(256);

    (void)state;
    assert_non_null(a);
    assert_non_null(arena_calloc(a, 1, 64));
    assert_non_null(arena_calloc(a, 1, 65)); /* takes 128 */
    assert_null(arena_calloc(a, 1, 65));
    assert_non_null(arena_calloc(a, 1, 64));
    assert_int_equal(arena_used(a), 256);
    assert_null(arena_calloc(a, 0, 0)); /* even nothing takes a place of its own */
    arena_reset(a);
    assert_non_null(arena_calloc(a, 2, 128));
    arena_free(a);
}

static void test_overflow(void **state)
{
    struct arena *a = arena_new(SIZE_MAX);

    (void)state;
    assert_non_null(a);
    assert_null(arena_calloc(a, SIZE_MAX, 2));
    assert_null(arena_calloc(a, SIZE_MAX, 1));
    assert_null(arena_strndup(a, "x", SIZE_MAX));
    assert_non_null(arena_calloc(a, 8, 8));
    arena_free(a);
    arena_free(NULL);
}

static void test_strings(void **state)
{
    struct arena *a = arena_new(4096);

    (void)state;
    assert_non_null(a);
    char *s = arena_strdup(a, "blk.0");
    assert_non_null(s);
    assert_string_equal(s, "blk.0");
    s = arena_strndup(a, "blk.0", 3);
    assert_non_null(s);
    assert_string_equal(s, "blk");
    s = arena_strndup(a, "", 0);
    assert_non_null(s);
    assert_string_equal(s, "");
    arena_free(a);
}

static void test_mem(void **state)
{
    (void)state;
    assert_null(mem_calloc(SIZE_MAX, 2));
    assert_null(mem_calloc(SIZE_MAX, 1));
    assert_null(mem_aligned(64, SIZE_MAX, 1));
    assert_null(mem_realloc(NULL, SIZE_MAX / 2, 3));
    void *p = mem_calloc(0, 8);
    assert_non_null(p);
    mem_free(p);
    p = mem_aligned(64, 3, 7);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    mem_free(p);
    char *s = mem_strdup("abc");
    assert_non_null(s);
    assert_string_equal(s, "abc");
    mem_free(s);
    p = mem_dup(NULL, 0);
    assert_non_null(p);
    mem_free(p);
    mem_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_and_aligned),
        cmocka_unit_test(test_no_overlap),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_mem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
