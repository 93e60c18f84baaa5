/*
 * table.h - tables of tokens and heads, rounded in the metric of what the head is fed.
 *
 * An error in a head's row costs as any other weight's (metric.h), H of the inputs behind
 * the last norm. A table that is also looked up shows its rows as they are: then the
 * identity, in the size of H's mean diagonal, is added to H. A tenth of it is added to a
 * head of its own, so that few tokens for many columns do no harm. A table that is only
 * looked up has no inputs, and is rounded as without calibration. docs/COMPRESS.md has
 * figures.
 */
#ifndef COMPRESS_TABLE_H
#define COMPRESS_TABLE_H

#include "base/progress.h"
#include "compress/calib.h"
#include "compress/choose.h"
#include "compress/compensate.h"
#include "compress/stream.h"

enum { TABLE_TOKENS = 4096 }; /* that H is made from */

struct table_metric {
    struct metric_sums sums; /* of a head's inputs; no h: none */
    double share;            /* of H's mean diagonal that is added to all of it */
};

/* Whether a candidate is rounded that way: not types of more than 16 levels, which lose
 * little and would take as long; not where --layers leaves layers out, whose outputs nobody
 * wants to compute; and not where rows are wider than --metric-width. */
bool table_compensable(const struct choose *c, const struct choose_item *it,
                       const struct choose_candidate *cand);

/* From a stream behind its last layer. B2_ENOMEM. */
enum b2_status table_metric_take(struct table_metric *t, const struct choose *c,
                                 struct stream *s, int64_t d,
                                 struct b2_err *err) NODISCARD;
void table_metric_free(struct table_metric *t); /* zeroed is fine */

struct table_walk {
    const char *source;
    const struct choose *c;
    const struct calib *calib;
    const struct blas *blas;
    struct pool *pool;
    uint64_t mem_limit;           /* 0: none */
    bool (*cancelled)(void *ctx); /* NULL: never */
    void *ctx;
};

/* The same from the source: the teacher walks through all layers. Errors of stream_new();
 * B2_ENOMEM: over the limit; B2_ECANCEL. */
enum b2_status table_metric_make(struct table_metric *t, const struct table_walk *w,
                                 struct b2_err *err) NODISCARD;

struct table_job {
    const struct choose *c;
    const struct choose_item *it; /* its tensor is loaded */
    const struct choose_candidate *cand;
    const struct table_metric *metric;
    int passes; /* of refinement (compensate.h) */
    const struct blas *blas;
    struct pool *pool;
    bool (*cancelled)(void *ctx); /* NULL: never */
    void *ctx;
    struct progress *progress; /* counts values, from `before` on; NULL: silent */
    uint64_t before;
};

/* All rows into bytes [cand->n_bytes]; adds to stat. B2_EUNSUP: a scale beyond the type.
 * B2_ENOMEM, B2_ECANCEL. The same for any pool. */
enum b2_status table_round(uint8_t *bytes, struct fit_stat *stat,
                           const struct table_job *j, struct b2_err *err) NODISCARD;

#endif
