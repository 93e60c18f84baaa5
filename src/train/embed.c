/*
 * embed.c - rows of a table, and their gradients.
 */
#include "train/embed.h"

#include "base/pool.h"

enum { ROWS = 64, COLS = 64 };

struct job {
    const struct embed *w;
    real *to;
    const real *dx;
    const int32_t *ids;
    int64_t n;
};

static void look_up(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t d = j->w->d;

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        for (int64_t i = 0; i < d; i++)
            j->to[t * d + i] = j->w->table[j->ids[t] * d + i] * j->w->scale;
}

void embed_forward(const struct env *e, real *x, const struct embed *w,
                   const int32_t *ids, int64_t n)
{
    struct job j = {.w = w, .to = x, .ids = ids, .n = n};

    pool_run(e->pool, look_up, &j, n, ROWS);
}

/* Each piece has columns of its own: two tokens may be the same. */
static void scatter(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t d = j->w->d;

    (void)thread;
    for (int64_t t = 0; t < j->n; t++)
        for (int64_t i = begin; i < end; i++)
            j->to[j->ids[t] * d + i] += j->dx[t * d + i] * j->w->scale;
}

void embed_backward(const struct env *e, real *dtable, const struct embed *w,
                    const real *dx, const int32_t *ids, int64_t n)
{
    struct job j = {.w = w, .to = dtable, .dx = dx, .ids = ids, .n = n};

    pool_run(e->pool, scatter, &j, w->d, COLS);
}
