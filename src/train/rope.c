/*
 * rope.c - pairs of a head turned by their position's angle.
 */
#include "train/rope.h"

enum { ROWS = 32 };

void rope_fill(real *cos_out, real *sin_out, const float *freq, float mscale,
               int64_t n_pos, int64_t n_rot)
{
    const int64_t half = n_rot / 2;

    for (int64_t p = 0; p < n_pos; p++) {
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)((float)p * freq[i]); /* in F32, as the runtime */
            cos_out[p * half + i] = (real)(cos(angle) * (double)mscale);
            sin_out[p * half + i] = (real)(sin(angle) * (double)mscale);
        }
    }
}

struct job {
    real *x;
    const struct rope *r;
    const int32_t *pos;
    int64_t n_heads;
    real sign;
};

static void turn_head(real *x, const struct rope *r, const real *c, const real *s,
                      real sign)
{
    const int64_t half = r->n_rot / 2;
    const int64_t step = r->kind == ROPE_NEOX ? 1 : 2;
    const int64_t apart = r->kind == ROPE_NEOX ? half : 1;

    for (int64_t i = 0; i < half; i++) {
        real a = x[i * step], b = x[i * step + apart], si = sign * s[i];
        x[i * step] = a * c[i] - b * si;
        x[i * step + apart] = a * si + b * c[i];
    }
}

static void turn_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const int64_t half = j->r->n_rot / 2, d = j->r->head_dim;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        const real *c = j->r->cos + j->pos[t] * half, *s = j->r->sin + j->pos[t] * half;
        for (int64_t h = 0; h < j->n_heads; h++)
            turn_head(j->x + (t * j->n_heads + h) * d, j->r, c, s, j->sign);
    }
}

void rope_turn(const struct env *e, real *x, const struct rope *r, const int32_t *pos,
               int64_t n, int64_t n_heads)
{
    pool_run(e->pool, turn_rows, &(struct job){x, r, pos, n_heads, 1}, n, ROWS);
}

void rope_turn_back(const struct env *e, real *dx, const struct rope *r,
                    const int32_t *pos, int64_t n, int64_t n_heads)
{
    pool_run(e->pool, turn_rows, &(struct job){dx, r, pos, n_heads, -1}, n, ROWS);
}
