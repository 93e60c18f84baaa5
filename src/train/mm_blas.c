/*
 * mm_blas.c - a product of F32 matrices by OpenBLAS.
 */
#include "train/blas.h"
#include "train/mm.h"

void mm_one(const struct env *e, real *c, int64_t ldc, struct mm_size size,
            struct mat a, struct mat b, struct mm_how how)
{
    blas_gemm(e->blas, c, ldc, (struct blas_size){size.m, size.n, size.k},
              (struct blas_mat){a.p, a.ld, a.t}, (struct blas_mat){b.p, b.ld, b.t},
              how.alpha, how.add ? 1.0f : 0.0f);
}
