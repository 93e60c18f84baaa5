/*
 * test_file.c - mapping, reading, atomic writing, folders and locks on a real disk.
 */
#define _GNU_SOURCE
#include "base/file.h"
#include "base/mem.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct scratch s;

static int setup(void **state)
{
    (void)state;
    scratch_make(&s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&s);
    return 0;
}

/* Fails unless the file holds exactly text. */
static void check_content(const char *path, const char *text)
{
    struct b2_err err = {0};
    char *data;
    size_t n;

    if (file_read_all(&data, &n, path, 1 << 20, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(n, strlen(text));
    assert_string_equal(data, text);
    mem_free(data);
}

/* Fails unless the scratch folder holds exactly n entries: no part file is left over. */
static void check_entries(int n)
{
    DIR *dir = opendir(s.dir);
    int got = -2; /* not counting "." and ".." */

    assert_non_null(dir);
    while (readdir(dir))
        got++;
    closedir(dir);
    assert_int_equal(got, n);
}

static void test_map(void **state)
{
    struct b2_err err = {0};
    struct file_map m = {0};
    const char *path = scratch_path(&s, "f");

    (void)state;
    assert_int_equal(file_map(&m, path, &err), B2_ENOTFOUND);
    assert_non_null(strstr(err.msg, "f: no such file"));
    assert_int_equal(file_map(&m, s.dir, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "is a folder"));
    assert_int_equal(file_map(&m, "/dev/null", &err), B2_EARG);
    assert_int_equal(mkfifo(scratch_path(&s, "pipe"), 0600), 0);
    assert_int_equal(file_map(&m, s.path, &err), B2_EARG); /* and does not hang */
    assert_null(m.data);
    path = scratch_path(&s, "f");
    assert_int_equal(file_write_all(path, "", 0, false, &err), B2_OK);
    assert_int_equal(file_map(&m, path, &err), B2_OK);
    assert_true(m.size == 0 && !m.data);
    file_unmap(&m);
    assert_int_equal(file_write_all(path, "hello", 5, true, &err), B2_OK);
    assert_int_equal(file_map(&m, path, &err), B2_OK);
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "hello", 5);
    file_unmap(&m);
    file_unmap(&m);
    file_unmap(NULL);
}

/* Advice outside the map, at odd offsets, across its end: the bytes stay the same. */
static void test_advice(void **state)
{
    enum { N = 5 * 65536 + 17 };
    static uint8_t data[N];
    static const uint64_t at[] = {0, 1, 4095, 4096, 65536, N - 1, N, N + 1, UINT64_MAX};
    struct file_map m;

    (void)state;
    for (int i = 0; i < N; i++)
        data[i] = (uint8_t)(i * 31);
    assert_int_equal(file_write_all(scratch_path(&s, "f"), data, N, true, NULL), B2_OK);
    assert_int_equal(file_map(&m, s.path, NULL), B2_OK);
    for (size_t i = 0; i < countof(at); i++)
        for (size_t k = 0; k < countof(at); k++) {
            file_map_will_need(&m, at[i], at[k]);
            file_map_drop(&m, at[i], at[k]);
            file_map_warm(&m, at[i], at[k]);
        }
    assert_memory_equal(m.data, data, N);
    file_unmap(&m);
    file_map_drop(&m, 0, 1);
    file_map_will_need(NULL, 0, 1);
    file_map_warm(NULL, 0, 1);
    file_map_warm(&m, 0, 1);
}

static void test_read_all(void **state)
{
    struct b2_err err = {0};
    char *data = NULL;
    size_t n;

    (void)state;
    assert_int_equal(file_read_all(&data, &n, scratch_path(&s, "f"), 9, &err),
                     B2_ENOTFOUND);
    assert_int_equal(file_read_all(&data, &n, s.dir, 9, &err), B2_EARG);
    assert_int_equal(file_write_all(scratch_path(&s, "f"), "12345", 5, false, &err),
                     B2_OK);
    assert_int_equal(file_read_all(&data, &n, s.path, 4, &err), B2_ENOMEM);
    assert_non_null(strstr(err.msg, "larger than the limit of 4 bytes"));
    assert_null(data);
    for (size_t max = 5; max < 9; max++) {
        assert_int_equal(file_read_all(&data, &n, s.path, max, &err), B2_OK);
        assert_int_equal(n, 5);
        assert_string_equal(data, "12345");
        mem_free(data);
    }
    /* A file of the kernel has size 0 and content all the same. */
    assert_int_equal(file_read_all(&data, &n, "/proc/self/stat", 1 << 16, &err), B2_OK);
    assert_true(n > 10);
    mem_free(data);
}

static void test_standard_input(void **state)
{
    struct b2_err err = {0};
    char *data = NULL, big[200000];
    size_t n;
    int saved = dup(STDIN_FILENO);

    (void)state;
    memset(big, 'q', sizeof big);
    assert_int_equal(
        file_write_all(scratch_path(&s, "f"), big, sizeof big, false, &err), B2_OK);
    FILE *in = fopen(s.path, "r");
    assert_non_null(in);
    assert_true(dup2(fileno(in), STDIN_FILENO) >= 0);
    assert_int_equal(file_read_all(&data, &n, "-", SIZE_MAX, &err), B2_OK);
    assert_int_equal(n, sizeof big);
    assert_memory_equal(data, big, n);
    mem_free(data);
    dup2(saved, STDIN_FILENO);
    close(saved);
    fclose(in);
}

static void test_out(void **state)
{
    struct b2_err err = {0};
    struct file_out *f = NULL;
    const char *path = scratch_path(&s, "out");

    (void)state;
    assert_int_equal(file_out_open(&f, path, false, &err), B2_OK);
    assert_int_equal(file_out_write(f, "0000 world", 10, &err), B2_OK);
    assert_false(file_exists(path)); /* not before it is whole */
    assert_int_equal(file_out_write_at(f, 0, "hell", 4, &err), B2_OK);
    assert_int_equal(file_out_write_at(f, 8, "xyz", 3, &err), B2_EARG);
    assert_int_equal(file_out_write_at(f, UINT64_MAX, "xyz", 3, &err), B2_EARG);
    assert_int_equal(file_out_write(f, "!", 1, &err), B2_OK);
    assert_int_equal(file_out_pos(f), 11);
    assert_int_equal(file_out_commit(f, &err), B2_OK);
    check_content(path, "hell world!");
    check_entries(1);

    assert_int_equal(file_check_output(path, path, true, &err), B2_EARG);
    assert_int_equal(file_check_output(path, s.dir, true, &err), B2_OK);
    assert_int_equal(file_check_output(path, s.dir, false, &err), B2_EEXIST);
    assert_int_equal(file_check_output(s.dir, NULL, true, &err), B2_EARG);
    assert_true(file_same(path, path) && !file_same(path, s.dir));
    assert_false(file_same(path, "/nonexistent"));
    assert_int_equal(file_out_open(&f, path, false, &err), B2_EEXIST);
    assert_non_null(strstr(err.msg, "--force"));
    assert_int_equal(file_out_open(&f, path, true, &err), B2_OK);
    assert_int_equal(file_out_write(f, "new", 3, &err), B2_OK);
    check_content(path, "hell world!"); /* the old one until the commit */
    file_out_abort(f);
    file_out_abort(NULL);
    check_content(path, "hell world!");
    check_entries(1);
    assert_int_equal(file_write_all(path, "new", 3, true, &err), B2_OK);
    check_content(path, "new");
}

/* Pieces of all sizes around the buffer's give the same bytes. */
static void test_out_pieces(void **state)
{
    static const size_t sizes[] = {1,      1000,   65536, 262143, 262144,
                                   262145, 600000, 0,     7};
    static uint8_t data[700000];
    struct b2_err err = {0};
    struct file_out *f;
    struct file_map m;
    uint64_t total = 0;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i % 253);
    assert_int_equal(file_out_open(&f, scratch_path(&s, "f"), false, &err), B2_OK);
    for (size_t i = 0; i < countof(sizes); i++) {
        assert_int_equal(file_out_write(f, data + i, sizes[i], &err), B2_OK);
        total += sizes[i];
        assert_int_equal(file_out_pos(f), total);
    }
    assert_int_equal(file_out_commit(f, &err), B2_OK);
    assert_int_equal(file_map(&m, s.path, &err), B2_OK);
    assert_int_equal(m.size, total);
    size_t at = 0;
    for (size_t i = 0; i < countof(sizes); at += sizes[i], i++)
        ROW_CHECK(i, memcmp(m.data + at, data + i, sizes[i]) == 0);
    file_unmap(&m);
}

static void test_out_refusals(void **state)
{
    struct b2_err err = {0};
    struct file_out *f = NULL;

    (void)state;
    assert_int_equal(file_out_open(&f, s.dir, true, &err), B2_EARG);
    assert_int_equal(file_out_open(&f, "/dev/null", true, &err), B2_EARG);
    assert_int_equal(file_out_open(&f, scratch_path(&s, "no/f"), true, &err),
                     B2_ENOTFOUND);
    assert_null(f);
    check_entries(0);
    /* A file that appears while we write is kept, unless force was given. */
    const char *path = scratch_path(&s, "late");
    assert_int_equal(file_out_open(&f, path, false, &err), B2_OK);
    assert_int_equal(file_out_write(f, "ours", 4, &err), B2_OK);
    FILE *other = fopen(path, "w");
    assert_non_null(other);
    fputs("theirs", other);
    fclose(other);
    assert_int_equal(file_out_commit(f, &err), B2_EEXIST);
    check_content(path, "theirs");
    check_entries(1);
}

/* In a child: waits to be killed, and ends with its parent. A test that fails half way
 * must not leave a process behind that holds its output open. */
static void wait_for_end(const int hold[2])
{
    char c;

    close(hold[1]);
    (void)!read(hold[0], &c, 1); /* the parent never writes */
    _exit(1);
}

/* A child that starts the file and says so, then waits for its end. */
static pid_t unfinished_writer(const char *path)
{
    int said[2], hold[2];
    char c;

    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct b2_err err = {0};
        struct file_out *f = NULL;
        if (file_out_open(&f, path, true, &err) == B2_OK && write(said[1], "x", 1) == 1)
            wait_for_end(hold);
        _exit(1);
    }
    close(hold[0]); /* the other end stays open as long as this process */
    close(said[1]);
    assert_int_equal(read(said[0], &c, 1), 1);
    close(said[0]);
    return child;
}

static void end_writer(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* What a killed writer left goes when the same file is written again; what a living one
 * writes, and files of other names, stay. */
static void test_out_killed(void **state)
{
    struct b2_err err = {0};
    char path[512];

    (void)state;
    memcpy(path, scratch_path(&s, "out"), sizeof path);
    pid_t dead = unfinished_writer(path);
    end_writer(dead);
    pid_t other = unfinished_writer(scratch_path(&s, "out2"));
    end_writer(other);
    assert_int_equal(file_write_all(scratch_path(&s, "out.part-x"), "", 0, true, &err),
                     B2_OK);
    check_entries(3);
    pid_t alive = unfinished_writer(path); /* takes the dead one's away */
    check_entries(3);
    assert_int_equal(file_write_all(path, "new", 3, true, &err), B2_OK);
    check_content(path, "new");
    check_entries(4);
    end_writer(alive);
    assert_int_equal(file_write_all(path, "newer", 5, true, &err), B2_OK);
    check_entries(3);
}

static void test_folders(void **state)
{
    struct b2_err err = {0};
    char deep[300];

    (void)state;
    assert_int_equal(file_make_dir(scratch_path(&s, "a/b//c/"), &err), B2_OK);
    assert_true(file_is_dir(scratch_path(&s, "a/b/c")));
    assert_int_equal(file_make_dir(s.path, &err), B2_OK);
    assert_int_equal(file_write_all(scratch_path(&s, "a/b/f"), "x", 1, false, &err),
                     B2_OK);
    assert_int_equal(file_make_dir(scratch_path(&s, "a/b/f/g"), &err), B2_EEXIST);
    assert_false(file_is_dir(scratch_path(&s, "a/b/f")));
    /* A link is removed, what it points to stays. */
    snprintf(deep, sizeof deep, "%s/kept", s.dir);
    assert_int_equal(file_make_dir(deep, &err), B2_OK);
    assert_int_equal(file_write_all(scratch_path(&s, "kept/f"), "x", 1, false, &err),
                     B2_OK);
    assert_int_equal(symlink(deep, scratch_path(&s, "a/link")), 0);
    assert_int_equal(file_remove_tree(scratch_path(&s, "a"), &err), B2_OK);
    assert_false(file_exists(s.path));
    assert_true(file_exists(scratch_path(&s, "kept/f")));
    assert_int_equal(file_remove_tree(scratch_path(&s, "a"), &err), B2_OK);
    assert_int_equal(file_remove_tree(scratch_path(&s, "kept/f"), &err), B2_EIO);
    assert_true(file_exists(s.path)); /* a file is not a folder */
}

static void test_questions(void **state)
{
    struct b2_err err = {0};
    uint64_t n = 0, n_free = 0, same = 0;

    (void)state;
    assert_int_equal(file_size(&n, scratch_path(&s, "f"), &err), B2_ENOTFOUND);
    assert_int_equal(file_size(&n, s.dir, &err), B2_EARG);
    assert_int_equal(file_write_all(scratch_path(&s, "f"), "123", 3, false, &err),
                     B2_OK);
    assert_int_equal(file_size(&n, s.path, &err), B2_OK);
    assert_int_equal(n, 3);
    assert_int_equal(file_rename(s.path, s.dir, &err), B2_EIO);
    char from[512];
    snprintf(from, sizeof from, "%s", s.path);
    assert_int_equal(file_rename(from, scratch_path(&s, "g"), &err), B2_OK);
    assert_true(file_exists(s.path) && !file_exists(from));
    assert_int_equal(file_remove(s.path, &err), B2_OK);
    assert_int_equal(file_remove(s.path, &err), B2_ENOTFOUND);
    /* A path that does not exist yet is asked about by its nearest folder. */
    assert_int_equal(file_disk_free(&n_free, s.dir, &err), B2_OK);
    assert_int_equal(file_disk_free(&same, scratch_path(&s, "x/y/z"), &err), B2_OK);
    assert_true(n_free > 0 && same > 0);
    assert_int_equal(file_disk_free(&same, "not-there", &err), B2_OK);
    assert_int_equal(file_disk_free(&same, "", &err), B2_OK);
    assert_true(file_peak_rss() > 100000 && file_peak_rss() < UINT64_C(1) << 40);
}

/* Dropping the cache changes no byte, and a file that is mapped is not called cold. */
static void test_cache_drop(void **state)
{
    struct file_map m = {0};
    struct b2_err err = {0};
    char data[20000];
    volatile uint8_t sum = 0;

    (void)state;
    memset(data, 'x', sizeof data);
    assert_false(file_cache_drop(scratch_path(&s, "cold")));
    assert_int_equal(file_write_all(s.path, data, sizeof data, true, &err), B2_OK);
    (void)file_cache_drop(s.path); /* what the system answers is its own matter */
    assert_int_equal(file_map(&m, s.path, &err), B2_OK);
    assert_memory_equal(m.data, data, sizeof data);
    for (size_t i = 0; i < m.size; i += 4096)
        sum = (uint8_t)(sum + m.data[i]);
    assert_false(file_cache_drop(s.path));
    file_unmap(&m);
    assert_int_equal(file_remove(s.path, &err), B2_OK);
}

/* A second process is refused; the lock of a process that was killed is free. */
static void test_lock(void **state)
{
    struct b2_err err = {0};
    int fd = -1, ready[2], hold[2];
    char byte;
    const char *path = scratch_path(&s, "lock");

    (void)state;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(hold), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int mine;
        byte = file_lock(&mine, path, NULL) ? 'n' : 'y';
        if (write(ready[1], &byte, 1) == 1)
            wait_for_end(hold);
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    enum b2_status rc = file_lock(&fd, path, &err);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    close(hold[0]);
    close(hold[1]);
    assert_int_equal(byte, 'y');
    assert_int_equal(rc, B2_EEXIST);
    assert_non_null(strstr(err.msg, "in use by another process"));
    assert_int_equal(file_lock(&fd, path, &err), B2_OK);
    int again;
    assert_int_equal(file_lock(&again, path, &err), B2_EEXIST);
    file_unlock(fd);
    assert_int_equal(file_lock(&again, path, &err), B2_OK);
    file_unlock(again);
    file_unlock(-1);
    assert_int_equal(file_lock(&fd, scratch_path(&s, "no/lock"), &err), B2_ENOTFOUND);
}

#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DISK(test_map),        ON_DISK(test_advice),
        ON_DISK(test_read_all),   ON_DISK(test_standard_input),
        ON_DISK(test_out),        ON_DISK(test_out_pieces),
        ON_DISK(test_folders),    ON_DISK(test_out_refusals),
        ON_DISK(test_out_killed), ON_DISK(test_questions),
        ON_DISK(test_cache_drop), ON_DISK(test_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
