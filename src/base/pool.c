/*
 * pool.c - threads that take the pieces of one job: each from a range of its own first.
 *
 * Neighbouring pieces are neighbouring memory, and kernels ask for what comes next while
 * they work. So each thread starts with a range of pieces in a row and only then takes
 * what others have left, piece by piece: a thread that the system holds up, or that
 * sleeps, keeps no more than the piece in its hand.
 *
 * A range is a ticket: the job's number in the high 32 bits, the pieces that nobody has
 * taken in the low 32. A thread reads the job's fields, then takes pieces by
 * compare-and-swap of the whole ticket. The swap succeeds only while that very job has
 * free pieces, so the fields that were read belong to it, and a thread that wakes late
 * finds nothing to do: the caller never waits for sleepers, only for pieces in hand.
 */
#define _GNU_SOURCE
#include "base/pool.h"

#include "base/cgroup.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

/* About 20 to 100 microseconds: longer than the gap between two layers of a decode
 * step, shorter than a slice of the scheduler. */
enum { SPIN_TURNS = 2000, THREADS_MAX = 1024 };

enum {
    LEFT_SHARE = 4
}; /* at most so much of what is left is taken at a time: a quarter */

typedef void pool_fn(void *ctx, int64_t begin, int64_t end, int thread);

/* Pieces of one thread, in a cache line of its own. */
struct range {
    _Alignas(64) atomic_uint_least64_t ticket;
};

struct pool {
    int n_threads, n_started, spin_turns;
    pthread_t *handle;   /* n_started of them */
    struct range *range; /* n_threads of them */

    /* The job. Written by the caller between jobs, read by threads at any time. */
    _Atomic(pool_fn *) fn;
    _Atomic(void *) ctx;
    atomic_int_least64_t n, chunk, pieces, most;

    _Alignas(64) atomic_uint job;      /* futex: threads sleep until it changes */
    atomic_int sleepers;               /* threads that sleep on job, or are about to */
    _Alignas(64) atomic_uint finished; /* futex: pieces done; the caller sleeps on it */
    atomic_bool caller_sleeps, stop;
#if !defined(__linux__)
    pthread_mutex_t lock;
    pthread_cond_t changed;
#endif
};

struct worker {
    struct pool *pool;
    int thread;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps while *word == old; may return early. */
static void wait_change(struct pool *p, atomic_uint *word, unsigned old)
{
#if defined(__linux__)
    (void)p;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
#else
    pthread_mutex_lock(&p->lock);
    while (atomic_load(word) == old)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
#endif
}

/* Wakes up to n threads that sleep on word, which has changed before. */
static void wake(struct pool *p, atomic_uint *word, int n)
{
#if defined(__linux__)
    (void)p;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
    (void)word, (void)n;
    pthread_mutex_lock(&p->lock); /* a sleeper is before its check or in its wait */
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
#endif
}

/* The first piece of a thread's range; of thread n_threads: all pieces. */
static int64_t first_piece(const struct pool *p, int64_t pieces, int thread)
{
    return thread * (pieces / p->n_threads) + min_i64(thread, pieces % p->n_threads);
}

/* Takes pieces of one range of job number job until none is free there; how many. */
static unsigned take_range(struct pool *p, unsigned job, int owner, int thread)
{
    atomic_uint_least64_t *ticket = &p->range[owner].ticket;
    uint_least64_t t = atomic_load(ticket);
    unsigned taken = 0;

    while (t >> 32 == job && (t & UINT32_MAX) > 0) {
        pool_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        int64_t n = atomic_load_explicit(&p->n, memory_order_relaxed);
        int64_t chunk = atomic_load_explicit(&p->chunk, memory_order_relaxed);
        int64_t pieces = atomic_load_explicit(&p->pieces, memory_order_relaxed);
        int64_t most = atomic_load_explicit(&p->most, memory_order_relaxed);
        int64_t left = (int64_t)(t & UINT32_MAX);
        int64_t take = max_i64(1, min_i64(most, left / LEFT_SHARE));

        if (!atomic_compare_exchange_weak(ticket, &t, t - (uint_least64_t)take))
            continue;
        int64_t begin = (first_piece(p, pieces, owner + 1) - left) * chunk;
        fn(ctx, begin, begin + min_i64(take * chunk, n - begin), thread);
        taken += (unsigned)take;
        t = atomic_load(ticket);
    }
    return taken;
}

/* Takes pieces of job number job until none is free: the thread's own, then others'. The
 * caller waits for the sum, which is told once: until then it cannot return. */
static void work(struct pool *p, unsigned job, int thread)
{
    unsigned taken = 0;

    for (int i = 0; i < p->n_threads; i++)
        taken += take_range(p, job, (thread + i) % p->n_threads, thread);
    if (taken == 0)
        return;
    unsigned pieces = (unsigned)atomic_load_explicit(&p->pieces, memory_order_relaxed);
    if (taken + atomic_fetch_add(&p->finished, taken) == pieces &&
        atomic_load(&p->caller_sleeps))
        wake(p, &p->finished, 1);
}

/* Returns the number of a job that is not seen; spins first, then sleeps. */
static unsigned next_job(struct pool *p, unsigned seen)
{
    unsigned job;

    for (int i = 0; i < p->spin_turns; i++) {
        job = atomic_load_explicit(&p->job, memory_order_acquire);
        if (job != seen)
            return job;
        cpu_relax();
    }
    /* The caller raises job before it looks at sleepers, a thread announces itself
     * before it looks at job: one of the two sees the other (both are seq_cst). */
    atomic_fetch_add(&p->sleepers, 1);
    while ((job = atomic_load(&p->job)) == seen)
        wait_change(p, &p->job, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return job;
}

static void *worker_main(void *arg)
{
    struct worker w = *(struct worker *)arg;
    unsigned job = 0;

    mem_free(arg);
    for (;;) {
        job = next_job(w.pool, job);
        if (atomic_load(&w.pool->stop))
            return NULL;
        work(w.pool, job, w.thread);
    }
}

/* Waits until all pieces are finished. */
static void wait_finished(struct pool *p, unsigned pieces)
{
    unsigned done;

    for (int i = 0; i < p->spin_turns; i++) {
        if (atomic_load(&p->finished) == pieces)
            return;
        cpu_relax();
    }
    atomic_store(&p->caller_sleeps, true);
    while ((done = atomic_load(&p->finished)) != pieces)
        wait_change(p, &p->finished, done);
    atomic_store(&p->caller_sleeps, false);
}

/* One job of 1 < pieces <= UINT32_MAX. */
static void run_job(struct pool *p, pool_fn *fn, void *ctx, int64_t n, int64_t chunk,
                    int64_t pieces, int64_t most)
{
    unsigned job = atomic_load(&p->job) + 1;

    /* The old tickets have no piece left, so that no thread can act on these while they
     * change; the new tickets are published after them. */
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->n, n, memory_order_relaxed);
    atomic_store_explicit(&p->chunk, chunk, memory_order_relaxed);
    atomic_store_explicit(&p->pieces, pieces, memory_order_relaxed);
    atomic_store_explicit(&p->most, most, memory_order_relaxed);
    atomic_store(&p->finished, 0);
    for (int i = 0; i < p->n_threads; i++) {
        int64_t own = first_piece(p, pieces, i + 1) - first_piece(p, pieces, i);
        atomic_store(&p->range[i].ticket,
                     (uint_least64_t)job << 32 | (uint_least64_t)own);
    }
    atomic_store(&p->job, job);
    if (atomic_load(&p->sleepers) > 0)
        wake(p, &p->job, (int)min_i64(pieces - 1, p->n_threads - 1));
    work(p, job, 0);
    wait_finished(p, (unsigned)pieces);
}

void pool_run_long(struct pool *p, pool_fn *fn, void *ctx, int64_t n, int64_t chunk,
                   int64_t most)
{
    if (n <= 0)
        return;
    chunk = max_i64(chunk, 1);
    most = min_i64(max_i64(most, 1), INT64_MAX / chunk);
    int64_t pieces = (n - 1) / chunk + 1;
    if (p && p->n_started > 0 && pieces > 1 && pieces <= UINT32_MAX) {
        run_job(p, fn, ctx, n, chunk, pieces, most);
        return;
    }
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = begin + min_i64(most * chunk, n - begin);
        fn(ctx, begin, end, 0);
    }
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t n, int64_t chunk)
{
    pool_run_long(p, fn, ctx, n, chunk, 1);
}

/* Processors in the affinity mask; all that run where there is no such mask. */
static int affinity_count(void)
{
#if defined(__linux__)
    /* The kernel refuses a mask shorter than its own: larger ones are tried. */
    for (size_t n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(n_cpus);
        size_t size = CPU_ALLOC_SIZE(n_cpus);
        if (!set)
            break;
        int rc = sched_getaffinity(0, size, set);
        int n = rc ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (n > 0)
            return n;
    }
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n <= THREADS_MAX ? (int)n : 1;
}

int pool_default_threads(char *why, size_t why_size)
{
    int cores = affinity_count();
    double quota = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    int n = cores;

    if (quota > 0.0 && quota < cores)
        n = quota < 1.0 ? 1 : (int)quota;
    if (n > THREADS_MAX)
        n = THREADS_MAX;
    if (!why || why_size == 0)
        return n;
    int len = snprintf(why, why_size, "%d thread%s: %d core%s in the affinity mask, ",
                       n, n == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    if (len < 0 || (size_t)len >= why_size)
        return n;
    if (quota > 0.0)
        snprintf(why + len, why_size - (size_t)len, "cgroup quota of %.2f cores",
                 quota);
    else
        snprintf(why + len, why_size - (size_t)len, "no cgroup quota");
    return n;
}

/* Starts one thread. Signals stay with the caller's thread: a pool thread that ran a
 * handler would hold up its piece. */
static bool start_thread(struct pool *p, int thread)
{
    struct worker *w = mem_calloc(1, sizeof *w);
    sigset_t all, old;

    if (!w)
        return false;
    *w = (struct worker){.pool = p, .thread = thread};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&p->handle[p->n_started], NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        mem_free(w);
        return false;
    }
    p->n_started++;
    return true;
}

struct pool *pool_new(int n_threads)
{
    int sensible = pool_default_threads(NULL, 0);

    if (n_threads == 0)
        n_threads = sensible;
    if (n_threads < 0 || n_threads > THREADS_MAX)
        return NULL;
    struct pool *p = mem_aligned(64, 1, sizeof *p);
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    /* With more threads than processors a spinning thread keeps a working one waiting. */
    p->spin_turns = n_threads <= sensible ? SPIN_TURNS : 0;
#if !defined(__linux__)
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
#endif
    p->handle = mem_calloc((size_t)n_threads, sizeof *p->handle);
    p->range = mem_aligned(64, (size_t)n_threads, sizeof *p->range);
    bool ok = p->handle && p->range;
    for (int i = 0; ok && i < n_threads; i++)
        atomic_init(&p->range[i].ticket, 0);
    for (int i = 1; ok && i < n_threads; i++)
        ok = start_thread(p, i);
    if (ok)
        return p;
    pool_free(p);
    return NULL;
}

int pool_threads(const struct pool *p)
{
    return p ? p->n_threads : 1;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->job, 1); /* after stop: whoever sees the one sees the other */
    wake(p, &p->job, p->n_threads);
    for (int i = 0; i < p->n_started; i++)
        pthread_join(p->handle[i], NULL);
#if !defined(__linux__)
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
#endif
    mem_free(p->range);
    mem_free(p->handle);
    mem_free(p);
}
