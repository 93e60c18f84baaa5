/*
 * file.c - mapping and reading files, and the questions we ask about them.
 */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { READ_STEP = 64 * 1024, TREE_DEPTH_MAX = 64 };

/* Turns errno into a status and "path: reason"; a missing file has its own status. */
static enum b2_status fail_errno(struct b2_err *err, const char *path, const char *what)
{
    int e = errno;
    enum b2_status rc = e == ENOENT ? B2_ENOTFOUND : B2_EIO;

    if (e == ENOENT)
        return err_set(err, rc, "%s: no such file or folder", path);
    return err_set(err, rc, "%s: cannot %s: %s", path, what, strerror(e));
}

/* Opens a regular file (or, if any is true, whatever can be read) and gives its size. */
static enum b2_status open_read(int *fd, uint64_t *size, const char *path, bool any,
                                struct b2_err *err)
{
    struct stat st;
    /* Not to hang on a pipe that nobody writes before its kind is known. */
    int f = open(path, O_RDONLY | O_CLOEXEC | (any ? 0 : O_NONBLOCK));

    if (f < 0)
        return fail_errno(err, path, "open");
    if (fstat(f, &st)) {
        enum b2_status rc = fail_errno(err, path, "read its size");
        close(f);
        return rc;
    }
    if (S_ISDIR(st.st_mode) || (!any && !S_ISREG(st.st_mode))) {
        close(f);
        return err_set(err, B2_EARG, "%s: is a %s, not a file", path,
                       S_ISDIR(st.st_mode) ? "folder" : "device or pipe");
    }
    *fd = f;
    *size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    return B2_OK;
}

enum b2_status file_map(struct file_map *m, const char *path, struct b2_err *err)
{
    int fd = -1;
    uint64_t size = 0;
    void *data = NULL;
    enum b2_status rc = open_read(&fd, &size, path, false, err);

    if (rc)
        return rc;
    if (size > PTRDIFF_MAX) {
        close(fd);
        return err_set(err, B2_EIO, "%s: larger than the address space", path);
    }
    if (size > 0) {
        data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            rc = fail_errno(err, path, "map");
            close(fd);
            return rc;
        }
    }
    close(fd); /* the mapping keeps the file */
    *m = (struct file_map){.data = data, .size = (size_t)size};
    return B2_OK;
}

/* munmap and madvise take a pointer to non-const though they change no byte of ours. */
static void *map_addr(const struct file_map *m, size_t offset)
{
    return (void *)(uintptr_t)(m->data + offset);
}

void file_unmap(struct file_map *m)
{
    if (!m)
        return;
    if (m->data)
        munmap(map_addr(m, 0), m->size);
    *m = (struct file_map){0};
}

/* Advises on [offset, offset + size), cut to the map. Inner pages only when the advice
 * throws pages away (a neighbour may be in use), every touched page otherwise. Advice
 * that the system does not take changes speed, not results: no error. */
static void advise(const struct file_map *m, uint64_t offset, uint64_t size, int advice,
                   bool inner)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    if (!m || !m->data || offset >= m->size)
        return;
    uint64_t end = size > m->size - offset ? m->size : offset + size;
    uint64_t begin = inner ? align_up_u64(offset, page) : offset & ~(page - 1);
    if (inner && end < m->size)
        end &= ~(page - 1);
    if (begin < end)
        (void)madvise(map_addr(m, (size_t)begin), (size_t)(end - begin), advice);
}

void file_map_will_need(const struct file_map *m, uint64_t offset, uint64_t size)
{
    advise(m, offset, size, MADV_WILLNEED, false);
}

/* Pages that the system already holds cost a look at each; the others are asked for a
 * window ahead of the one that is waited for, so that the disk never rests. */
void file_map_warm(const struct file_map *m, uint64_t offset, uint64_t size)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), window = 16u << 20;

    if (!m || !m->data || offset >= m->size)
        return;
    uint64_t end = size > m->size - offset ? m->size : offset + size;
    file_map_will_need(m, offset, window);
    for (uint64_t at = offset & ~(page - 1); at < end; at += window) {
        uint64_t stop = end - at < window ? end : at + window;
        file_map_will_need(m, stop, window);
#ifdef MADV_POPULATE_READ /* Linux 5.14; older kernels refuse it */
        if (madvise(map_addr(m, (size_t)at), (size_t)(stop - at), MADV_POPULATE_READ) ==
            0)
            continue;
#endif
        for (uint64_t p = at; p < stop; p += page)
            (void)*(const volatile uint8_t *)(m->data + p);
    }
}

void file_map_drop(const struct file_map *m, uint64_t offset, uint64_t size)
{
    advise(m, offset, size, MADV_DONTNEED, true);
}

/* Reads fd to its end into *out, at most max_bytes. hint: the expected size. */
static enum b2_status read_all(char **out, size_t *size, int fd, uint64_t hint,
                               size_t max_bytes, const char *path, struct b2_err *err)
{
    size_t len = 0, cap = (size_t)min_i64((int64_t)hint, (int64_t)(max_bytes >> 1)) + 2;
    char *data = mem_calloc(cap, 1);

    if (!data)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    for (;;) {
        if (len + 1 >= cap) {
            char *more = mem_realloc(data, cap + cap / 2 + READ_STEP, 1);
            if (!more) {
                mem_free(data);
                return err_set(err, B2_ENOMEM, "%s: out of memory", path);
            }
            data = more;
            cap += cap / 2 + READ_STEP;
        }
        ssize_t n = read(fd, data + len, cap - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            enum b2_status rc = fail_errno(err, path, "read");
            mem_free(data);
            return rc;
        }
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > max_bytes) {
            mem_free(data);
            return err_set(err, B2_ENOMEM, "%s: larger than the limit of %zu bytes",
                           path, max_bytes);
        }
    }
    data[len] = '\0';
    *out = data;
    *size = len;
    return B2_OK;
}

enum b2_status file_read_all(char **out, size_t *size, const char *path,
                             size_t max_bytes, struct b2_err *err)
{
    int fd = -1;
    uint64_t hint = 0;

    if (strcmp(path, "-") == 0)
        return read_all(out, size, STDIN_FILENO, 0, max_bytes, "standard input", err);
    enum b2_status rc = open_read(&fd, &hint, path, true, err);
    if (rc)
        return rc;
    rc = read_all(out, size, fd, hint < PTRDIFF_MAX ? hint : 0, max_bytes, path, err);
    close(fd);
    return rc;
}

bool file_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

bool file_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

bool file_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum b2_status file_size(uint64_t *out, const char *path, struct b2_err *err)
{
    struct stat st;

    if (stat(path, &st))
        return fail_errno(err, path, "read its size");
    if (!S_ISREG(st.st_mode))
        return err_set(err, B2_EARG, "%s: not a file", path);
    *out = (uint64_t)st.st_size;
    return B2_OK;
}

/* Cuts the last part off a path: "a/b" to "a", "a" to ".", "/a" to "/". */
static void cut_last(char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n == 0)
        path[n++] = '.';
    path[n] = '\0';
}

enum b2_status file_disk_free(uint64_t *out, const char *path, struct b2_err *err)
{
    struct statvfs fs;
    size_t n = strlen(path);
    char *at = mem_calloc(n + 2, 1); /* room for "." when path is empty */

    if (!at)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    memcpy(at, path, n);
    /* A path that will be made is judged by the nearest folder that is there. */
    int rc = statvfs(at, &fs);
    while (rc && errno == ENOENT && strcmp(at, ".") != 0 && strcmp(at, "/") != 0) {
        cut_last(at);
        rc = statvfs(at, &fs);
    }
    mem_free(at);
    if (rc)
        return fail_errno(err, path, "ask for free space");
    if (!mul_u64(out, fs.f_bavail, fs.f_frsize))
        *out = UINT64_MAX;
    return B2_OK;
}

enum b2_status file_make_dir(const char *path, struct b2_err *err)
{
    size_t n = strlen(path);
    char *at = mem_dup(path, n + 1);
    enum b2_status rc = B2_OK;

    if (!at)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    for (size_t i = 1; i <= n && !rc; i++) {
        if (at[i] != '/' && at[i] != '\0')
            continue;
        char saved = at[i];
        at[i] = '\0';
        if (mkdir(at, 0777) && errno != EEXIST)
            rc = fail_errno(err, at, "make the folder");
        else if (!file_is_dir(at))
            rc = err_set(err, B2_EEXIST, "%s: exists and is no folder", at);
        at[i] = saved;
    }
    mem_free(at);
    return rc;
}

enum b2_status file_remove(const char *path, struct b2_err *err)
{
    return unlink(path) ? fail_errno(err, path, "remove") : B2_OK;
}

enum b2_status file_remove_if_there(const char *path, struct b2_err *err)
{
    return file_exists(path) ? file_remove(path, err) : B2_OK;
}

enum b2_status file_rename(const char *from, const char *to, struct b2_err *err)
{
    if (rename(from, to) == 0)
        return B2_OK;
    enum b2_status rc = fail_errno(err, from, "rename");
    err_wrap(err, "%s", to);
    return rc;
}

/* Empties the folder open at dir_fd, which it takes; links are removed, not followed.
 * 0, or -1 with errno. */
static int empty_dir(int dir_fd, int depth)
{
    DIR *dir = fdopendir(dir_fd);
    int rc = 0;

    if (!dir) {
        close(dir_fd);
        return -1;
    }
    for (struct dirent *e; rc == 0 && (errno = 0, e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dir_fd, e->d_name, 0) == 0)
            continue;
        /* Linux says EISDIR for a folder, POSIX EPERM. */
        if ((errno != EISDIR && errno != EPERM) || depth >= TREE_DEPTH_MAX) {
            rc = -1;
            break;
        }
        int sub =
            openat(dir_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub < 0 || empty_dir(sub, depth + 1) ||
            unlinkat(dir_fd, e->d_name, AT_REMOVEDIR))
            rc = -1;
    }
    if (rc == 0 && errno != 0)
        rc = -1; /* readdir itself failed */
    int saved = errno;
    closedir(dir);
    errno = saved;
    return rc;
}

enum b2_status file_remove_tree(const char *path, struct b2_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return B2_OK;
    if (fd < 0 || empty_dir(fd, 0) || rmdir(path))
        return fail_errno(err, path, "remove the folder");
    return B2_OK;
}

/* Whether a path still leads to an open file. */
static bool still_there(int f, const char *path)
{
    struct stat mine, now;

    return fstat(f, &mine) == 0 && stat(path, &now) == 0 && mine.st_dev == now.st_dev &&
           mine.st_ino == now.st_ino;
}

enum b2_status file_lock(int *fd, const char *path, struct b2_err *err)
{
    for (;;) {
        int f = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (f < 0)
            return fail_errno(err, path, "open the lock");
        if (flock(f, LOCK_EX | LOCK_NB)) {
            enum b2_status rc;
            if (errno == EWOULDBLOCK)
                rc = err_set(err, B2_EEXIST, "%s: in use by another process", path);
            else
                rc = fail_errno(err, path, "lock");
            close(f);
            return rc;
        }
        if (still_there(f, path)) {
            *fd = f;
            return B2_OK;
        }
        close(
            f); /* its holder removed it meanwhile: a lock that no one else would see */
    }
}

void file_unlock(int fd)
{
    if (fd >= 0)
        close(fd); /* the lock belongs to the open file: it ends with it */
}

/* True when no page of the map is in memory. mincore() tells it to those who may write
 * the file; for others every page counts as present. */
static bool map_is_cold(const struct file_map *m)
{
#if defined(__linux__)
    enum { PAGES = 4096 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char there[PAGES];

    for (size_t at = 0; at < m->size; at += PAGES * page) {
        size_t part = m->size - at < PAGES * page ? m->size - at : PAGES * page;
        if (mincore(map_addr(m, at), part, there))
            return false;
        for (size_t i = 0; i < (part + page - 1) / page; i++)
            if (there[i] & 1)
                return false;
    }
    return true;
#else
    (void)m;
    return false;
#endif
}

bool file_cache_drop(const char *path)
{
    struct file_map m = {0};
    bool cold = false;
#if defined(__linux__)
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    bool asked =
        fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    close(fd);
    if (!asked)
        return false;
#endif
    if (file_map(&m, path, NULL) == B2_OK) {
        cold = map_is_cold(&m);
        file_unmap(&m);
    }
    return cold;
}

uint64_t file_peak_rss(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u))
        return 0;
#if defined(__APPLE__)
    return (uint64_t)u.ru_maxrss; /* bytes there, KiB on Linux */
#else
    return (uint64_t)u.ru_maxrss * 1024;
#endif
}
