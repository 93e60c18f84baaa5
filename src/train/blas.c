/*
 * blas.c - the functions of OpenBLAS that are used, found by name.
 */
#include "train/blas.h"

#include "base/dynlib.h"
#include "base/mem.h"
#include "base/memory.h"
#include "base/pool.h"

#include <stdatomic.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta,
                      float *c, int ldc);
/* LAPACK, by reference and column-major: what is upper here is lower there. */
typedef void potrf_fn(const char *uplo, const int *n, double *a, const int *lda,
                      int *info);
typedef void potrs_fn(const char *uplo, const int *n, const int *n_rhs, const double *a,
                      const int *lda, double *x, const int *ldx, int *info);
typedef void threads_fn(int n);
typedef char *core_fn(void);

struct blas {
    struct dynlib *lib;
    sgemm_fn *sgemm;
    potrf_fn *dpotrf, *dpotri;
    potrs_fn *dpotrs;
    const char *core;
};

enum b2_status blas_open(struct blas **out, struct b2_err *err)
{
    static const char missing[] =
        "error compensation needs OpenBLAS (Debian: libopenblas0); without it there is "
        "--effort fast";
    static atomic_flag allowed = ATOMIC_FLAG_INIT;
    struct blas *b = mem_calloc(1, sizeof *b);

    if (!b)
        return err_set(err, B2_ENOMEM, "out of memory");
    if (dynlib_open(&b->lib, "libopenblas.so.0", NULL)) {
        blas_close(b);
        return err_set(err, B2_ENOTFOUND, "%s", missing);
    }
    threads_fn *set_threads =
        (threads_fn *)dynlib_find(b->lib, "openblas_set_num_threads");
    core_fn *core = (core_fn *)dynlib_find(b->lib, "openblas_get_corename");
    b->sgemm = (sgemm_fn *)dynlib_find(b->lib, "cblas_sgemm");
    b->dpotrf = (potrf_fn *)dynlib_find(b->lib, "dpotrf_");
    b->dpotri = (potrf_fn *)dynlib_find(b->lib, "dpotri_");
    b->dpotrs = (potrs_fn *)dynlib_find(b->lib, "dpotrs_");
    if (!set_threads || !b->sgemm || !b->dpotrf || !b->dpotri || !b->dpotrs) {
        blas_close(b);
        return err_set(err, B2_ENOTFOUND, "%s (the one here lacks functions)", missing);
    }
    set_threads(1);
    /* It maps 128 MB for every thread that calls it, of which a few are used. */
    if (!atomic_flag_test_and_set(&allowed))
        memory_allow_unused((uint64_t)(pool_default_threads(NULL, 0) + 1) << 27);
    b->core = core ? core() : "unknown";
    *out = b;
    return B2_OK;
}

/* The library stays loaded: it leaves threads behind that would run into nothing. */
void blas_close(struct blas *b)
{
    mem_free(b);
}

const char *blas_core(const struct blas *b)
{
    return b->core;
}

void blas_gemm(const struct blas *b, float *c, int64_t ldc, struct blas_size size,
               struct blas_mat x, struct blas_mat y, float alpha, float beta)
{
    if (size.m > 0 && size.n > 0)
        b->sgemm(ROW_MAJOR, x.t ? TRANS : NO_TRANS, y.t ? TRANS : NO_TRANS, (int)size.m,
                 (int)size.n, (int)size.k, alpha, x.p, (int)x.ld, y.p, (int)y.ld, beta,
                 c, (int)ldc);
}

bool blas_cholesky(const struct blas *b, double *a, int64_t n)
{
    int size = (int)n, info = 0;

    b->dpotrf("L", &size, a, &size, &info);
    return info == 0;
}

bool blas_cholesky_invert(const struct blas *b, double *r, int64_t n)
{
    int size = (int)n, info = 0;

    b->dpotri("L", &size, r, &size, &info);
    return info == 0;
}

bool blas_cholesky_solve(const struct blas *b, const double *r, int64_t n, double *x,
                         int64_t n_rhs)
{
    int size = (int)n, rhs = (int)n_rhs, info = 0;

    b->dpotrs("L", &size, &rhs, r, &size, x, &size, &info);
    return info == 0;
}
