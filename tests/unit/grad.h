/*
 * grad.h - what the checks of gradients against differences share. All in F64.
 */
#ifndef UNIT_GRAD_H
#define UNIT_GRAD_H

#include "base/mem.h"
#include "base/rng.h"
#include "unit/unit.h"

#include <math.h>

enum { PROBES = 60 };

static inline double *randoms(int64_t n, double size, uint64_t seed)
{
    struct rng r = rng_make(seed);
    double *v = mem_calloc((size_t)n, sizeof *v);

    for (int64_t i = 0; i < n; i++)
        v[i] = size * rng_normal(&r);
    return v;
}

static inline double *zeros(int64_t n)
{
    return mem_calloc((size_t)n, sizeof(double));
}

static inline double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Compares grad [n] with differences of loss() when x [n] moves, at spread places. */
static inline void check(const char *what, double (*loss)(void *), void *ctx, double *x,
                         const double *grad, int64_t n)
{
    const double step = 1e-5;
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(grad[i]));
    for (int k = 0; k < PROBES && k < n; k++) {
        int64_t i = n <= PROBES ? k : (k * 7919) % n;
        double was = x[i];
        x[i] = was + step;
        double up = loss(ctx);
        x[i] = was - step;
        double down = loss(ctx);
        x[i] = was;
        double want = (up - down) / (2 * step);
        if (!(fabs(grad[i] - want) <= 1e-4 * fabs(want) + 1e-8 * largest + 1e-12))
            fail_msg("%s[%d]: gradient %.9g, difference %.9g", what, (int)i, grad[i],
                     want);
    }
    if (largest == 0.0)
        fail_msg("%s: the gradient is zero everywhere", what);
}

#endif
