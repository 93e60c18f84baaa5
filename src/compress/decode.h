/*
 * decode.h - rows of a model's weights as F32, for computing in the precision of training.
 */
#ifndef COMPRESS_DECODE_H
#define COMPRESS_DECODE_H

#include "base/pool.h"
#include "model/model.h"

/* Rows [first, first + n) of m's weight w to dst [n, w->cols], on all threads. Their pages
 * of the file go back to the system: a layer is read a few times in a run, and a model
 * larger than memory must not stay in it. */
void decode_weight(struct pool *pool, const struct model *m, float *dst,
                   const struct weight *w, int64_t first, int64_t n);

/* The same for a weight that was used in place. */
void decode_drop(const struct model *m, const struct weight *w);

#endif
