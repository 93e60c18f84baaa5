/*
 * test_cgroup.c - quotas of both versions, at any level of the path, in made-up folders.
 */
#define _GNU_SOURCE
#include "base/cgroup.h"
#include "unit/scratch.h"
#include "unit/unit.h"

struct made_file {
    const char *name, *text;
};

/* Rows: the text of /proc/self/cgroup, files under the mount, the quota expected. */
static const struct {
    const char *proc;
    struct made_file file[5];
    double want;
} rows[] = {
    /* version 2 */
    {"0::/\n", {{"cpu.max", "max 100000\n"}}, 0.0},
    {"0::/\n", {{"cpu.max", "150000 100000\n"}}, 1.5},
    {"0::/a/b\n",
     {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "200000 50000\n"}},
     4},
    {"0::/a/b\n",
     {{"a/b/cpu.max", "300000 100000\n"}, {"a/cpu.max", "200000 100000\n"}},
     2},
    {"0::/a/b\n",
     {{"a/b/cpu.max", "100000 100000\n"}, {"cpu.max", "200000 100000\n"}},
     1},
    /* the host's path does not exist inside a container: its own group is at the top */
    {"0::/system.slice/docker-1.scope\n", {{"cpu.max", "250000 100000\n"}}, 2.5},
    {"0::/\n", {{"", ""}}, 0.0},
    {"", {{"cpu.max", "100000 100000\n"}}, 0.0},
    {"nonsense\n0:x\n", {{"cpu.max", "100000 100000\n"}}, 0.0},
    {"0::/\n", {{"cpu.max", "100000 0\n"}}, 0.0},
    {"0::/\n", {{"cpu.max", "100000\n"}}, 0.0},
    {"0::/\n", {{"cpu.max", "\n"}}, 0.0},
    /* version 1 */
    {"4:cpu,cpuacct:/j\n2:memory:/m\n",
     {{"cpu/j/cpu.cfs_quota_us", "300000\n"}, {"cpu/j/cpu.cfs_period_us", "100000\n"}},
     3},
    {"4:cpu,cpuacct:/j\n",
     {{"cpu,cpuacct/j/cpu.cfs_quota_us", "-1\n"},
      {"cpu,cpuacct/j/cpu.cfs_period_us", "100000\n"},
      {"cpu,cpuacct/cpu.cfs_quota_us", "50000\n"},
      {"cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     0.5},
    {"4:cpuset:/j\n", /* another controller whose name begins alike */
     {{"cpu/j/cpu.cfs_quota_us", "100000\n"}, {"cpu/j/cpu.cfs_period_us", "100000\n"}},
     0.0},
    {"4:cpu:/j\n", {{"cpu/j/cpu.cfs_quota_us", "100000\n"}}, 0.0},
    /* both mounted (hybrid): the tighter one */
    {"4:cpu:/\n0::/\n",
     {{"cpu/cpu.cfs_quota_us", "400000\n"},
      {"cpu/cpu.cfs_period_us", "100000\n"},
      {"unified/cpu.max", "200000 100000\n"}},
     2},
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
        char proc[512], root[512], name[200];
        scratch_make(&s);
        make_file(&s, "proc", rows[i].proc);
        snprintf(proc, sizeof proc, "%s", scratch_path(&s, "proc"));
        snprintf(root, sizeof root, "%s", scratch_path(&s, "fs"));
        for (int k = 0; k < 5 && rows[i].file[k].name && *rows[i].file[k].name; k++) {
            snprintf(name, sizeof name, "fs/%s", rows[i].file[k].name);
            make_file(&s, name, rows[i].file[k].text);
        }
        double got = cgroup_cpu_quota(proc, root);
        scratch_remove(&s);
        if (got != rows[i].want)
            fail_msg("row %zu: %g, want %g", i, got, rows[i].want);
    }
}

static void test_absent(void **state)
{
    (void)state;
    assert_true(cgroup_cpu_quota("/nonexistent/cgroup", "/nonexistent") == 0.0);
    assert_true(cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup") >= 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
