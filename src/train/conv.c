/*
 * conv.c - a few taps over time and their gradients. Sums over taps run from the oldest,
 * as the runtime's.
 */
#include "train/conv.h"

#include "base/pool.h"

enum { ROWS = 8, COLS = 256 };

struct job {
    const struct conv *c;
    const struct conv_grad *g;
    const real *u;
    real *y; /* or dy */
};

static int64_t first_of(const struct conv *c, int64_t t)
{
    return c->first ? c->first[t] : 0;
}

/* The oldest tap that token t has something for. */
static int64_t oldest_tap(const struct conv *c, int64_t t)
{
    return max_i64(0, c->taps - 1 - (t % c->ctx - first_of(c, t)));
}

/* Channels [at, at + n) of the sum at token t. */
static void sum_taps(const struct job *j, real *sum, int64_t t, int64_t at, int64_t n)
{
    const struct conv *c = j->c;

    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t k = oldest_tap(c, t); k < c->taps; k++) {
        const real *w = c->w + k * c->channels + at;
        const real *u = j->u + (t - (c->taps - 1) + k) * c->channels + at;
        for (int64_t i = 0; i < n; i++)
            sum[i] += u[i] * w[i];
    }
}

static void forward_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t all = j->c->channels;
    real sum[COLS];

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        for (int64_t at = 0; at < all; at += COLS) {
            const int64_t n = min_i64(COLS, all - at);
            real *y = j->y + t * all + at;
            sum_taps(j, sum, t, at, n);
            for (int64_t i = 0; i < n; i++)
                y[i] = sum[i] * r_sigmoid(sum[i]);
        }
}

void conv_forward(const struct env *e, real *y, const struct conv *c, const real *u)
{
    pool_run(e->pool, forward_rows, &(struct job){.c = c, .u = u, .y = y},
             c->n_seqs * c->ctx, ROWS);
}

static void back_silu(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t all = j->c->channels;
    real sum[COLS];

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        for (int64_t at = 0; at < all; at += COLS) {
            const int64_t n = min_i64(COLS, all - at);
            real *dy = j->y + t * all + at;
            sum_taps(j, sum, t, at, n);
            for (int64_t i = 0; i < n; i++) {
                const real s = r_sigmoid(sum[i]);
                dy[i] *= s * (1 + sum[i] * (1 - s));
            }
        }
}

/* What token t gave to itself and to those behind it. */
static void back_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct conv *c = j->c;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        const int64_t place = t % c->ctx;
        real *du = j->g->du + t * c->channels;
        memset(du, 0, (size_t)c->channels * sizeof *du);
        for (int64_t k = 0; k < c->taps; k++) {
            const int64_t later = c->taps - 1 - k;
            const real *w = c->w + k * c->channels;
            const real *dc = j->y + (t + later) * c->channels;
            if (place + later >= c->ctx || first_of(c, t + later) > place)
                continue;
            for (int64_t i = 0; i < c->channels; i++)
                du[i] += w[i] * dc[i];
        }
    }
}

/* Each piece has channels of its own and takes the tokens in order. */
static void back_taps(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct conv *c = j->c;

    (void)thread;
    for (int64_t t = 0; t < c->n_seqs * c->ctx; t++)
        for (int64_t k = oldest_tap(c, t); k < c->taps; k++) {
            const real *u = j->u + (t - (c->taps - 1) + k) * c->channels;
            const real *dc = j->y + t * c->channels;
            real *dw = j->g->dw + k * c->channels;
            for (int64_t i = begin; i < end; i++)
                dw[i] += dc[i] * u[i];
        }
}

void conv_backward(const struct env *e, const struct conv_grad *g, const struct conv *c,
                   real *dy, const real *u)
{
    struct job j = {c, g, u, dy};

    pool_run(e->pool, back_silu, &j, c->n_seqs * c->ctx, ROWS);
    pool_run(e->pool, back_rows, &j, c->n_seqs * c->ctx, ROWS);
    if (g->dw)
        pool_run(e->pool, back_taps, &j, c->channels, COLS);
}
