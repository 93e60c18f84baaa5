/*
 * blas.h - matrix products and factorisations of OpenBLAS, one thread a call.
 *
 * OpenBLAS is loaded when it is needed, so that nothing else of the program depends on
 * it. Calls may come from several threads at once; each runs alone, on the caller. The
 * same call gives the same bits on one processor; another one may take other kernels
 * (blas_core() names them).
 *
 * Matrices are row-major; ld is the distance between rows.
 */
#ifndef TRAIN_BLAS_H
#define TRAIN_BLAS_H

#include "base/error.h"

struct blas;

/* B2_ENOTFOUND: not installed; the message has the package's name. */
enum b2_status blas_open(struct blas **out, struct b2_err *err) NODISCARD;
void blas_close(struct blas *b); /* NULL is fine */
const char *blas_core(const struct blas *b);

/* An operand: p [rows, cols], read as its transpose when t. */
struct blas_mat {
    const float *p;
    int64_t ld;
    bool t;
};

/* c [m, n] = alpha a [m, k] b [k, n] + beta c. Empty sizes are fine. */
struct blas_size {
    int64_t m, n, k;
};
void blas_gemm(const struct blas *b, float *c, int64_t ldc, struct blas_size size,
               struct blas_mat x, struct blas_mat y, float alpha, float beta);

/* a [n, n] symmetric positive definite, whole. On success the upper triangle holds R with
 * a = Rᵀ R; the lower one is as it was. False: not positive definite. */
bool blas_cholesky(const struct blas *b, double *a, int64_t n);
/* From R as above: the upper triangle becomes that of the inverse of a. */
bool blas_cholesky_invert(const struct blas *b, double *r, int64_t n);
/* From R: solves a x = y for n_rhs right sides, the rows of x [n_rhs, n] in place. */
bool blas_cholesky_solve(const struct blas *b, const double *r, int64_t n, double *x,
                         int64_t n_rhs);

#endif
