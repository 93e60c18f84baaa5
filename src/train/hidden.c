/*
 * hidden.c - one token at a time, in blocks whose sums are added in order.
 */
#include "train/hidden.h"

#include "base/pool.h"

enum { BLOCK = 64, LANES = 16 };

static const real tiny = (real)1e-20; /* a teacher's state of all zeros */

struct job {
    const struct hidden_io *io;
    int64_t begin;
    double sum[BLOCK];
};

/* Squares of the difference, and of t in *of_t. */
static real squares(const real *s, const real *t, int64_t d, real *of_t)
{
    real a[LANES] = {0}, b[LANES] = {0}, sum = 0, sum_t = 0;
    int64_t i = 0;

    for (; i + LANES <= d; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const real x = s[i + k] - t[i + k];
            a[k] += x * x;
            b[k] += t[i + k] * t[i + k];
        }
    }
    for (; i < d; i++) {
        a[i % LANES] += (s[i] - t[i]) * (s[i] - t[i]);
        b[i % LANES] += t[i] * t[i];
    }
    for (int k = 0; k < LANES; k++) {
        sum += a[k];
        sum_t += b[k];
    }
    *of_t = sum_t;
    return sum;
}

static void run_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct job *j = ctx;
    const struct hidden_io *io = j->io;

    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        const int64_t at = (j->begin + k) * io->d;
        real of_t, sum = squares(io->s + at, io->t + at, io->d, &of_t);
        const real by = 1 / (of_t + tiny), back = 2 * io->weight * by;
        j->sum[k] = (double)sum * (double)by;
        for (int64_t i = at; io->ds && i < at + io->d; i++)
            io->ds[i] += back * (io->s[i] - io->t[i]);
    }
}

double hidden_run(const struct env *e, const struct hidden_io *io)
{
    struct job j = {.io = io};
    double sum = 0;

    for (j.begin = 0; j.begin < io->n; j.begin += BLOCK) {
        const int64_t n = min_i64(BLOCK, io->n - j.begin);
        pool_run(e->pool, run_tokens, &j, n, 4);
        for (int64_t i = 0; i < n; i++)
            sum += j.sum[i];
    }
    return sum;
}
