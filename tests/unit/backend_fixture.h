/*
 * backend_fixture.h - what the tests of the CPU backend share: backends of every kind,
 * weights of every type.
 */
#ifndef TESTS_BACKEND_FIXTURE_H
#define TESTS_BACKEND_FIXTURE_H

#include "backend/backend.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/f16.h"
#include "tensor/quant.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One way to run: the results of all of them must have the same bits. */
struct variant {
    bool avx2;
    int threads;
};

static const struct variant variants[] = {
    {false, 1}, {true, 1}, {true, 2}, {true, 7}, {false, 2},
};

struct fixture {
    struct pool *pool;
    struct backend *be;
    struct act *a;
};

/* Allocation may fail under the out-of-memory twin of a test: an assertion, no crash. */
static inline struct fixture fixture_open(struct variant v, bool exact, int64_t tokens,
                                          int64_t width)
{
    struct fixture f = {.pool = pool_new(v.threads)};
    struct backend_config cfg = {
        .pool = f.pool, .cpu = v.avx2 ? cpu_features() : 0, .exact = exact};

    assert_non_null(f.pool);
    assert_int_equal(backend_cpu_new(&f.be, &cfg, NULL), B2_OK);
    assert_int_equal(act_new(&f.a, f.be, tokens, width, NULL), B2_OK);
    return f;
}

static inline void fixture_close(struct fixture *f)
{
    act_free(f->be, f->a);
    backend_free(f->be);
    pool_free(f->pool);
}

static inline float *random_floats(struct rng *r, int64_t n)
{
    float *x = mem_calloc((size_t)n, sizeof *x);

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(r);
    return x;
}

/* Places of the FP16 fields of the types that quant_encode_row() does not write. */
static inline int scale_fields(enum dtype t, int at[2])
{
    switch (t) {
    case DT_Q2_K:
        at[0] = 80, at[1] = 82;
        return 2;
    case DT_Q3_K:
        at[0] = 108;
        return 1;
    case DT_Q4_K:
    case DT_Q5_K:
        at[0] = 0, at[1] = 2;
        return 2;
    case DT_Q6_K:
        at[0] = 208;
        return 1;
    default:
        return 0;
    }
}

/* A random weight [rows, cols]; its data is owned and freed by mem_free. */
static inline struct weight random_weight(struct rng *r, enum dtype t, int64_t rows,
                                          int64_t cols)
{
    struct weight w = {
        .name = "w", .type = t, .cols = cols, .rows = rows, .scale = 0.5f};
    const struct dtype_info *info = dtype_info(t);
    uint8_t *data;

    assert_int_equal(dtype_row_bytes(&w.row_bytes, t, (uint64_t)cols, NULL), B2_OK);
    w.data = data = mem_calloc((size_t)rows, (size_t)w.row_bytes);
    assert_non_null(data);
    for (int64_t i = 0; i < rows; i++) {
        uint8_t *row = data + (uint64_t)i * w.row_bytes;
        if (info->flags & DTF_WRITE) {
            float *x = random_floats(r, cols);
            quant_encode_row(t, row, x, cols);
            mem_free(x);
            continue;
        }
        int at[2];
        for (uint64_t b = 0; b < w.row_bytes; b++)
            row[b] = (uint8_t)rng_u64(r);
        for (int k = scale_fields(t, at) - 1; k >= 0; k--)
            for (int64_t b = 0; b < cols / info->block; b++) {
                uint16_t h = f16_from_f32((float)rng_normal(r) * 0.01f);
                memcpy(row + b * info->bytes + at[k], &h, sizeof h);
            }
    }
    return w;
}

static inline void free_weight(struct weight *w)
{
    union {
        const uint8_t *borrowed;
        void *owned;
    } data = {w->data};

    mem_free(data.owned);
}

static inline void set_act(struct act *a, const float *x, int64_t tokens, int64_t width)
{
    memcpy(a->x, x, (size_t)(tokens * width) * sizeof *x);
    act_changed(a, tokens, width);
}

#endif
