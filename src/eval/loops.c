/*
 * loops.c - cycles, 4-grams and a small LZ77.
 */
#include "eval/loops.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LZ_MIN = 4, LZ_MAX = 258, LZ_WINDOW = 1 << 15, LZ_COST = 3, HASH_BITS = 14 };

/* The longest cycle and whether it reaches the end. Every period is tried: answers are a
 * few hundred tokens. */
static void find_cycle(struct loops_answer *out, const int32_t *ids, int64_t n)
{
    bool ends = false;

    for (int64_t p = 1; p * LOOPS_REPEATS <= n; p++) {
        int64_t run = 0;
        for (int64_t i = p; i <= n; i++) {
            if (i < n && ids[i] == ids[i - p]) {
                run++;
                continue;
            }
            int64_t length = run + p;
            if (run > 0 && length >= LOOPS_REPEATS * p && length >= LOOPS_MIN_CYCLE) {
                ends = ends || i == n;
                if (length > out->cycle)
                    out->cycle = length;
            }
            run = 0;
        }
    }
    out->loop = ends || (out->cycle > 0 && 2 * out->cycle >= n);
}

static int compare_grams(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static enum b2_status count_grams(double *out, const int32_t *ids, int64_t n,
                                  struct b2_err *err)
{
    int64_t grams = n - 3, different = 1;
    int32_t *all;

    *out = 1.0;
    if (grams < 1)
        return B2_OK;
    all = mem_calloc((size_t)grams, 4 * sizeof *all);
    if (!all)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < grams; i++)
        memcpy(all + 4 * i, ids + i, 4 * sizeof *all);
    qsort(all, (size_t)grams, 4 * sizeof *all, compare_grams);
    for (int64_t i = 1; i < grams; i++)
        different += compare_grams(all + 4 * i, all + 4 * (i - 1)) != 0;
    mem_free(all);
    *out = (double)different / (double)grams;
    return B2_OK;
}

static uint32_t hash4(const uint8_t *p)
{
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                 (uint32_t)p[3] << 24;

    return v * 2654435761u >> (32 - HASH_BITS);
}

/* Length of the longest match for position i among earlier ones of the same hash. */
static size_t longest(const uint8_t *t, size_t i, size_t n, const int64_t *prev,
                      int64_t at)
{
    size_t best = 0, most = n - i < LZ_MAX ? n - i : LZ_MAX;

    for (; at >= 0 && i - (size_t)at < LZ_WINDOW; at = prev[at]) {
        size_t k = 0;
        while (k < most && t[(size_t)at + k] == t[i + k])
            k++;
        if (k > best)
            best = k;
    }
    return best >= LZ_MIN ? best : 0;
}

/* Makes position i findable. */
static void remember(int64_t *head, int64_t *prev, const uint8_t *t, size_t i, size_t n)
{
    if (i + LZ_MIN > n)
        return;
    uint32_t h = hash4(t + i);
    prev[i] = head[h];
    head[h] = (int64_t)i;
}

static enum b2_status compress(double *out, const char *text, size_t n,
                               struct b2_err *err)
{
    const uint8_t *t = (const uint8_t *)text;
    int64_t *head = mem_calloc((size_t)1 << HASH_BITS, sizeof *head);
    int64_t *prev = mem_calloc(n + 1, sizeof *prev);
    size_t cost = 0, step;

    if (!head || !prev) {
        mem_free(head);
        mem_free(prev);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < (size_t)1 << HASH_BITS; i++)
        head[i] = -1;
    for (size_t i = 0; i < n; i += step) {
        size_t match =
            i + LZ_MIN <= n ? longest(t, i, n, prev, head[hash4(t + i)]) : 0;
        step = match > 0 ? match : 1;
        cost += match > 0 ? LZ_COST : 1;
        for (size_t k = 0; k < step; k++)
            remember(head, prev, t, i + k, n);
    }
    mem_free(head);
    mem_free(prev);
    *out = cost > 0 ? (double)n / (double)cost : 1.0;
    return B2_OK;
}

enum b2_status loops_measure(struct loops_answer *out, const int32_t *ids, int64_t n,
                             const char *text, size_t n_bytes, bool limit,
                             struct b2_err *err)
{
    enum b2_status rc;

    *out = (struct loops_answer){.n_tokens = n, .limit = limit};
    find_cycle(out, ids, n);
    rc = count_grams(&out->distinct4, ids, n, err);
    return rc ? rc : compress(&out->compression, text, n_bytes, err);
}
