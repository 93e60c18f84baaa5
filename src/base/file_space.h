/*
 * file_space.h - numbers that lie on the disk and are worked on as if they lay in memory.
 *
 * One mapped file without a name: it is gone with the process, however that ends. What is
 * taken reads as zeros. Pages that are given back stay written; the next touch brings them
 * in again, so that a computation gives the same bytes with and without it. Not
 * thread-safe; what was taken may be used by any thread.
 */
#ifndef BASE_FILE_SPACE_H
#define BASE_FILE_SPACE_H

#include "base/error.h"

struct file_space;

/* At least n_bytes in the folder of `beside` (a file's path, there or not). B2_EIO: no
 * room on that disk (says how much there is), or a system that does not map such files.
 * B2_ENOMEM. */
enum b2_status file_space_open(struct file_space **out, const char *beside,
                               uint64_t n_bytes, struct b2_err *err) NODISCARD;
void file_space_close(struct file_space *s); /* NULL is fine */

/* n_bytes from the beginning of a page on, until file_space_close(). NULL: the space is
 * used up. */
void *file_space_take(struct file_space *s, uint64_t n_bytes);

/* What space a piece of n_bytes takes. */
uint64_t file_space_piece(uint64_t n_bytes);

/* Gives the pages of [p, p + n_bytes), a taken piece or a part of one, back to the system.
 * Their contents stay. */
void file_space_drop(struct file_space *s, const void *p, uint64_t n_bytes);

#endif
