/*
 * cost_int.h - what cost.c and cost_table.c share.
 */
#ifndef COMPRESS_COST_INT_H
#define COMPRESS_COST_INT_H

#include "compress/cost.h"
#include "compress/stream.h"
#include "compress/table.h"

struct cost {
    const struct cost_params *p;
    struct blas *blas;
    struct model *m;
    struct stream *stream;
    int32_t *ids; /* [n_seqs, ctx] */
    int64_t n_seqs, layer;
    struct table_metric metric; /* of the head's inputs */
    uint64_t done;              /* values, for progress */
    double nat, prior;          /* sums over the linear layers that were measured */
};

/* The unscaled damage of a candidate that nobody measured. */
double cost_prior(const struct choose *c, const struct choose_item *it,
                  const struct choose_candidate *cand);

/* Table of tokens and head, when all layers are walked through. */
enum b2_status cost_tables(struct cost *k, struct b2_err *err) NODISCARD;

#endif
