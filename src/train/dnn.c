/*
 * dnn.c - the functions of oneDNN that are used, found by name.
 *
 * The product is dnnl_gemm_bf16bf16f32(): row-major, in no header of oneDNN, but exported
 * by every version from 1.0 on for those who know it. Whether it is what it was is seen
 * by small products when it is opened.
 */
#include "train/dnn.h"

#include "base/cpu.h"
#include "base/dynlib.h"
#include "base/mem.h"
#include "tensor/f16.h"

#include <math.h>
#include <stdio.h>

typedef int gemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                    const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb,
                    float beta, float *c, int64_t ldc);
typedef void threads_fn(int n);
typedef int isa_fn(void);
/* dnnl_version_t */
struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
};
typedef const struct version *version_fn(void);

enum { RUNTIME_SEQUENTIAL = 1, RUNTIME_OPENMP = 2 }; /* dnnl_config.h */
enum { ISA_AMX = 0x100 };                            /* a bit of dnnl_cpu_isa_t */
enum { ROOM = DNN_BLOCK * DNN_BLOCK };

/* What the library takes for itself, and what a thread's calls pack operands into. */
static const uint64_t library_bytes = 24u << 20, packing_bytes = 4u << 20;

struct dnn {
    struct dynlib *lib;
    gemm_fn *gemm;
    threads_fn *set_threads; /* of the calling thread; NULL: the library has none */
    uint16_t *room;          /* [2][ROOM] */
    char name[48];
};

static void fill(float *c, int64_t ldc, struct blas_size size, float with)
{
    for (int64_t i = 0; i < size.m; i++)
        for (int64_t j = 0; j < size.n; j++)
            c[i * ldc + j] = with;
}

/* One thread is set for each call: the number belongs to the thread that says it. A call
 * that fails (it has no memory) leaves no numbers, which the guard of a training sees. */
void dnn_gemm(const struct dnn *d, float *c, int64_t ldc, struct blas_size size,
              struct dnn_mat x, struct dnn_mat y, float alpha, bool add)
{
    if (size.m < 1 || size.n < 1)
        return;
    if (size.k < 1) {
        if (!add)
            fill(c, ldc, size, 0.0f);
        return;
    }
    if (d->set_threads)
        d->set_threads(1);
    if (d->gemm(x.t ? 'T' : 'N', y.t ? 'T' : 'N', size.m, size.n, size.k, alpha, x.p,
                x.ld, y.p, y.ld, add ? 1.0f : 0.0f, c, ldc) != 0)
        fill(c, ldc, size, (float)NAN);
}

uint16_t *dnn_room(const struct dnn *d, int which)
{
    return d->room + (int64_t)which * ROOM;
}

/* ---- opening ---- */

enum { TRY_M = 3, TRY_N = 5, TRY_K = 7 };

/* Small integers: they, their products and sums are exact. */
static bool is_right(const struct dnn *d, bool tx, bool ty)
{
    uint16_t x[TRY_M * TRY_K], y[TRY_K * TRY_N];
    float c[TRY_M * TRY_N];
    bool right = true;

    for (int i = 0; i < TRY_M * TRY_K; i++)
        x[i] = bf16_from_f32((float)(i * 5 % 11 - 4));
    for (int i = 0; i < TRY_K * TRY_N; i++)
        y[i] = bf16_from_f32((float)(i * 3 % 13 - 7));
    for (int i = 0; i < TRY_M * TRY_N; i++)
        c[i] = (float)i;
    dnn_gemm(d, c, TRY_N, (struct blas_size){TRY_M, TRY_N, TRY_K},
             (struct dnn_mat){x, tx ? TRY_M : TRY_K, tx},
             (struct dnn_mat){y, ty ? TRY_K : TRY_N, ty}, 2.0f, true);
    for (int i = 0; i < TRY_M * TRY_N; i++) {
        const int r = i / TRY_N, q = i % TRY_N;
        float want = 0.0f;
        for (int k = 0; k < TRY_K; k++)
            want += f32_from_bf16(x[tx ? k * TRY_M + r : r * TRY_K + k]) *
                    f32_from_bf16(y[ty ? q * TRY_K + k : k * TRY_N + q]);
        right = right && c[i] == (float)i + 2.0f * want;
    }
    return right;
}

static enum b2_status load(struct dnn *d, struct b2_err *err)
{
    static const char missing[] = "products of BF16 need oneDNN (Debian: libdnnl2)";

    if (dynlib_open(&d->lib, "libdnnl.so.2", NULL) &&
        dynlib_open(&d->lib, "libdnnl.so.3", NULL))
        return err_set(err, B2_ENOTFOUND, "%s", missing);
    version_fn *version = (version_fn *)dynlib_find(d->lib, "dnnl_version");
    isa_fn *isa = (isa_fn *)dynlib_find(d->lib, "dnnl_get_effective_cpu_isa");
    d->gemm = (gemm_fn *)dynlib_find(d->lib, "dnnl_gemm_bf16bf16f32");
    d->set_threads = (threads_fn *)dynlib_find(d->lib, "omp_set_num_threads");
    if (!version || !isa || !d->gemm)
        return err_set(err, B2_ENOTFOUND, "%s (the one here lacks functions)", missing);
    const struct version *v = version();
    if (v->cpu_runtime != RUNTIME_SEQUENTIAL &&
        !(v->cpu_runtime == RUNTIME_OPENMP && d->set_threads))
        return err_set(err, B2_ENOTFOUND,
                       "%s (the one here has threads of its own, not OpenMP's)",
                       missing);
    snprintf(d->name, sizeof d->name, "oneDNN %d.%d.%d%s", v->major, v->minor, v->patch,
             isa() & ISA_AMX ? " amx" : "");
    return B2_OK;
}

/* oneDNN looks at the processor itself; features say what the user allows. */
enum b2_status dnn_open(struct dnn **out, unsigned cpu, struct b2_err *err)
{
    if (!(cpu & CPU_AVX512BF16))
        return err_set(err, B2_EUNSUP,
                       "products of BF16 need a processor with AVX512_BF16");
    struct dnn *d = mem_calloc(1, sizeof *d);
    if (!d)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = load(d, err);
    if (!rc)
        d->room = mem_aligned(64, 2 * (size_t)ROOM, sizeof *d->room);
    if (!rc && !d->room)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < 4 && !rc; i++)
        if (!is_right(d, i & 1, i & 2))
            rc = err_set(err, B2_ENOTFOUND, "%s gives wrong products of BF16", d->name);
    if (rc) {
        dnn_close(d);
        return rc;
    }
    *out = d;
    return B2_OK;
}

/* The library stays loaded, like OpenBLAS: it has code that it made at run time. */
void dnn_close(struct dnn *d)
{
    if (!d)
        return;
    mem_free(d->room);
    mem_free(d);
}

const char *dnn_name(const struct dnn *d)
{
    return d->name;
}

uint64_t dnn_bytes(int n_threads)
{
    return library_bytes + 2 * (uint64_t)ROOM * sizeof(uint16_t) +
           (uint64_t)n_threads * packing_bytes;
}
