/*
 * compensate_int.h - the block of rows that a thread works on.
 *
 * Columns are in the order of the metric (positions), groups too.
 */
#ifndef COMPRESS_COMPENSATE_INT_H
#define COMPRESS_COMPENSATE_INT_H

#include "compress/compensate.h"

enum { COMP_ROWS = 64, COMP_BLOCK = 64 };

struct comp_block {
    const struct blas *b;
    const struct codes *codes;
    const struct metric *m;
    int64_t rows, d, n_groups;
    float *goal;  /* [COMP_ROWS, d] what the rows should be */
    float *work;  /* [COMP_ROWS, d] weights in the sweep, then H times the error */
    float *value; /* [COMP_ROWS, d] scale * code + min */
    float *other; /* [COMP_ROWS, d] */
    float *err;   /* [COMP_ROWS, group or COMP_BLOCK] */
    int8_t *code; /* [COMP_ROWS, d] */
    float *scale, *min; /* [COMP_ROWS, n_groups] */
    double *normal;     /* [COMP_ROWS, n_groups, n_groups] */
    double *right;      /* [COMP_ROWS, n_groups] */
    double *solved;     /* [n_groups] */
};

/* Steps 3 and 4. Sweep, false: a scale beyond the type in row *bad. */
bool comp_sweep(struct comp_block *k, enum ternarise_rule rule, int64_t *bad);
void comp_scales(struct comp_block *k);
void comp_descend(struct comp_block *k);
/* work = (goal - value) H */
void comp_gradient(struct comp_block *k);

#endif
