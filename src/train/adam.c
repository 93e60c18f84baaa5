/*
 * adam.c - one step for many numbers, each on its own.
 */
#include "train/adam.h"

#include "base/pool.h"

enum { CHUNK = 1 << 14 };

static const double pi = 3.14159265358979323846;
static const double wsd_fall = 0.3; /* share of the steps that fall, METHODS' 70/30 */

struct job {
    const struct param *p;
    real beta1, beta2, fix1, fix2; /* fix: 1 / (1 - beta^step) */
    real eps, shrink, rate, clip;
    double *parts;
};

static void step_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    real *p = j->p->p, *g = j->p->g, *m = j->p->m, *v = j->p->v;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        real x = g[i] * j->clip;
        m[i] = j->beta1 * m[i] + (1 - j->beta1) * x;
        v[i] = j->beta2 * v[i] + (1 - j->beta2) * x * x;
        p[i] = p[i] * j->shrink -
               j->rate * (m[i] * j->fix1) / (r_sqrt(v[i] * j->fix2) + j->eps);
        g[i] = 0;
    }
}

void adam_step(const struct env *e, const struct adam *a, const struct param *p,
               real share, real clip)
{
    const double n = (double)a->step;
    struct job j = {.p = p,
                    .beta1 = a->beta1,
                    .beta2 = a->beta2,
                    .fix1 = (real)(1 / (1 - pow((double)a->beta1, n))),
                    .fix2 = (real)(1 / (1 - pow((double)a->beta2, n))),
                    .eps = a->eps,
                    .rate = p->rate * share,
                    .clip = clip};

    j.shrink = 1 - j.rate * a->decay;
    if (p->rate > 0)
        pool_run(e->pool, step_part, &j, p->n, CHUNK);
    else
        memset(p->g, 0, (size_t)p->n * sizeof *p->g);
}

int64_t adam_parts(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static void norm_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    double sum = 0;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        sum += (double)j->p->g[i] * (double)j->p->g[i];
    j->parts[begin / CHUNK] = sum;
}

double adam_norm2(const struct env *e, const struct param *p, double *parts)
{
    struct job j = {.p = p, .parts = parts};
    double sum = 0;

    pool_run(e->pool, norm_part, &j, p->n, CHUNK);
    for (int64_t i = 0; i < adam_parts(p->n); i++)
        sum += parts[i];
    return sum;
}

double schedule_at(const struct schedule *s, int64_t step)
{
    if (step <= s->warmup)
        return (double)step / (double)s->warmup;
    if (step >= s->total)
        return s->floor;
    double at = (double)(step - s->warmup) / (double)(s->total - s->warmup);
    if (s->kind == SCHEDULE_WSD) {
        double fall = (at - (1 - wsd_fall)) / wsd_fall;
        return fall <= 0 ? 1 : 1 - (1 - s->floor) * fall;
    }
    return s->floor + (1 - s->floor) * (1 + cos(pi * at)) / 2;
}
