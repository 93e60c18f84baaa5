/*
 * gate.c - values gated by a sigmoid.
 */
#include "train/gate.h"

#include "base/pool.h"

enum { ROWS = 64, CHUNK = 1024 };

struct job {
    real *a, *b;
    const real *x, *y;
    int64_t d;
};

static void split_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const size_t bytes = (size_t)j->d * sizeof(real);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        memcpy(j->a + i * j->d, j->x + 2 * i * j->d, bytes);
        memcpy(j->b + i * j->d, j->x + (2 * i + 1) * j->d, bytes);
    }
}

void gate_split(const struct env *e, real *a, real *b, const real *x, int64_t n,
                int64_t d)
{
    pool_run(e->pool, split_rows, &(struct job){.a = a, .b = b, .x = x, .d = d}, n,
             ROWS);
}

static void join_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const size_t bytes = (size_t)j->d * sizeof(real);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        memcpy(j->a + 2 * i * j->d, j->x + i * j->d, bytes);
        memcpy(j->a + (2 * i + 1) * j->d, j->y + i * j->d, bytes);
    }
}

void gate_join(const struct env *e, real *x, const real *a, const real *b, int64_t n,
               int64_t d)
{
    pool_run(e->pool, join_rows, &(struct job){.a = x, .x = a, .y = b, .d = d}, n,
             ROWS);
}

static void forward_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        j->a[i] = j->x[i] * r_sigmoid(j->y[i]);
}

void gate_forward(const struct env *e, real *y, const real *x, const real *gate,
                  int64_t n)
{
    pool_run(e->pool, forward_part, &(struct job){.a = y, .x = x, .y = gate}, n, CHUNK);
}

static void backward_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const real s = r_sigmoid(j->y[i]);
        j->b[i] = j->a[i] * j->x[i] * s * (1 - s);
        j->a[i] *= s;
    }
}

void gate_backward(const struct env *e, real *dgate, real *dy, const real *x,
                   const real *gate, int64_t n)
{
    pool_run(e->pool, backward_part, &(struct job){dy, dgate, x, gate, 0}, n, CHUNK);
}
