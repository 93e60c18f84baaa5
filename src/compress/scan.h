/*
 * scan.h - reads every value of the source once, before any work is done.
 *
 * Refuses what cannot be compressed and measures what each candidate type would cost:
 * the relative squared error of fitted rounding on evenly spaced rows (up to about 128
 * of each tensor, always the same ones).
 */
#ifndef COMPRESS_SCAN_H
#define COMPRESS_SCAN_H

#include "base/pool.h"
#include "base/progress.h"
#include "compress/choose.h"

/* What long work needs from its caller. */
struct scan_env {
    struct pool *pool;            /* NULL: one thread */
    struct progress *progress;    /* counts values; NULL: silent */
    bool (*cancelled)(void *ctx); /* NULL: never */
    void *ctx;
    bool measure_all; /* also tensors that are decided: for a dry run's report */
};

/* Fills the candidates' errors of c. B2_EFORMAT: NaN or infinity; B2_EUNSUP: a value
 * that the FP16 scales of a decided type cannot hold; both name tensor, row and column.
 * B2_ECANCEL. Independent of the number of threads. */
enum b2_status scan_run(struct choose *c, struct modelfile *mf,
                        const struct scan_env *env, struct b2_err *err) NODISCARD;

#endif
