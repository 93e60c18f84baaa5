/*
 * compensate_int.h - the block of rows that a thread works on.
 *
 * Columns are in the order of the metric (positions), groups too.
 */
#ifndef COMPRESS_COMPENSATE_INT_H
#define COMPRESS_COMPENSATE_INT_H

#include "compress/compensate.h"
#include "compress/rank.h"
#include "compress/words.h"

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
    uint8_t *empty;     /* [COMP_ROWS, n_groups] 1: becomes zero; by place in the row */
    struct ranked *ranked;             /* [n_groups] */
    struct word_metric word[QUAD_MAX]; /* of the columns at hand, types with words */
};

/* Marks n groups of each row as empty, of the least energy of what they should be. */
void comp_choose_empty(struct comp_block *k, int64_t n);
/* Steps 3 and 4. Sweep, false: a scale beyond the type in row *bad. */
bool comp_sweep(struct comp_block *k, enum ternarise_rule rule, int64_t *bad);
void comp_scales(struct comp_block *k);
void comp_descend(struct comp_block *k);
/* comp_words.c: the same for types whose codes make words. Metrics of the n columns from
 * position `at` on: of the sweep, and of descent. */
void comp_words_sweep(struct comp_block *k, int64_t at, int64_t n);
void comp_words_descend(struct comp_block *k, int64_t at, int64_t n);
/* As sweep_row and descend_row of comp_steps.c, with these metrics. */
void comp_words_sweep_row(struct comp_block *k, int64_t r, int64_t at, float scale);
void comp_words_descend_row(struct comp_block *k, int64_t r, int64_t at, int64_t n,
                            float *delta);
/* work = (goal - value) H */
void comp_gradient(struct comp_block *k);

#endif
