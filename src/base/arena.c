/*
 * arena.c - a list of blocks; allocation moves a mark forward in the last of them.
 */
#include "base/arena.h"

#include "base/mem.h"
#include "base/util.h"

#include <string.h>

enum { ARENA_ALIGN = 64, ARENA_BLOCK = 64 * 1024 };

struct block {
    struct block *next;
    size_t size; /* bytes after the header */
    size_t used;
};

struct arena {
    struct block *first, *now; /* blocks before now are full, those after are empty */
    size_t max_bytes, used;
};

static size_t header_size(void)
{
    return (size_t)align_up_u64(sizeof(struct block), ARENA_ALIGN);
}

struct arena *arena_new(size_t max_bytes)
{
    struct arena *a = mem_calloc(1, sizeof *a);

    if (a)
        a->max_bytes = max_bytes;
    return a;
}

/* Makes room for bytes in a->now: moves on to an empty block or adds one. */
static struct block *room_for(struct arena *a, size_t bytes)
{
    if (a->now && a->now->size - a->now->used >= bytes)
        return a->now;
    struct block *next = a->now ? a->now->next : a->first;
    if (next && next->size >= bytes) {
        a->now = next;
        return next;
    }
    size_t size = bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK;
    if (size > SIZE_MAX / 2)
        return NULL;
    struct block *b = mem_aligned(ARENA_ALIGN, 1, header_size() + size);
    if (!b)
        return NULL;
    *b = (struct block){.next = next, .size = size};
    if (a->now)
        a->now->next = b;
    else
        a->first = b;
    a->now = b;
    return b;
}

void *arena_calloc(struct arena *a, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 4)
        return NULL;
    bytes = (size_t)align_up_u64(bytes ? bytes : 1, ARENA_ALIGN);
    if (bytes > a->max_bytes - a->used)
        return NULL;
    struct block *b = room_for(a, bytes);
    if (!b)
        return NULL;
    unsigned char *p = (unsigned char *)b + header_size() + b->used;
    b->used += bytes;
    a->used += bytes;
    memset(p, 0, bytes);
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *copy = arena_calloc(a, n + 1, 1);
    if (copy && n)
        memcpy(copy, s, n);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

void arena_reset(struct arena *a)
{
    for (struct block *b = a->first; b; b = b->next)
        b->used = 0;
    a->now = NULL;
    a->used = 0;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->first, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    mem_free(a);
}
