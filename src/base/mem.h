/*
 * mem.h - the only place that calls the C allocator.
 *
 * Everything outside base/ allocates through these or through an arena. A size that
 * overflows is an allocation failure. The out-of-memory tests wrap the C allocator
 * below this file (tests/oom).
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* n * size zeroed bytes; n == 0 gives a unique pointer. NULL: overflow or no memory. */
void *mem_calloc(size_t n, size_t size);

/* Grows or shrinks to n * size bytes; new bytes are not zeroed. NULL: p is untouched. */
void *mem_realloc(void *p, size_t n, size_t size);

/* n * size bytes aligned to align (a power of two), not zeroed. Free with mem_free. */
void *mem_aligned(size_t align, size_t n, size_t size);

/* n bytes that are read again and again from end to end, on pages as large as the system
 * gives, each at least 64-byte aligned, not zeroed. Free with mem_free. */
void *mem_huge(size_t n);

/* Owned copies. NULL: out of memory. */
char *mem_strdup(const char *s);
void *mem_dup(const void *p, size_t n_bytes);

void mem_free(void *p); /* NULL is fine */

#endif
