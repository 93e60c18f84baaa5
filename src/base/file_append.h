/*
 * file_append.h - a file that grows line by line and may be cut short by a crash.
 *
 * For records of long work: what was written stays. The reader decides how many bytes
 * of an earlier run are whole; the rest is cut off before the first append.
 */
#ifndef BASE_FILE_APPEND_H
#define BASE_FILE_APPEND_H

#include "base/error.h"

struct file_append;

/* Opens path (made when it is missing), cuts it to keep bytes and appends behind them.
 * B2_EIO; B2_EARG: shorter than keep, a folder, a link; B2_EEXIST: another process holds it. */
enum b2_status file_append_open(struct file_append **out, const char *path,
                                uint64_t keep, struct b2_err *err) NODISCARD;
/* Hands n bytes to the system, which keeps them when this process dies. */
enum b2_status file_append_write(struct file_append *f, const void *data, size_t n,
                                 struct b2_err *err) NODISCARD;
/* Flushes to disk and closes; frees f also on failure. */
enum b2_status file_append_close(struct file_append *f, struct b2_err *err) NODISCARD;
void file_append_abort(struct file_append *f); /* closes without a word; NULL is fine */

/* Names in folder path that match pattern, a name with at most one '*', sorted by bytes;
 * *names [*n], each owned. Hidden names are left out. B2_ENOTFOUND: no such folder. */
enum b2_status file_match(char ***names, int64_t *n, const char *path,
                          const char *pattern, struct b2_err *err) NODISCARD;
void file_match_free(char **names, int64_t n);

/* Appends the folder that this program's file lies in; nothing where the system does not
 * tell. Installed data are found from there. */
struct str;
void file_program_dir(struct str *out);

#endif
