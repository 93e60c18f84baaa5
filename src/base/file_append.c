/*
 * file_append.c - growing files, and the names in a folder.
 */
#define _GNU_SOURCE
#include "base/file_append.h"

#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_append {
    char *path;
    int fd;
};

void file_append_abort(struct file_append *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    mem_free(f->path);
    mem_free(f);
}

static enum b2_status cut_to(struct file_append *f, uint64_t keep, struct b2_err *err)
{
    struct stat st;

    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, B2_EEXIST, "%s: another process is writing it", f->path);
    if (fstat(f->fd, &st) != 0)
        return err_set(err, B2_EIO, "%s: %s", f->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, B2_EARG, "%s: not an ordinary file", f->path);
    if ((uint64_t)st.st_size < keep)
        return err_set(err, B2_EARG, "%s: became shorter meanwhile", f->path);
    if (ftruncate(f->fd, (off_t)keep) != 0 || lseek(f->fd, 0, SEEK_END) < 0)
        return err_set(err, B2_EIO, "%s: cannot write: %s", f->path, strerror(errno));
    return B2_OK;
}

enum b2_status file_append_open(struct file_append **out, const char *path,
                                uint64_t keep, struct b2_err *err)
{
    struct file_append *f = mem_calloc(1, sizeof *f);
    enum b2_status rc;

    if (!f || !(f->path = mem_strdup(path))) {
        mem_free(f);
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    }
    f->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (f->fd < 0)
        rc = err_set(err, errno == EISDIR || errno == ELOOP ? B2_EARG : B2_EIO,
                     "%s: cannot be opened for writing: %s", path, strerror(errno));
    else
        rc = cut_to(f, keep, err);
    if (rc) {
        file_append_abort(f);
        return rc;
    }
    *out = f;
    return B2_OK;
}

enum b2_status file_append_write(struct file_append *f, const void *data, size_t n,
                                 struct b2_err *err)
{
    const char *p = data;

    while (n > 0) {
        ssize_t k = write(f->fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && (errno == ENOSPC || errno == EDQUOT))
            return err_set(
                err, B2_EIO,
                "%s: the %s: what was written before stays; make room and run "
                "again",
                f->path, errno == ENOSPC ? "disk is full" : "disk quota is used up");
        if (k <= 0)
            return err_set(err, B2_EIO, "%s: cannot write: %s", f->path,
                           k < 0 ? strerror(errno) : "nothing was taken");
        p += k;
        n -= (size_t)k;
    }
    return B2_OK;
}

enum b2_status file_append_close(struct file_append *f, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    if (fsync(f->fd) != 0 && errno != EINVAL)
        rc = err_set(err, B2_EIO, "%s: cannot write: %s", f->path, strerror(errno));
    file_append_abort(f);
    return rc;
}

static bool name_matches(const char *name, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    size_t n = strlen(name), head, tail;

    if (name[0] == '.')
        return false;
    if (!star)
        return strcmp(name, pattern) == 0;
    head = (size_t)(star - pattern);
    tail = strlen(star + 1);
    return n >= head + tail && strncmp(name, pattern, head) == 0 &&
           strcmp(name + n - tail, star + 1) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void file_match_free(char **names, int64_t n)
{
    for (int64_t i = 0; names && i < n; i++)
        mem_free(names[i]);
    mem_free(names);
}

enum b2_status file_match(char ***names, int64_t *n, const char *path,
                          const char *pattern, struct b2_err *err)
{
    DIR *dir = opendir(path);
    char **list = NULL;
    int64_t count = 0;
    bool ok = true;

    if (!dir)
        return err_set(err, errno == ENOENT || errno == ENOTDIR ? B2_ENOTFOUND : B2_EIO,
                       "%s: %s", path,
                       errno == ENOENT ? "no such folder" : strerror(errno));
    for (const struct dirent *e; ok && (e = readdir(dir));) {
        char **more;
        if (!name_matches(e->d_name, pattern))
            continue;
        more = mem_realloc(list, (size_t)count + 1, sizeof *list);
        if (more)
            list = more;
        ok = more && (list[count] = mem_strdup(e->d_name));
        count += ok;
    }
    closedir(dir);
    if (!ok) {
        file_match_free(list, count);
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    }
    if (count > 0)
        qsort(list, (size_t)count, sizeof *list, compare_names);
    *names = list;
    *n = count;
    return B2_OK;
}

void file_program_dir(struct str *out)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    const char *slash;

    if (n <= 0 || n >= (ssize_t)sizeof path)
        return;
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (slash)
        str_putn(out, path, (size_t)(slash - path));
}
