/*
 * mm_f64.c - products for the passes compiled in F64 (train/real.h): plain loops.
 */
#include "train/mm.h"

static real at(struct mat m, int64_t r, int64_t c)
{
    return m.t ? m.p[c * m.ld + r] : m.p[r * m.ld + c];
}

void mm_one(const struct env *e, real *c, int64_t ldc, struct mm_size size,
            struct mat a, struct mat b, struct mm_how how)
{
    (void)e;
    for (int64_t i = 0; i < size.m; i++) {
        for (int64_t j = 0; j < size.n; j++) {
            real sum = 0;
            for (int64_t k = 0; k < size.k; k++)
                sum += at(a, i, k) * at(b, k, j);
            c[i * ldc + j] = how.alpha * sum + (how.add ? c[i * ldc + j] : 0);
        }
    }
}

void mm_bf16(const struct env *e, real *c, int64_t ldc, struct mm_size size,
             struct mat a, struct mat b, struct mm_how how)
{
    mm(e, c, ldc, size, a, b, how);
}
