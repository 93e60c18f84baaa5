/*
 * distill_gemm.c - which library makes products, and in which precision.
 *
 * A step's products of activations, weights and gradients may be of BF16, with sums in
 * F32: their errors are noise beside that of the rounding which is trained. What is scored
 * is computed in F32, so that the state that is kept is the best one of the packed file.
 */
#include "compress/distill_int.h"
#include "train/blas.h"
#include "train/dnn.h"

#include <stdio.h>
#include <string.h>

enum b2_status distill_open_gemm(struct distill *d, struct b2_err *err)
{
    const struct distill_params *p = d->p;
    struct b2_err why = {0};
    enum b2_status rc = blas_open(&d->blas, err);

    if (rc)
        return rc;
    snprintf(d->r->blas_core, sizeof d->r->blas_core, "%s", blas_core(d->blas));
    kernels_init(&d->kernels, p->cpu);
    d->env =
        (struct env){.pool = p->pool, .blas = d->blas, .k = &d->kernels, .dnn = NULL};
    if (p->gemm == DISTILL_F32)
        return B2_OK;
    rc = dnn_open(&d->dnn, p->cpu, &why);
    if (!rc) {
        snprintf(d->r->dnn, sizeof d->r->dnn, "%s", dnn_name(d->dnn));
        return B2_OK;
    }
    if (p->gemm == DISTILL_BF16 || rc == B2_ENOMEM)
        return err_set(err, rc, "--gemm bf16: %s", why.msg);
    log_line(p->log, LOG_INFO, "products of F32 are made: %s", why.msg);
    return B2_OK;
}

void distill_close_gemm(struct distill *d)
{
    dnn_close(d->dnn);
    blas_close(d->blas);
}

void distill_rough(struct distill *d, bool on)
{
    d->env.dnn = on ? d->dnn : NULL;
}

void distill_core(const struct distill *d, char *buf, size_t size)
{
    const char *dnn = d->r->dnn[0] ? strchr(d->r->dnn, ' ') : NULL;

    snprintf(buf, size, "%s%s%s", d->r->blas_core, dnn ? ", DNN" : "", dnn ? dnn : "");
}
