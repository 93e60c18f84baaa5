/*
 * dnn.h - products of matrices whose numbers are rounded to BF16, by oneDNN.
 *
 *   c = alpha sum of bf16(a) bf16(b) (+ c)      products and sums in F32
 *
 * Twice as fast as F32 where the processor multiplies BF16 (AVX512_BF16), more with tiles
 * (AMX). oneDNN is loaded when it is needed, like OpenBLAS (blas.h), one thread a call;
 * the same call gives the same bits on one processor and version.
 */
#ifndef TRAIN_DNN_H
#define TRAIN_DNN_H

#include "train/blas.h"

struct dnn;

enum { DNN_BLOCK = 2048 };

/* B2_EUNSUP: a processor (features cpu, base/cpu.h) that does not multiply BF16.
 * B2_ENOTFOUND: no oneDNN, or one that cannot be used; the message has the package's
 * name. */
enum b2_status dnn_open(struct dnn **out, unsigned cpu, struct b2_err *err) NODISCARD;
void dnn_close(struct dnn *d); /* NULL is fine */

/* "oneDNN 2.6.3", with " amx" behind it where tiles are used */
const char *dnn_name(const struct dnn *d);

/* Memory of dnn_open() and of the library's own. */
uint64_t dnn_bytes(int n_threads);

/* Room for an operand of a block, DNN_BLOCK x DNN_BLOCK; which: 0 or 1. */
uint16_t *dnn_room(const struct dnn *d, int which);

/* BF16 in rows, ld apart; t: read as its transpose. */
struct dnn_mat {
    const uint16_t *p;
    int64_t ld;
    bool t;
};

/* c [m, n], rows ldc apart, = alpha x [m, k] y [k, n] (+ c when add). On the caller alone,
 * from any thread. Empty sizes are fine. */
void dnn_gemm(const struct dnn *d, float *c, int64_t ldc, struct blas_size size,
              struct dnn_mat x, struct dnn_mat y, float alpha, bool add);

#endif
