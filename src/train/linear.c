/*
 * linear.c - products with a weight matrix and their gradients.
 */
#include "train/linear.h"

#include "base/pool.h"

enum { ROWS = 64, COLS = 64 }; /* of a piece of work */

struct rows {
    real *to;
    const real *from;
    int64_t n, d;
};

static void add_bias(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct rows *r = ctx;

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        for (int64_t i = 0; i < r->d; i++)
            r->to[t * r->d + i] += r->from[i];
}

void linear_forward(const struct env *e, real *y, const struct linear *l, const real *x,
                    int64_t n)
{
    mm_bf16(e, y, l->rows, (struct mm_size){n, l->rows, l->cols},
            (struct mat){x, l->cols, false}, (struct mat){l->w, l->cols, true},
            (struct mm_how){1, false});
    if (l->b)
        pool_run(e->pool, add_bias, &(struct rows){y, l->b, n, l->rows}, n, ROWS);
}

void linear_backward_x(const struct env *e, real *dx, const struct linear *l,
                       const real *dy, int64_t n, bool add)
{
    mm_bf16(e, dx, l->cols, (struct mm_size){n, l->cols, l->rows},
            (struct mat){dy, l->rows, false}, (struct mat){l->w, l->cols, false},
            (struct mm_how){1, add});
}

/* Each piece has columns of its own and takes the rows in order. */
static void add_columns(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct rows *r = ctx;

    (void)thread;
    for (int64_t t = 0; t < r->n; t++)
        for (int64_t i = begin; i < end; i++)
            r->to[i] += r->from[t * r->d + i];
}

void add_rows(const struct env *e, real *sum, const real *x, int64_t n, int64_t d)
{
    pool_run(e->pool, add_columns, &(struct rows){sum, x, n, d}, d, COLS);
}

void linear_backward_w(const struct env *e, const struct linear_grad *g,
                       const struct linear *l, const real *dy, const real *x, int64_t n)
{
    if (g->w)
        mm_bf16(e, g->w, l->cols, (struct mm_size){l->rows, l->cols, n},
                (struct mat){dy, l->rows, true}, (struct mat){x, l->cols, false},
                (struct mm_how){1, true});
    if (g->b)
        add_rows(e, g->b, dy, n, l->rows);
}
