/*
 * mem.c - checked allocation.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The byte count of n * size, at least 1; 0 when it overflows. */
static size_t checked_size(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return 0;
    return bytes ? bytes : 1;
}

void *mem_calloc(size_t n, size_t size)
{
    size_t bytes = checked_size(n, size);

    return bytes ? calloc(1, bytes) : NULL;
}

void *mem_realloc(void *p, size_t n, size_t size)
{
    size_t bytes = checked_size(n, size);

    return bytes ? realloc(p, bytes) : NULL;
}

void *mem_aligned(size_t align, size_t n, size_t size)
{
    size_t bytes = checked_size(n, size);

    if (bytes == 0 || bytes > PTRDIFF_MAX - align)
        return NULL;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

void *mem_huge(size_t n)
{
    static const size_t page = (size_t)2 << 20;
    void *p = mem_aligned(page, n, 1);

#ifdef MADV_HUGEPAGE
    if (p) /* refused: smaller pages do */
        (void)madvise(p, (n + page - 1) & ~(page - 1), MADV_HUGEPAGE);
#endif
    return p;
}

void *mem_dup(const void *p, size_t n_bytes)
{
    void *copy = mem_calloc(n_bytes, 1);

    if (copy && n_bytes)
        memcpy(copy, p, n_bytes);
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_dup(s, strlen(s) + 1);
}

void mem_free(void *p)
{
    free(p);
}
