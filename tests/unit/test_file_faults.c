/*
 * test_file_faults.c - writing while the system fails: full disk, short writes, broken
 * flush. The linker puts the functions below in place of the system's.
 */
#define _GNU_SOURCE
#include "base/file.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <errno.h>
#include <unistd.h>

ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t offset);
int __real_fsync(int fd);
int __real_link(const char *from, const char *to);
ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t offset);
int __wrap_fsync(int fd);
int __wrap_link(const char *from, const char *to);

/* What goes wrong. */
static struct {
    long disk_bytes; /* room; -1: unlimited */
    size_t short_n;  /* a write takes at most this many; 0: all */
    int write_errno; /* instead of ENOSPC */
    int interrupts;  /* so many writes are interrupted first */
    int fsync_errno, link_errno;
    int fsyncs;
} fault;

ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t offset)
{
    if (fault.interrupts > 0) {
        fault.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (fault.short_n && n > fault.short_n)
        n = fault.short_n;
    if (fault.disk_bytes >= 0 && offset + (off_t)n > fault.disk_bytes) {
        if (offset >= fault.disk_bytes) {
            errno = fault.write_errno ? fault.write_errno : ENOSPC;
            return fault.write_errno == -1 ? 0 : -1;
        }
        n = (size_t)(fault.disk_bytes - offset);
    }
    return __real_pwrite(fd, data, n, offset);
}

int __wrap_fsync(int fd)
{
    fault.fsyncs++;
    if (fault.fsync_errno) {
        errno = fault.fsync_errno;
        return -1;
    }
    return __real_fsync(fd);
}

int __wrap_link(const char *from, const char *to)
{
    if (fault.link_errno) {
        errno = fault.link_errno;
        return -1;
    }
    return __real_link(from, to);
}

static struct scratch s;

static int setup(void **state)
{
    (void)state;
    memset(&fault, 0, sizeof fault);
    fault.disk_bytes = -1;
    scratch_make(&s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&s);
    return 0;
}

/* Fails unless neither the file nor a part of it is there. */
static void check_nothing_left(void)
{
    assert_int_equal(rmdir(s.dir), 0); /* only an empty folder goes */
    assert_int_equal(file_make_dir(s.dir, NULL), B2_OK);
}

static void test_full_disk(void **state)
{
    static uint8_t data[600000];
    static const long room[] = {0, 1, 1000, 262144, 599999};
    struct b2_err err = {0};

    (void)state;
    for (size_t i = 0; i < countof(room); i++) {
        char need[64];
        fault.disk_bytes = room[i];
        ROW_CHECK(i, file_write_all(scratch_path(&s, "f"), data, sizeof data, false,
                                    &err) == B2_EIO);
        snprintf(need, sizeof need, "needs %ld bytes more", 600000 - room[i]);
        ROW_CHECK(i, strstr(err.msg, "f: the disk is full: this write ") != NULL);
        ROW_CHECK(i, strstr(err.msg, need) != NULL);
        ROW_CHECK(i, strstr(err.msg, "are free") != NULL);
        check_nothing_left();
    }
    fault.disk_bytes = 600000;
    assert_int_equal(file_write_all(s.path, data, sizeof data, false, &err), B2_OK);
}

static void test_other_write_errors(void **state)
{
    static const struct {
        int error;
        const char *message;
    } rows[] = {
        {EDQUOT, "the disk quota is used up"},
        {EIO, "cannot write: "},
        {EFBIG, "cannot write: "},
        {-1, "the disk is full"}, /* a write that takes nothing and names no error */
    };
    struct b2_err err = {0};

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        fault.disk_bytes = 2;
        fault.write_errno = rows[i].error;
        ROW_CHECK(i, file_write_all(scratch_path(&s, "f"), "12345", 5, false, &err) ==
                         B2_EIO);
        ROW_CHECK(i, strstr(err.msg, rows[i].message) != NULL);
        check_nothing_left();
    }
}

/* A disk that fills up at each byte in turn: an error, or the whole file. */
static void test_every_length(void **state)
{
    struct b2_err err;
    uint64_t n = 0;

    (void)state;
    for (long room = 0; room <= 12; room++) {
        fault.disk_bytes = room;
        struct file_out *f = NULL;
        assert_int_equal(file_out_open(&f, scratch_path(&s, "f"), true, &err), B2_OK);
        enum b2_status rc = file_out_write(f, "0123456789", 10, &err);
        if (!rc)
            rc = file_out_write_at(f, 2, "xy", 2, &err);
        if (rc)
            file_out_abort(f);
        else
            rc = file_out_commit(f, &err);
        ROW_CHECK(room, rc == (room < 10 ? B2_EIO : B2_OK));
        if (rc)
            check_nothing_left();
    }
    assert_int_equal(file_size(&n, s.path, &err), B2_OK);
    assert_int_equal(n, 10);
}

static void test_short_and_interrupted(void **state)
{
    static uint8_t data[1000];
    struct b2_err err = {0};
    struct file_map m;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    fault.short_n = 7;
    fault.interrupts = 3;
    assert_int_equal(
        file_write_all(scratch_path(&s, "f"), data, sizeof data, false, &err), B2_OK);
    assert_int_equal(file_map(&m, s.path, &err), B2_OK);
    assert_int_equal(m.size, sizeof data);
    assert_memory_equal(m.data, data, sizeof data);
    file_unmap(&m);
}

static void test_flush(void **state)
{
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(file_write_all(scratch_path(&s, "f"), "1", 1, false, &err), B2_OK);
    assert_int_equal(fault.fsyncs, 2); /* the file and its folder */
    fault.fsync_errno = EIO;
    assert_int_equal(file_write_all(scratch_path(&s, "g"), "1", 1, false, &err),
                     B2_EIO);
    assert_false(file_exists(scratch_path(&s, "g")));
    fault.fsync_errno = ENOSPC; /* delayed allocation finds out late */
    assert_int_equal(file_write_all(scratch_path(&s, "g"), "1", 1, false, &err),
                     B2_EIO);
    assert_non_null(strstr(err.msg, "the disk is full"));
}

/* File systems without hard links still get their file. */
static void test_no_links(void **state)
{
    struct b2_err err = {0};

    (void)state;
    fault.link_errno = EPERM;
    assert_int_equal(file_write_all(scratch_path(&s, "f"), "1", 1, false, &err), B2_OK);
    assert_true(file_exists(s.path));
    assert_int_equal(file_remove(s.path, &err), B2_OK);
    check_nothing_left();
}

#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DISK(test_full_disk),    ON_DISK(test_other_write_errors),
        ON_DISK(test_every_length), ON_DISK(test_short_and_interrupted),
        ON_DISK(test_flush),        ON_DISK(test_no_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
