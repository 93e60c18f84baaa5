/*
 * fit.h - rows to any writable type, rounded as well as one can without calibration.
 *
 * Where tensor/quant.h writes what the reference encoder writes, this looks for the
 * scale of each block that minimises the squared error. On every block the error is
 * at most the reference encoder's. For tables of tokens the squares can be weighted so
 * that large weights count more (struct fit_how): it is this error that is minimised
 * then, and that is at most the reference's.
 */
#ifndef COMPRESS_FIT_H
#define COMPRESS_FIT_H

#include "compress/ternarise.h"
#include "tensor/dtype.h"

enum { FIT_MAX_BLOCK = 256 }; /* weights of the largest block of any type */

/* What rounding did to some weights. Sums: add the parts in a fixed order. */
struct fit_stat {
    double err;          /* sum of squared errors */
    double energy;       /* sum of squared weights */
    int64_t n;           /* weights */
    int64_t zeros;       /* decoded values that are exactly 0 */
    int64_t zero_groups; /* ternary groups that decode to zeros only … */
    int64_t underflows;  /* … of these, groups that were not zero before */
};

void fit_stat_add(struct fit_stat *sum, const struct fit_stat *part);
double fit_stat_error(const struct fit_stat *s); /* err / energy; 0 when no energy */
double fit_stat_zero_share(const struct fit_stat *s);

/* What counts as close. */
struct fit_how {
    enum ternarise_rule rule; /* for ternary types */
    /* Q4_0, Q5_0, Q8_0: the squared error of a weight w counts w^2 + mean(w^2) of its
     * block. Costs plain squared error. On the tied table of SmolLM2 in Q4_0 it gives a
     * divergence of .082 where equal counts give .115 and the reference .098; on linear
     * layers it is a loss (quality/fit.csv). */
    bool favour_large;
};

/* Takes the last pad of n encoded values, zeros before, out of the statistics that
 * fit_row() made of the row enc. */
void fit_stat_drop_pad(struct fit_stat *s, enum dtype t, const uint8_t *enc, int64_t n,
                       int64_t pad);

/* Encodes n finite weights (a multiple of t's block) of one row into dst.
 *   stat  overwritten; from the bytes written, decoded again; squares count alike
 * B2_EUNSUP: a block's scale or value is beyond FP16; the message has the column where
 * the block begins. */
enum b2_status fit_row(enum dtype t, void *dst, const float *src, int64_t n,
                       const struct fit_how *how, struct fit_stat *stat,
                       struct b2_err *err) NODISCARD;

#endif
