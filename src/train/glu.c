/*
 * glu.c - SwiGLU, GeGLU (tanh formula) and squared ReLU.
 */
#include "train/glu.h"

#include "train/vec.h"

enum { CHUNK = 4096, SOME = 1024 };

struct job {
    const struct env *e;
    enum glu_kind kind;
    real *gate, *up, *y;
    const real *cgate, *cup, *dy;
};

/* f and its slope at x. Both sigmoids: gelu(x) = x s(2c (x + .044715 x^3)). */
static inline real act(enum glu_kind kind, real x, real *slope)
{
    if (kind == GLU_RELU2) {
        real p = x > 0 ? x : 0;
        *slope = 2 * p;
        return p * p;
    }
    const bool gelu = kind == GLU_GELU;
    const real two_c = -(real)GELU_MINUS_2C, cube = (real)GELU_CUBE;
    const real z = gelu ? two_c * (x + cube * x * x * x) : x;
    const real dz = gelu ? two_c * (1 + 3 * cube * x * x) : 1;
    const real s = r_sigmoid(z);

    *slope = s + x * s * (1 - s) * dz;
    return x * s;
}

/* The kind is a constant in each copy, so that compilers make the loops wide. */
static inline void forward_some(enum glu_kind kind, const struct job *j, int64_t begin,
                                int64_t end)
{
    real slope;

    for (int64_t i = begin; i < end; i++)
        j->y[i] = act(kind, j->cgate[i], &slope) * j->cup[i];
}

static void forward_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    if (vec_glu(j->e, j->kind, j->y + begin, j->cgate + begin, j->cup + begin,
                end - begin))
        return;
    if (j->kind == GLU_SILU)
        forward_some(GLU_SILU, j, begin, end);
    else if (j->kind == GLU_GELU)
        forward_some(GLU_GELU, j, begin, end);
    else
        forward_some(GLU_RELU2, j, begin, end);
}

void glu_forward(const struct env *e, enum glu_kind kind, real *y, const real *gate,
                 const real *up, int64_t n)
{
    struct job j = {.e = e, .kind = kind, .y = y, .cgate = gate, .cup = up};

    pool_run(e->pool, forward_part, &j, n, CHUNK);
}

static inline void backward_some(enum glu_kind kind, const struct job *j, int64_t begin,
                                 int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        real slope, f = act(kind, j->gate[i], &slope);
        j->gate[i] = j->dy[i] * j->up[i] * slope;
        j->up[i] = j->dy[i] * f;
    }
}

/* SwiGLU, most of them, with sigmoids of a kernel. */
static bool backward_silu(const struct job *j, int64_t begin, int64_t end)
{
    real s[SOME];

    for (int64_t i = begin; i < end; i += SOME) {
        const int64_t n = min_i64(SOME, end - i);
        real *gate = j->gate + i, *up = j->up + i;
        if (!vec_sigmoid(j->e, s, gate, n))
            return false;
        for (int64_t k = 0; k < n; k++) {
            const real x = gate[k], dy = j->dy[i + k];
            gate[k] = dy * up[k] * (s[k] + x * s[k] * (1 - s[k]));
            up[k] = dy * x * s[k];
        }
    }
    return true;
}

static void backward_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    if (j->kind == GLU_SILU && backward_silu(j, begin, end))
        return;
    if (j->kind == GLU_SILU)
        backward_some(GLU_SILU, j, begin, end);
    else if (j->kind == GLU_GELU)
        backward_some(GLU_GELU, j, begin, end);
    else
        backward_some(GLU_RELU2, j, begin, end);
}

void glu_backward(const struct env *e, enum glu_kind kind, real *gate, real *up,
                  const real *dy, int64_t n)
{
    struct job j = {.e = e, .kind = kind, .gate = gate, .up = up, .dy = dy};

    pool_run(e->pool, backward_part, &j, n, CHUNK);
}
