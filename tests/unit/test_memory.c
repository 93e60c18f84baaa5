/*
 * test_memory.c - what is free, from made-up files of both versions of control groups.
 */
#define _GNU_SOURCE
#include "base/memory.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <sys/resource.h>

enum { MAX_FILES = 8 };

struct made_file {
    const char *name, *text;
};

#define MEMINFO "MemTotal:       2000 kB\nMemFree:  10 kB\nMemAvailable:   1000 kB\n"

/* Rows: /proc/meminfo, /proc/self/cgroup, files under the mount, bytes, words of why. */
static const struct {
    const char *meminfo, *proc;
    struct made_file file[MAX_FILES];
    uint64_t want;
    const char *why;
} rows[] = {
    {MEMINFO, "0::/\n", {{NULL, NULL}}, 1024000, "machine"},
    {"MemTotal: 5 kB\n", "0::/\n", {{NULL, NULL}}, 0, "not known"},
    {MEMINFO,
     "0::/a\n",
     {{"a/memory.max", "max\n"}, {"a/memory.current", "700\n"}},
     1024000,
     "machine"},
    {MEMINFO, /* version 2: cached files count as free */
     "0::/a\n",
     {{"a/memory.max", "500000\n"},
      {"a/memory.current", "300000\n"},
      {"a/memory.stat", "anon 1\ninactive_file 100000\nactive_file 50000\n"}},
     350000,
     "control group"},
    {MEMINFO, /* the tighter level */
     "0::/a/b\n",
     {{"a/b/memory.max", "500000\n"},
      {"a/b/memory.current", "0\n"},
      {"a/memory.max", "900000\n"},
      {"a/memory.current", "800000\n"}},
     100000,
     "control group"},
    {MEMINFO, /* full: something tiny, not "unknown" */
     "0::/a\n",
     {{"a/memory.max", "500\n"}, {"a/memory.current", "600\n"}},
     1,
     "control group"},
    {MEMINFO, /* version 1, whose "no limit" is a huge number */
     "4:memory:/m\n",
     {{"memory/m/memory.limit_in_bytes", "9223372036854771712\n"},
      {"memory/m/memory.usage_in_bytes", "5000\n"}},
     1024000,
     "machine"},
    {MEMINFO,
     "4:memory:/m\n",
     {{"memory/m/memory.limit_in_bytes", "600000\n"},
      {"memory/m/memory.usage_in_bytes", "500000\n"},
      {"memory/m/memory.stat", "total_inactive_file 200000\ntotal_active_file 1\n"}},
     300001,
     "control group"},
    {MEMINFO,
     "4:cpu:/m\n",
     {{"memory/m/memory.limit_in_bytes", "6\n"}},
     1024000,
     "machine"},
};

static void make_file(struct scratch *s, const char *name, const char *text)
{
    char dir[512];

    snprintf(dir, sizeof dir, "%s", scratch_path(s, name));
    *strrchr(dir, '/') = '\0';
    assert_int_equal(file_make_dir(dir, NULL), B2_OK);
    assert_int_equal(
        file_write_all(scratch_path(s, name), text, strlen(text), true, NULL), B2_OK);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct scratch s;
        char info[512], proc[512], root[512], name[200], why[80];
        scratch_make(&s);
        make_file(&s, "meminfo", rows[i].meminfo);
        make_file(&s, "proc", rows[i].proc);
        snprintf(info, sizeof info, "%s", scratch_path(&s, "meminfo"));
        snprintf(proc, sizeof proc, "%s", scratch_path(&s, "proc"));
        snprintf(root, sizeof root, "%s", scratch_path(&s, "fs"));
        for (int k = 0; k < MAX_FILES && rows[i].file[k].name; k++) {
            snprintf(name, sizeof name, "fs/%s", rows[i].file[k].name);
            make_file(&s, name, rows[i].file[k].text);
        }
        uint64_t got = memory_available_at(info, proc, root, why, sizeof why);
        scratch_remove(&s);
        if (got != rows[i].want || !strstr(why, rows[i].why))
            fail_msg("row %zu: %llu (%s), want %llu", i, (unsigned long long)got, why,
                     (unsigned long long)rows[i].want);
    }
}

static void test_absent(void **state)
{
    (void)state;
    assert_int_equal(
        memory_available_at("/nonexistent", "/nonexistent", "/nonexistent", NULL, 0),
        0);
#if defined(__linux__)
    assert_true(memory_available(NULL, 0) > 0);
#endif
}

/* A limit moves by what a library leaves unused; none stays none. */
static void test_allow_unused(void **state)
{
    const rlim_t low = (rlim_t)4 << 30, more = (rlim_t)1 << 29;
    struct rlimit was, set, got;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_DATA, &was), 0);
    if (was.rlim_cur != RLIM_INFINITY)
        skip();
    memory_allow_unused(more);
    assert_int_equal(getrlimit(RLIMIT_DATA, &got), 0);
    assert_true(got.rlim_cur == RLIM_INFINITY);
    set = (struct rlimit){low, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_DATA, &set),
                     0); /* nothing is allocated under it */
    memory_allow_unused(more);
    const int rc = getrlimit(RLIMIT_DATA, &got);
    const int back = setrlimit(RLIMIT_DATA, &was);
    assert_int_equal(rc | back, 0);
    assert_true(got.rlim_cur == low + more && got.rlim_max == was.rlim_max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_allow_unused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
