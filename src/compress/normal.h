/*
 * normal.h - the layers of a model rounded with error compensation, one after the other.
 *
 * For each layer: four times the statistics of an input, the weights that read it, and
 * the streams walk on (stream.h). What a weight becomes is decided before (choose.h);
 * types without codes (codes.h) and padded rows are rounded without compensation.
 */
#ifndef COMPRESS_NORMAL_H
#define COMPRESS_NORMAL_H

#include "compress/calib.h"
#include "compress/choose.h"
#include "compress/compensate.h"
#include "compress/stream.h"

struct normal;

struct normal_params {
    const char *source;
    const struct choose *c; /* with its picks */
    const struct recipe *recipe;
    const struct calib *calib;
    const struct weight *embd; /* the compressed table; NULL: the source's */
    struct pool *pool;
    uint64_t mem_limit; /* 0: none */
    const struct log *log;
};

/* The item of a part of a layer, or -1. */
int64_t normal_find(const struct choose *c, int64_t layer, enum stream_part part);

/* Whether all layers have the usual weights, asked before any work. B2_EUNSUP: not. */
enum b2_status normal_check(const struct choose *c, struct b2_err *err) NODISCARD;

/* normal_check() has passed. B2_EUNSUP: a model that cannot be streamed. B2_ENOTFOUND: no OpenBLAS. B2_ENOMEM: the plan is over the limit; says by how much. */
enum b2_status normal_new(struct normal **out, const struct normal_params *p,
                          struct b2_err *err) NODISCARD;
void normal_free(struct normal *n);              /* NULL is fine */
const char *normal_core(const struct normal *n); /* OpenBLAS's kernels, for notes */

/* Rounds the weights of a layer; layers come in order, each once. cancelled may be NULL. */
enum b2_status normal_layer(struct normal *n, int64_t layer,
                            bool (*cancelled)(void *ctx), void *ctx,
                            struct b2_err *err) NODISCARD;

/* The same from the bytes that an earlier run made. bytes(): of item i of the choice. */
enum b2_status normal_replay(struct normal *n, int64_t layer,
                             const uint8_t *(*bytes)(void *ctx, int64_t item),
                             void *ctx, struct b2_err *err) NODISCARD;

/* The bytes of item i of the layer just done, and its statistics; NULL: not compensated,
 * the item is rounded as without calibration. */
const uint8_t *normal_bytes(const struct normal *n, int64_t item,
                            struct fit_stat *stat);

/* Divergence on the probe with all layers so far compressed and the others not. */
double normal_divergence(struct normal *n);

#endif
