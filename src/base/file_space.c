/*
 * file_space.c - a shared mapping of a file that has lost its name.
 */
#define _GNU_SOURCE
#include "base/file_space.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct file_space {
    uint8_t *data;
    uint64_t size, used, page;
};

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t file_space_piece(uint64_t n_bytes)
{
    return align_up_u64(n_bytes, page_bytes());
}

/* The folder that a path's file lies in. */
static bool folder_of(struct str *out, const char *path)
{
    const char *end = strrchr(path, '/');

    if (!end)
        str_put(out, ".");
    else
        str_putn(out, path, end == path ? 1 : (size_t)(end - path));
    return str_ok(out);
}

/* A file in folder that has no name any more. */
static int open_nameless(const char *folder)
{
    struct str path = {0};
    int fd = -1;

    str_printf(&path, "%s/.b2space-XXXXXX", folder);
    if (str_ok(&path))
        fd = mkstemp(path.data);
    if (fd >= 0)
        (void)unlink(path.data);
    str_free(&path);
    return fd;
}

/* Room is asked for before the work: a full disk would end it with a signal. */
static enum b2_status make(struct file_space *s, const char *folder, struct b2_err *err)
{
    uint64_t n_free = 0;
    enum b2_status rc = file_disk_free(&n_free, folder, err);
    void *p = MAP_FAILED;
    int code = 0;

    if (rc)
        return rc;
    if (n_free < s->size)
        return err_set(
            err, B2_EIO,
            "%s: the disk has %llu bytes free and %llu are needed for numbers "
            "that do not fit into memory",
            folder, (unsigned long long)n_free, (unsigned long long)s->size);
    const int fd = open_nameless(folder);
    if (fd >= 0)
        code = posix_fallocate(fd, 0, (off_t)s->size);
    if (fd >= 0 && code == 0)
        p = mmap(NULL, (size_t)s->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        rc = err_set(err, B2_EIO, "%s: cannot map a file of %llu bytes: %s", folder,
                     (unsigned long long)s->size, strerror(code ? code : errno));
    else
        s->data = p;
    if (fd >= 0)
        close(fd); /* the mapping keeps the file */
    return rc;
}

enum b2_status file_space_open(struct file_space **out, const char *beside,
                               uint64_t n_bytes, struct b2_err *err)
{
    struct file_space *s = mem_calloc(1, sizeof *s);
    struct str folder = {0};
    enum b2_status rc;

    if (!s || !folder_of(&folder, beside)) {
        rc = err_set(err, B2_ENOMEM, "out of memory");
    } else if (n_bytes > PTRDIFF_MAX / 2) {
        rc = err_set(err, B2_ENOMEM, "larger than the address space");
    } else {
        s->page = page_bytes();
        s->size = file_space_piece(n_bytes > 0 ? n_bytes : 1);
        rc = make(s, folder.data, err);
    }
    str_free(&folder);
    if (rc)
        mem_free(s);
    else
        *out = s;
    return rc;
}

void file_space_close(struct file_space *s)
{
    if (!s)
        return;
    munmap(s->data, (size_t)s->size);
    mem_free(s);
}

void *file_space_take(struct file_space *s, uint64_t n_bytes)
{
    const uint64_t n = n_bytes <= s->size ? file_space_piece(n_bytes) : s->size + 1;
    uint8_t *p = s->data + s->used;

    if (n > s->size - s->used)
        return NULL;
    s->used += n;
    return p;
}

/* Only pages that lie wholly inside. */
void file_space_drop(struct file_space *s, const void *p, uint64_t n_bytes)
{
    const uint64_t from = (uint64_t)((const uint8_t *)p - s->data);
    const uint64_t begin = align_up_u64(from, s->page);
    const uint64_t end = (from + n_bytes) & ~(s->page - 1);

    if (begin < end)
        (void)madvise(s->data + begin, (size_t)(end - begin), MADV_DONTNEED);
}
