/*
 * vec.c - kernels, or the same in plain C.
 */
#include "train/vec.h"

#include "kernel/kernel.h"

enum { LANES = 16 };

static real plain_softmax(real *p, int64_t n, real by, real *top)
{
    real lane[LANES] = {0}, best = p[0] * by, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        p[i] *= by;
        best = p[i] > best ? p[i] : best;
    }
    for (int64_t i = 0; i < n; i++)
        p[i] = r_exp(p[i] - best);
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += p[i];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    *top = best;
    return sum;
}

#ifdef TRAIN_F64
real vec_softmax(const struct env *e, real *p, int64_t n, real by, real *top)
{
    (void)e;
    return plain_softmax(p, n, by, top);
}

void vec_scale(const struct env *e, real *p, int64_t n, real by)
{
    (void)e;
    for (int64_t i = 0; i < n; i++)
        p[i] *= by;
}

bool vec_glu(const struct env *e, enum glu_kind kind, real *y, const real *gate,
             const real *up, int64_t n)
{
    (void)e, (void)kind, (void)y, (void)gate, (void)up, (void)n;
    return false;
}

bool vec_sigmoid(const struct env *e, real *y, const real *x, int64_t n)
{
    (void)e, (void)y, (void)x, (void)n;
    return false;
}
#else
real vec_softmax(const struct env *e, real *p, int64_t n, real by, real *top)
{
    return e->k ? e->k->softmax(p, n, by, top) : plain_softmax(p, n, by, top);
}

void vec_scale(const struct env *e, real *p, int64_t n, real by)
{
    if (e->k) {
        e->k->scale(p, n, by);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        p[i] *= by;
}

bool vec_glu(const struct env *e, enum glu_kind kind, real *y, const real *gate,
             const real *up, int64_t n)
{
    if (!e->k)
        return false;
    if (kind == GLU_SILU)
        e->k->silu_mul(y, gate, up, n);
    else if (kind == GLU_GELU)
        e->k->gelu_mul(y, gate, up, n);
    else
        e->k->relu2_mul(y, gate, up, n);
    return true;
}

bool vec_sigmoid(const struct env *e, real *y, const real *x, int64_t n)
{
    if (!e->k)
        return false;
    for (int64_t i = 0; i < n; i++)
        y[i] = 1;
    e->k->sigmoid_mul(y, x, y, n);
    return true;
}
#endif
