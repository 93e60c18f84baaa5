/*
 * packings.h - how fast this machine multiplies a model's matrices in each ternary type.
 *
 * The model gives the shapes alone: its values do not matter, so any file of the model
 * will do, ternary or not. Norms, attention and the cache are left out; they cost the same
 * in every type. Matrices are read from memory, never from a cache that one of them fits.
 */
#ifndef EVAL_PACKINGS_H
#define EVAL_PACKINGS_H

#include "model/model.h"

enum { PACKINGS_MAX = 8, PACKINGS_TOKENS = 64, PACKINGS_MAX_RUNS = 100 };

struct packing_speed {
    enum dtype type;
    uint64_t bytes;         /* of the matrices that a token reads */
    double bits_per_weight; /* of these */
    double decode_tps;      /* tokens per second, one at a time */
    double prompt_tps;      /* PACKINGS_TOKENS at a time */
    double gbps;            /* 10^9 bytes of weights a second when decoding */
};

/* Every ternary type, medians of `runs` (1..PACKINGS_MAX_RUNS) into row[*n], n <=
 * PACKINGS_MAX. stop (may be NULL) is asked between products. B2_ENOMEM, B2_ECANCEL. */
enum b2_status packings_measure(struct packing_speed *row, int *n,
                                const struct model *m, struct backend *be, int runs,
                                bool (*stop)(void), struct b2_err *err) NODISCARD;

/* The row to recommend: the fastest in decoding, or a smaller one that is at most 3 %
 * slower, which noise decides. n >= 1. */
const struct packing_speed *packings_best(const struct packing_speed *row, int n);

#endif
