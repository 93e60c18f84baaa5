/*
 * test_pool.c - the cut, the results and the scratch index at 1, 2 and 7 threads.
 */
#include "base/pool.h"
#include "unit/unit.h"

#include <stdatomic.h>

enum { N_MAX = 5000, THREADS_MAX = 7, PIECES_MAX = 6000 };

static const int thread_counts[] = {1, 2, 7};

struct record {
    int64_t n, chunk, most;
    int n_threads;
    atomic_int visits[N_MAX];
    atomic_int pieces, bad;
    atomic_int inside[THREADS_MAX]; /* who is in the function with this scratch */
};

static void visit(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct record *r = ctx;

    /* The contract of pool_run: piece k is [k*chunk, min(n, (k+1)*chunk)), and of
     * pool_run_long: up to most of them. */
    if (begin % r->chunk != 0 || (end != r->n && end % r->chunk != 0) || begin >= end ||
        end - begin > r->most * r->chunk)
        atomic_fetch_add(&r->bad, 1);
    if (thread < 0 || thread >= r->n_threads)
        atomic_fetch_add(&r->bad, 1);
    else if (atomic_fetch_add(&r->inside[thread], 1) != 0)
        atomic_fetch_add(&r->bad, 1); /* two at once would share a scratch */
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&r->visits[i], 1);
    atomic_fetch_add(&r->pieces, (int)((end - begin - 1) / r->chunk + 1));
    if (thread >= 0 && thread < r->n_threads)
        atomic_fetch_sub(&r->inside[thread], 1);
}

static void check_cut(struct pool *p, int n_threads, int64_t n, int64_t chunk,
                      int64_t most)
{
    static struct record r;

    memset(&r, 0, sizeof r);
    r.n = n;
    r.chunk = chunk;
    r.most = most;
    r.n_threads = n_threads;
    if (most == 1)
        pool_run(p, visit, &r, n, chunk);
    else
        pool_run_long(p, visit, &r, n, chunk, most);
    for (int64_t i = 0; i < N_MAX; i++)
        if (atomic_load(&r.visits[i]) != (i < n))
            fail_msg("%d threads, n %d, chunk %d: item %d seen %d times", n_threads,
                     (int)n, (int)chunk, (int)i, atomic_load(&r.visits[i]));
    assert_int_equal(atomic_load(&r.bad), 0);
    assert_int_equal(atomic_load(&r.pieces), n ? (n - 1) / chunk + 1 : 0);
}

static void test_cut(void **state)
{
    static const int64_t ns[] = {0, 1, 2, 5, 6, 7, 8, 100, 1023, N_MAX};
    static const int64_t chunks[] = {1, 3, 64, 1000, 100000};

    (void)state;
    for (size_t t = 0; t < countof(thread_counts); t++) {
        struct pool *p = pool_new(thread_counts[t]);
        assert_non_null(p);
        assert_int_equal(pool_threads(p), thread_counts[t]);
        for (size_t i = 0; i < countof(ns); i++)
            for (size_t k = 0; k < countof(chunks); k++)
                for (int64_t most = 1; most <= 25; most += 8)
                    check_cut(p, thread_counts[t], ns[i], chunks[k], most);
        pool_free(p);
    }
    for (size_t i = 0; i < countof(ns); i++) /* no pool: the caller alone */
        check_cut(NULL, 1, ns[i], 3, i % 2 ? 1 : 5);
    assert_int_equal(pool_threads(NULL), 1);
}

struct sums {
    const float *x;
    float part[PIECES_MAX];
    int64_t chunk;
};

static void add_up(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct sums *s = ctx;
    float sum = 0.0f;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        sum += s->x[i];
    s->part[begin / s->chunk] = sum;
}

/* Sums of floats depend on their order: the same bits for any number of threads. */
static void test_same_bits(void **state)
{
    static float x[N_MAX];
    static struct sums s;
    float want = 0.0f;

    (void)state;
    for (int i = 0; i < N_MAX; i++)
        x[i] = (float)((i * 7919) % 1000) / 7.0f;
    for (size_t t = 0; t < countof(thread_counts); t++) {
        struct pool *p = pool_new(thread_counts[t]);
        assert_non_null(p);
        s = (struct sums){.x = x, .chunk = 13};
        pool_run(p, add_up, &s, N_MAX, s.chunk);
        float sum = 0.0f;
        for (int64_t k = 0; k * s.chunk < N_MAX; k++)
            sum += s.part[k];
        if (t == 0)
            want = sum;
        assert_memory_equal(&sum, &want, sizeof sum);
        pool_free(p);
    }
}

static void count(void *ctx, int64_t begin, int64_t end, int thread)
{
    int64_t *slot = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        slot[8 * i]++; /* plain memory: the pool alone orders the jobs */
}

/* Jobs of a few pieces one after the other: a lost or doubled piece, or memory of one
 * job that the next does not see, shows here (and to the thread sanitizer). */
static void test_many_tiny_jobs(void **state)
{
    (void)state;
    for (size_t t = 0; t < countof(thread_counts); t++) {
        struct pool *p = pool_new(thread_counts[t]);
        int64_t slot[8 * 4] = {0};
        /* Threads beyond the processors sleep and wake each time: fewer jobs there. */
        int jobs = thread_counts[t] <= 2 ? 100000 : 20000;
        assert_non_null(p);
        for (int j = 0; j < jobs; j++)
            pool_run_long(p, count, slot, 4, 1, 1 + j % 2);
        for (int i = 0; i < 4; i++)
            assert_int_equal(slot[8 * i], jobs);
        pool_free(p);
    }
}

static void test_start_and_stop(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct pool *p = pool_new(1 + i % 5);
        assert_non_null(p);
        if (i % 2)
            check_cut(p, 1 + i % 5, 20, 1, 1 + i % 3);
        pool_free(p);
    }
    pool_free(NULL);
    assert_null(pool_new(-1));
    assert_null(pool_new(1 << 20));
}

static void test_default(void **state)
{
    char why[160] = "", small[8];
    int n = pool_default_threads(why, sizeof why);

    (void)state;
    assert_in_range(n, 1, 1024);
    assert_non_null(strstr(why, "thread"));
    assert_non_null(strstr(why, "in the affinity mask, "));
    assert_int_equal(pool_default_threads(small, sizeof small), n);
    assert_true(strlen(small) < sizeof small);
    assert_int_equal(pool_default_threads(NULL, 0), n);
    struct pool *p = pool_new(0);
    assert_non_null(p);
    assert_int_equal(pool_threads(p), n);
    pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_many_tiny_jobs),
        cmocka_unit_test(test_start_and_stop),
        cmocka_unit_test(test_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
