/*
 * norm.c - RMS norm and its gradients. Sums keep LANES partial sums, added in order at the
 * end: compilers make that wide, and it is more exact than one running sum.
 */
#include "train/norm.h"

#include "base/pool.h"

enum { ROWS = 16, COLS = 64, LANES = 16 };

struct job {
    const struct norm *w;
    const struct norm_grad *g;
    const real *x, *dy;
    real *y;
    int64_t n;
};

static real add_lanes(const real *lane)
{
    real sum = 0;

    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

static real inv_rms(const struct norm *w, const real *x)
{
    real lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= w->d; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] * x[i + j];
    for (; i < w->d; i++)
        lane[i % LANES] += x[i] * x[i];
    return 1 / r_sqrt(add_lanes(lane) / (real)w->d + w->eps);
}

/* sum of g dy x */
static real dot3(const struct norm *w, const real *dy, const real *x)
{
    real lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= w->d; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += w->gain[i + j] * dy[i + j] * x[i + j];
    for (; i < w->d; i++)
        lane[i % LANES] += w->gain[i] * dy[i] * x[i];
    return add_lanes(lane);
}

static void forward_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t d = j->w->d;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        const real *x = j->x + t * d;
        real *y = j->y + t * d, r = inv_rms(j->w, x);
        for (int64_t i = 0; i < d; i++)
            y[i] = x[i] * r * j->w->gain[i];
    }
}

void norm_forward(const struct env *e, real *y, const struct norm *w, const real *x,
                  int64_t n)
{
    pool_run(e->pool, forward_rows, &(struct job){.w = w, .x = x, .y = y, .n = n}, n,
             ROWS);
}

static void find_inv(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        j->g->inv[t] = inv_rms(j->w, j->x + t * j->w->d);
}

static void backward_gain(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t d = j->w->d;

    (void)thread;
    for (int64_t t = 0; t < j->n; t++)
        for (int64_t i = begin; i < end; i++)
            j->g->dgain[i] += j->dy[t * d + i] * j->x[t * d + i] * j->g->inv[t];
}

static void backward_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t d = j->w->d;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        const real *x = j->x + t * d, *dy = j->dy + t * d;
        real r = j->g->inv[t], *dx = j->g->dx + t * d;
        real back = dot3(j->w, dy, x) * r * r / (real)d;
        for (int64_t i = 0; i < d; i++)
            dx[i] = r * (j->w->gain[i] * dy[i] - x[i] * back);
    }
}

void norm_backward(const struct env *e, const struct norm_grad *g, const struct norm *w,
                   const real *dy, const real *x, int64_t n)
{
    struct job j = {.w = w, .g = g, .x = x, .dy = dy, .n = n};

    pool_run(e->pool, find_inv, &j, n, ROWS);
    if (g->dgain) /* first: dx may lie on dy */
        pool_run(e->pool, backward_gain, &j, w->d, COLS);
    pool_run(e->pool, backward_rows, &j, n, ROWS);
}
