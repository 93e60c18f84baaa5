/*
 * file_out.c - files that appear whole or not at all.
 *
 * Appends are gathered in a buffer, so that a writer of small fields costs no system
 * call per field. The new name becomes durable by flushing the file, renaming it, and
 * flushing the folder, in this order: after a power failure the name holds the old
 * bytes or all of the new ones.
 */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUT_BUFFER = 256 * 1024 };

struct file_out {
    char *path, *part;
    unsigned char *buf;
    size_t n_buf;   /* bytes in buf, not yet written */
    uint64_t n_out; /* bytes of the file before buf */
    int fd;         /* -1: not open */
    bool force;
};

static void out_free(struct file_out *f, bool remove_part)
{
    if (f->fd >= 0)
        close(f->fd);
    if (remove_part && f->part)
        (void)unlink(f->part); /* best effort: the failure that led here is the news */
    mem_free(f->path);
    mem_free(f->part);
    mem_free(f->buf);
    mem_free(f);
}

/* An error message for errno; a full disk says how many bytes are missing. */
static enum b2_status fail_write(const struct file_out *f, uint64_t n_left,
                                 struct b2_err *err)
{
    int e = errno;
    uint64_t n_free = 0;
    struct str need = {0}, have = {0};

    if (e != ENOSPC && e != EDQUOT)
        return err_set(err, B2_EIO, "%s: cannot write: %s", f->path, strerror(e));
    if (file_disk_free(&n_free, f->part, NULL))
        n_free = 0;
    str_put_bytes(&need, n_left);
    str_put_bytes(&have, n_free);
    err_set(err, B2_EIO,
            "%s: the %s: this write needs %llu bytes more (%s), %s are free; "
            "make room and run again",
            f->path, e == ENOSPC ? "disk is full" : "disk quota is used up",
            (unsigned long long)n_left, need.data ? need.data : "?",
            have.data ? have.data : "?");
    str_free(&need);
    str_free(&have);
    return B2_EIO;
}

/* Writes all n bytes at offset, however many calls that takes. */
static enum b2_status write_at(struct file_out *f, uint64_t offset, const void *data,
                               size_t n, struct b2_err *err)
{
    const unsigned char *p = data;

    while (n > 0) {
        ssize_t k = pwrite(f->fd, p, n, (off_t)offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            if (k == 0)
                errno = ENOSPC; /* a disk that takes nothing and says nothing is full */
            return fail_write(f, n, err);
        }
        p += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return B2_OK;
}

static enum b2_status flush(struct file_out *f, struct b2_err *err)
{
    enum b2_status rc = write_at(f, f->n_out, f->buf, f->n_buf, err);

    if (rc)
        return rc;
    f->n_out += f->n_buf;
    f->n_buf = 0;
    return B2_OK;
}

enum b2_status file_check_output(const char *path, const char *source, bool force,
                                 struct b2_err *err)
{
    struct stat st;

    if (lstat(path, &st))
        return B2_OK; /* absent, or the open of the part file will say what is wrong */
    if (source && file_same(path, source))
        return err_set(err, B2_EARG, "%s: is the source itself; name another output",
                       path);
    if (S_ISLNK(st.st_mode)) /* /dev/stdout is one */
        return err_set(err, B2_EARG, "%s: is a link; name the file it leads to", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, B2_EARG, "%s: is a folder", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, B2_EARG, "%s: is a device or pipe, not a file", path);
    if (!force)
        return err_set(err, B2_EEXIST, "%s: exists; use --force to replace it", path);
    return B2_OK;
}

/* Whether name, an entry of a folder, is a part file of base whose process is gone. */
static bool is_orphan(int dir_fd, const char *name, const char *base)
{
    size_t n = strlen(base);
    char *end;

    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".part-", 6) != 0 ||
        name[n + 6] < '1' || name[n + 6] > '9')
        return false;
    long pid = strtol(name + n + 6, &end, 10);
    if (*end != '\0' || pid > INT32_MAX || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return false;
    /* A process of another container or machine has no number here, but its lock. */
    int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    bool free = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return free;
}

/* Removes what killed writers of the same path left: gigabytes that no one else would
 * ever look for. Best effort, since nothing depends on it. */
static void remove_orphans(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? mem_dup(path, (size_t)(slash - path) + 2) : mem_strdup(".");

    if (!folder)
        return;
    if (slash)
        folder[slash - path + 1] = '\0';
    DIR *dir = opendir(folder);
    mem_free(folder);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));)
        if (is_orphan(dirfd(dir), e->d_name, slash ? slash + 1 : path))
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
}

enum b2_status file_check_folder(const char *path, struct b2_err *err)
{
    const char *slash = strrchr(path, '/');
    struct str dir = {0};
    enum b2_status rc = B2_OK;

    str_putn(&dir, slash ? path : "./", slash ? (size_t)(slash - path) + 1 : 2);
    if (!str_ok(&dir))
        rc = err_set(err, B2_ENOMEM, "%s: out of memory", path);
    else if (access(dir.data, W_OK | X_OK) != 0)
        rc = err_set(err, errno == ENOENT ? B2_ENOTFOUND : B2_EIO,
                     "%s: cannot write here: %s", path, strerror(errno));
    str_free(&dir);
    return rc;
}

enum b2_status file_out_open(struct file_out **out, const char *path, bool force,
                             struct b2_err *err)
{
    enum b2_status rc = file_check_output(path, NULL, force, err);
    struct str part = {0};

    if (rc)
        return rc;
    struct file_out *f = mem_calloc(1, sizeof *f);
    if (!f)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    f->fd = -1;
    f->force = force;
    f->path = mem_strdup(path);
    f->buf = mem_calloc(OUT_BUFFER, 1);
    str_printf(&part, "%s.part-%ld", path, (long)getpid());
    if (!f->path || !f->buf || !str_ok(&part)) {
        str_free(&part);
        out_free(f, false);
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    }
    f->part = part.data;
    /* A part file of a dead process that had our number may lie there: it is ours now. */
    f->fd = open(f->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0) {
        rc = err_set(err, errno == ENOENT ? B2_ENOTFOUND : B2_EIO,
                     "%s: cannot write here: %s", path, strerror(errno));
        out_free(f, false);
        return rc;
    }
    (void)flock(f->fd, LOCK_EX | LOCK_NB); /* says that its process lives */
    remove_orphans(path);
    *out = f;
    return B2_OK;
}

enum b2_status file_out_write(struct file_out *f, const void *data, size_t n,
                              struct b2_err *err)
{
    if (n > OUT_BUFFER - f->n_buf) {
        enum b2_status rc = flush(f, err);
        if (!rc && n >= OUT_BUFFER) {
            rc = write_at(f, f->n_out, data, n, err);
            if (!rc)
                f->n_out += n;
            return rc;
        }
        if (rc)
            return rc;
    }
    if (n > 0)
        memcpy(f->buf + f->n_buf, data, n);
    f->n_buf += n;
    return B2_OK;
}

enum b2_status file_out_write_at(struct file_out *f, uint64_t offset, const void *data,
                                 size_t n, struct b2_err *err)
{
    uint64_t pos = file_out_pos(f);

    if (offset > pos || n > pos - offset)
        return err_set(err, B2_EARG, "%s: bytes %llu+%zu were not written yet", f->path,
                       (unsigned long long)offset, n);
    enum b2_status rc = flush(f, err);
    return rc ? rc : write_at(f, offset, data, n, err);
}

uint64_t file_out_pos(const struct file_out *f)
{
    return f->n_out + f->n_buf;
}

/* Flushes the folder that holds path, so that the new name survives a power failure.
 * Some file systems know no such flush (EINVAL): then there is nothing to do. */
static enum b2_status sync_folder(const char *path, struct b2_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? mem_dup(path, (size_t)(slash - path) + 2) : mem_strdup(".");

    if (!dir)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    if (slash)
        dir[slash - path + 1] = '\0';
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mem_free(dir);
    if (fd < 0)
        return B2_OK; /* a folder one may write in but not read */
    int rc = fsync(fd), e = errno;
    close(fd);
    if (rc && e != EINVAL && e != EROFS)
        return err_set(err, B2_EIO, "%s: cannot flush its folder: %s", path,
                       strerror(e));
    return B2_OK;
}

/* Gives the part file its name. Without force a file that came into being meanwhile is
 * kept: link() fails where rename() would replace it. */
static enum b2_status publish(struct file_out *f, struct b2_err *err)
{
    if (!f->force) {
        if (link(f->part, f->path) == 0)
            return unlink(f->part) ? fail_write(f, 0, err) : B2_OK;
        if (errno == EEXIST)
            return err_set(err, B2_EEXIST, "%s: exists; use --force to replace it",
                           f->path);
        /* File systems without hard links: the check at the start has to do. */
    }
    if (rename(f->part, f->path))
        return err_set(err, B2_EIO, "%s: cannot rename into place: %s", f->path,
                       strerror(errno));
    return B2_OK;
}

enum b2_status file_out_commit(struct file_out *f, struct b2_err *err)
{
    enum b2_status rc = flush(f, err);

    if (!rc && fsync(f->fd))
        rc = fail_write(f, 0, err);
    if (!rc) {
        int fd = f->fd;
        f->fd = -1;
        if (close(fd)) /* network file systems report late write errors here */
            rc = fail_write(f, 0, err);
    }
    if (!rc)
        rc = publish(f, err);
    if (!rc)
        rc = sync_folder(f->path, err);
    out_free(f, rc != B2_OK);
    return rc;
}

void file_out_abort(struct file_out *f)
{
    if (f)
        out_free(f, true);
}

enum b2_status file_write_all(const char *path, const void *data, size_t n, bool force,
                              struct b2_err *err)
{
    struct file_out *f = NULL;
    enum b2_status rc = file_out_open(&f, path, force, err);

    if (!f)
        return rc; /* which says why */
    rc = file_out_write(f, data, n, err);
    if (rc) {
        file_out_abort(f);
        return rc;
    }
    return file_out_commit(f, err);
}
