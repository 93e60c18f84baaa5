/*
 * file.h - files: mapping for reading, atomic writing, the few questions we ask a disk.
 *
 * A map is read-only and private; its pages belong to the operating system's cache. A
 * program that shortens the file meanwhile ends this process (SIGBUS), as for any map.
 * A written file appears under its name whole or not at all: bytes go to
 * NAME.part-PID, are flushed to disk, and are renamed over NAME by file_out_commit().
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/error.h"

#include <stdio.h>

struct file_map {
    const uint8_t *data; /* NULL when size == 0 */
    size_t size;
};

/* Maps path. B2_ENOTFOUND, B2_EIO, B2_EARG (a folder, a device). */
enum b2_status file_map(struct file_map *m, const char *path,
                        struct b2_err *err) NODISCARD;
void file_unmap(struct file_map *m); /* zeroed or NULL is fine */

/* Asks the system to read [offset, offset+size) ahead / to drop it from this map. */
void file_map_will_need(const struct file_map *m, uint64_t offset, uint64_t size);
void file_map_drop(const struct file_map *m, uint64_t offset, uint64_t size);
/* Reads [offset, offset+size) into the system's cache and maps it, in order, at the disk's
 * speed; returns when it is there. */
void file_map_warm(const struct file_map *m, uint64_t offset, uint64_t size);

/* Reads a whole file of at most max_bytes; *out owned (mem_free), with a terminating
 * zero that *size does not count. path "-" reads standard input. */
enum b2_status file_read_all(char **out, size_t *size, const char *path,
                             size_t max_bytes, struct b2_err *err) NODISCARD;

struct file_out; /* a file being written */

/* Refuses what an output must not replace: a folder, a device, a link, the source that
 * is being read (under any name of it; NULL: none), and without force any file. */
enum b2_status file_check_output(const char *path, const char *source, bool force,
                                 struct b2_err *err) NODISCARD;

/* Can a file be made where path is to lie? B2_EIO, B2_ENOTFOUND (no such folder). */
enum b2_status file_check_folder(const char *path, struct b2_err *err) NODISCARD;

/* Starts writing path. force: an existing path may be replaced, else B2_EEXIST. The bytes
 * go to path.part-PID until they are all there; such files of killed processes for the
 * same path are removed. */
enum b2_status file_out_open(struct file_out **out, const char *path, bool force,
                             struct b2_err *err) NODISCARD;
/* Appends. A full disk is B2_EIO with a message that says so. */
enum b2_status file_out_write(struct file_out *f, const void *data, size_t n,
                              struct b2_err *err) NODISCARD;
/* Writes at an earlier offset (header patching); does not move the append position. */
enum b2_status file_out_write_at(struct file_out *f, uint64_t offset, const void *data,
                                 size_t n, struct b2_err *err) NODISCARD;
uint64_t file_out_pos(const struct file_out *f); /* bytes appended so far */
/* Flushes to disk, renames into place, frees f (also on failure; then removes .part). */
enum b2_status file_out_commit(struct file_out *f, struct b2_err *err) NODISCARD;
void file_out_abort(struct file_out *f); /* removes the .part file; NULL is fine */

/* Writes a small whole file atomically. */
enum b2_status file_write_all(const char *path, const void *data, size_t n, bool force,
                              struct b2_err *err) NODISCARD;

bool file_exists(const char *path);
bool file_is_dir(const char *path);
bool file_same(const char *a, const char *b); /* one file or folder under both names */
/* Size in bytes; B2_ENOTFOUND, B2_EIO. */
enum b2_status file_size(uint64_t *out, const char *path, struct b2_err *err) NODISCARD;
/* Bytes a user may still write on the disk that holds path (or its parent folder). */
enum b2_status file_disk_free(uint64_t *out, const char *path,
                              struct b2_err *err) NODISCARD;
enum b2_status file_make_dir(const char *path, struct b2_err *err) NODISCARD; /* -p */
enum b2_status file_remove(const char *path, struct b2_err *err) NODISCARD;
/* The same, but nothing there is fine. */
enum b2_status file_remove_if_there(const char *path, struct b2_err *err) NODISCARD;
enum b2_status file_rename(const char *from, const char *to,
                           struct b2_err *err) NODISCARD;
/* Removes a folder and everything in it; a missing folder is fine. */
enum b2_status file_remove_tree(const char *path, struct b2_err *err) NODISCARD;
/* Takes an advisory lock on path (created); B2_EEXIST when another process holds it.
 * *fd is released by file_unlock() or by the process's end. */
enum b2_status file_lock(int *fd, const char *path, struct b2_err *err) NODISCARD;
void file_unlock(int fd);

/* Asks the system to forget its cached pages of a file, for measurements of a cold start.
 * True: none are left. False: the system kept some (another process maps the file, or it
 * cannot say). */
bool file_cache_drop(const char *path);

/* Peak resident bytes of this process so far; 0 when the system does not tell. */
uint64_t file_peak_rss(void);

#endif
