/*
 * kt.c - the kernel harness: guard pages, fills, comparison.
 */
#define _DEFAULT_SOURCE
#include "kernels/kt.h"
#include "tensor/f16.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_MESSAGES = 10, BUFFER_BYTES = 256 * 1024 };

void *kt_guarded(struct kt *t, size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *p = t->n_buffers < KT_MAX_BUFFERS ? t->buffer[t->n_buffers] : NULL;

    if (t->n_buffers < KT_MAX_BUFFERS && !p) {
        p = mmap(NULL, BUFFER_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
        if (p == MAP_FAILED || mprotect(p + page, BUFFER_BYTES, PROT_READ | PROT_WRITE))
            p = NULL;
        t->buffer[t->n_buffers] = p;
    }
    if (!p || n_bytes > BUFFER_BYTES) {
        fprintf(stderr, "kernel harness: no buffer of %zu bytes\n", n_bytes);
        abort();
    }
    t->n_buffers++;
    return t->front ? p + page : p + page + BUFFER_BYTES - n_bytes;
}

void kt_reset(struct kt *t)
{
    t->n_buffers = 0;
}

void kt_fail(struct kt *t, const char *check, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (++t->n_failed <= MAX_MESSAGES && !t->quiet)
        fprintf(stderr, "%s at level %s: %s\n", check, t->level, text);
}

static float one_value(struct kt *t, enum kt_fill fill)
{
    static const float special[] = {NAN,    INFINITY, -INFINITY, 0.0f,    -0.0f,
                                    1.0f,   -1.0f,    3.4e38f,   1e-45f,  -1e-45f,
                                    127.5f, 0.5f,     -0.5f,     65504.f, 65520.f};
    float v = (float)rng_normal(&t->rng);

    switch (fill) {
    case KT_ZERO:
        return 0.0f;
    case KT_LARGE:
        return v * 1e18f;
    case KT_TINY:
        return v * 1e-38f;
    case KT_MIXED: /* magnitudes from 2^-20 to 2^20 */
        return ldexpf(v, (int)rng_below(&t->rng, 41) - 20);
    case KT_SPECIAL:
        return rng_below(&t->rng, 4) ? v
                                     : special[rng_below(&t->rng, countof(special))];
    default:
        return v;
    }
}

void kt_fill_floats(struct kt *t, float *x, int64_t n, enum kt_fill fill)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = one_value(t, fill);
}

void kt_fill_bytes(struct kt *t, void *p, size_t n)
{
    uint8_t *b = p;

    for (size_t i = 0; i < n; i++)
        b[i] = (uint8_t)rng_u64(&t->rng);
}

int64_t kt_diff(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (f32_bits(a[i]) != f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return i;
    return -1;
}

int kt_run_all(struct kt *t)
{
    static const struct kt_check *const lists[] = {kt_dot_checks, kt_unpack_checks,
                                                   kt_float_checks};

    for (int front = 0; front < 2; front++) {
        t->front = front;
        for (size_t l = 0; l < countof(lists); l++)
            for (const struct kt_check *c = lists[l]; c->name; c++) {
                c->run(t);
                kt_reset(t);
                if (t->quiet && t->n_failed)
                    return t->n_failed;
            }
    }
    return t->n_failed;
}
