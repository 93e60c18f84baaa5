/*
 * arena.h - memory that is freed all at once.
 *
 * One arena per lifetime: a model, a request, a compressor stage. Pointers stay
 * valid until arena_reset() or arena_free(); nothing is freed one by one.
 * Not thread-safe: each thread has its own arena.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena;

/* Makes an arena that never holds more than max_bytes. NULL: out of memory. */
struct arena *arena_new(size_t max_bytes);

/* Returns n*size zeroed bytes, 64-byte aligned; n == 0 is allowed. NULL when
 * n*size overflows, when max_bytes would be passed, or out of memory. */
void *arena_calloc(struct arena *a, size_t n, size_t size);

/* Copies of a string / of n bytes and a terminating zero. NULL as above. */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);

size_t arena_used(const struct arena *a); /* bytes handed out, with padding */

void arena_reset(struct arena *a); /* drops all allocations, keeps the blocks */
void arena_free(struct arena *a);  /* NULL is fine */

#endif
