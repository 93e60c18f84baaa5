/*
 * loops.c - cycles, 4-grams and zlib.
 */
#include "eval/loops.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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

static enum b2_status compression_of(double *out, const char *text, size_t n,
                                     struct b2_err *err)
{
    uLongf packed = compressBound((uLong)n);
    Bytef *room = mem_calloc(packed, 1);
    int code = room ? compress2(room, &packed, (const Bytef *)text, (uLong)n,
                                Z_DEFAULT_COMPRESSION)
                    : Z_MEM_ERROR;

    mem_free(room);
    if (code != Z_OK)
        return err_set(err, B2_ENOMEM, "out of memory");
    *out = (double)n / (double)packed;
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
    return rc ? rc : compression_of(&out->compression, text, n_bytes, err);
}
