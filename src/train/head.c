/*
 * head.c - logits of some tokens, their losses and gradients, and on to the next.
 */
#include "train/head.h"

#include "base/pool.h"
#include "train/vec.h"

enum { BLOCK = 128, SLICE = 4096, ROWS = 64, LANES = 16 };

int64_t head_scratch(const struct head_loss *l, int threads)
{
    int64_t d = max_i64(l->student.d, l->teacher.d);

    /* logits of both, two rows for each thread, a slice of W */
    return 2 * (BLOCK + threads) * l->student.vocab + SLICE * d;
}

struct job {
    const struct env *e;
    const struct head_loss *l;
    const struct head_io *io;
    int64_t begin, n; /* tokens of the block */
    real *s, *t;      /* [n, vocab] logits; s becomes its gradient */
    real *row;        /* [threads, 2, vocab] */
    real *slice;      /* [SLICE, d] */
    double kl[BLOCK], ce[BLOCK];
    bool same[BLOCK];
};

struct decode {
    const struct head *h;
    real *dst;
    int64_t begin;
};

static void decode_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct decode *d = ctx;

    (void)thread;
    d->h->rows(d->h->ctx, d->dst + begin * d->h->d, d->begin + begin, d->begin + end);
}

static const real *rows_of(const struct env *e, const struct head *h, real *slice,
                           int64_t begin, int64_t end)
{
    if (h->w)
        return h->w + begin * h->d;
    pool_run(e->pool, decode_rows, &(struct decode){h, slice, begin}, end - begin,
             ROWS);
    return slice;
}

static void logits(const struct env *e, const struct head *h, real *y, const real *x,
                   const real *w, struct mm_size at)
{
    mm_bf16(e, y + at.k, h->vocab, (struct mm_size){at.m, at.n, h->d},
            (struct mat){x, h->d, false}, (struct mat){w, h->d, true},
            (struct mm_how){1, false});
}

static void all_logits(const struct env *e, struct job *j)
{
    const struct head *s = &j->l->student, *t = &j->l->teacher;
    const real *hs = j->io->hs + j->begin * s->d, *ht = j->io->ht;

    for (int64_t v = 0; v < s->vocab; v += SLICE) {
        int64_t end = min_i64(v + SLICE, s->vocab);
        const struct mm_size at = {j->n, end - v, v};
        const real *w = rows_of(e, s, j->slice, v, end);
        logits(e, s, j->s, hs, w, at);
        if (ht && !j->l->shared)
            w = rows_of(e, t, j->slice, v, end);
        if (ht)
            logits(e, t, j->t, ht + j->begin * t->d, w, at);
    }
}

/* out = softmax(y by); returns the logarithm of the sum of all exp(y by). */
static real softmax(const struct env *e, real *out, const real *y, int64_t n, real by)
{
    real top;

    memcpy(out, y, (size_t)n * sizeof *y);
    const real sum = vec_softmax(e, out, n, by, &top);
    vec_scale(e, out, n, 1 / sum);
    return top + (real)log((double)sum);
}

/* The first of the largest. */
static int64_t best_of(const real *y, int64_t n)
{
    real lane[LANES], top;
    int64_t i = 0, at = 0;

    for (int k = 0; k < LANES; k++)
        lane[k] = y[0];
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = y[i + k] > lane[k] ? y[i + k] : lane[k];
    for (; i < n; i++)
        lane[0] = y[i] > lane[0] ? y[i] : lane[0];
    top = lane[0];
    for (int k = 1; k < LANES; k++)
        top = lane[k] > top ? lane[k] : top;
    while (at + 1 < n && y[at] != top)
        at++;
    return at;
}

static void soft_cap(real *y, int64_t n, real cap)
{
    for (int64_t i = 0; cap > 0 && i < n; i++)
        y[i] = cap * r_tanh(y[i] / cap);
}

/* sum of p_t (ln p_t - ln p_s), ln p_t - ln p_s = (y_t - y_s) by + shift */
static double divergence(const real *yt, const real *ys, const real *pt, int64_t n,
                         real by, real shift)
{
    real lane[LANES] = {0};
    double sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += pt[i + k] * ((yt[i + k] - ys[i + k]) * by + shift);
    for (; i < n; i++)
        lane[i % LANES] += pt[i] * ((yt[i] - ys[i]) * by + shift);
    for (int k = 0; k < LANES; k++)
        sum += (double)lane[k];
    return sum;
}

/* One token's losses. g gets the gradient of the student's logits, ps is scratch. */
static void one_token(struct job *j, int64_t i, real *g, real *ps)
{
    const struct head_loss *l = j->l;
    const int64_t n = l->student.vocab, token = j->begin + i;
    const real by = 1 / l->temperature, cap = l->student.softcap;
    const real wk = j->io->weight * l->kl * l->temperature;
    const real wc = j->io->weight * l->ce;
    real *ys = j->s + i * n, *yt = j->t + i * n;

    soft_cap(ys, n, cap);
    if (j->io->ht)
        soft_cap(yt, n, l->teacher.softcap);
    if (j->io->row)
        j->io->row(j->io->row_ctx, token, yt, ys);
    const real log_t = softmax(j->e, g, yt, n, by);
    real log_s = softmax(j->e, ps, ys, n, by);
    j->kl[i] = divergence(yt, ys, g, n, by, log_s - log_t);
    j->same[i] = best_of(ys, n) == best_of(yt, n);
    for (int64_t k = 0; k < n; k++)
        g[k] = wk * (ps[k] - g[k]);
    j->ce[i] = 0;
    if (j->io->target && j->io->target[token] >= 0) {
        int32_t want = j->io->target[token];
        log_s = softmax(j->e, ps, ys, n, 1);
        j->ce[i] = (double)(log_s - ys[want]);
        for (int64_t k = 0; k < n; k++)
            g[k] += wc * ps[k];
        g[want] -= wc;
    }
    for (int64_t k = 0; cap > 0 && k < n; k++)
        g[k] *= 1 - ys[k] / cap * (ys[k] / cap);
    memcpy(ys, g, (size_t)n * sizeof *ys);
}

static bool counts(const struct job *j, int64_t i)
{
    return !j->io->skip || !j->io->skip[j->begin + i];
}

static void run_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct job *j = ctx;
    const int64_t n = j->l->student.vocab;
    real *row = j->row + thread * 2 * n;

    for (int64_t i = begin; i < end; i++) {
        if (counts(j, i))
            one_token(j, i, row, row + n);
        else
            memset(j->s + i * n, 0, (size_t)n * sizeof *j->s);
    }
}

static void gradients(const struct env *e, struct job *j)
{
    const struct head *s = &j->l->student;
    const struct mat x = {j->io->hs + j->begin * s->d, s->d, false};
    real *dx = j->io->dhs + j->begin * s->d;

    for (int64_t v = 0; v < s->vocab; v += SLICE) {
        int64_t end = min_i64(v + SLICE, s->vocab);
        const real *w = rows_of(e, s, j->slice, v, end);
        mm_bf16(e, dx, s->d, (struct mm_size){j->n, s->d, end - v},
                (struct mat){j->s + v, s->vocab, false}, (struct mat){w, s->d, false},
                (struct mm_how){1, v > 0});
    }
    if (j->io->dw)
        mm_bf16(e, j->io->dw, s->d, (struct mm_size){s->vocab, s->d, j->n},
                (struct mat){j->s, s->vocab, true}, x, (struct mm_how){1, true});
}

void head_run(const struct env *e, struct head_sums *sums, const struct head_loss *l,
              const struct head_io *io, int64_t n)
{
    struct job j = {.e = e, .l = l, .io = io, .s = l->scratch};

    j.t = j.s + BLOCK * l->student.vocab;
    j.row = j.t + BLOCK * l->student.vocab;
    j.slice = l->scratch + head_scratch(l, l->threads) -
              SLICE * max_i64(l->student.d, l->teacher.d);
    for (j.begin = 0; j.begin < n; j.begin += j.n) {
        j.n = min_i64(BLOCK, n - j.begin);
        all_logits(e, &j);
        pool_run(e->pool, run_tokens, &j, j.n, 1);
        for (int64_t i = 0; i < j.n; i++) {
            if (!counts(&j, i))
                continue;
            sums->kl += j.kl[i];
            sums->ce += j.ce[i];
            sums->n++;
            sums->n_ce += io->target && io->target[j.begin + i] >= 0;
            sums->same_top += j.same[i];
        }
        if (io->dhs)
            gradients(e, &j);
    }
}
