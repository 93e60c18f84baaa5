/*
 * pool.h - the thread pool: cut work by index, run it, wait.
 *
 * The cut depends only on the amount of work, never on the number of threads, so that
 * results cannot depend on it. Threads spin for a short while for the next job, then
 * sleep on a futex. One job at a time; pool_run() is called from one thread only.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/error.h"

struct pool;

/* Threads that make sense here: the smaller of the affinity mask and the cgroup's
 * quota (rounded down, at least 1). why (may be NULL) gets the reason in words. */
int pool_default_threads(char *why, size_t why_size);

/* n_threads >= 1 in all, the caller included; 0 takes pool_default_threads(). NULL: out of
 * memory, or the system gives no threads. */
struct pool *pool_new(int n_threads);
int pool_threads(const struct pool *p);

/* Calls fn(ctx, begin, end, thread) for all of [0, n) in pieces of at most chunk >= 1
 * items; piece k is [k*chunk, min(n, (k+1)*chunk)). Threads take pieces in any order;
 * thread (0 <= thread < pool_threads) says whose scratch to use, nothing else. Returns
 * when all pieces are done. p == NULL runs on the caller. */
void pool_run(struct pool *p,
              void (*fn)(void *ctx, int64_t begin, int64_t end, int thread), void *ctx,
              int64_t n, int64_t chunk);

/* The same for small pieces of one stream: fn gets up to `most` neighbouring pieces at a
 * time, one by one towards the end, so that threads end together. */
void pool_run_long(struct pool *p,
                   void (*fn)(void *ctx, int64_t begin, int64_t end, int thread),
                   void *ctx, int64_t n, int64_t chunk, int64_t most);

void pool_free(struct pool *p); /* NULL is fine */

#endif
