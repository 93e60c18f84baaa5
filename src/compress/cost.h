/*
 * cost.h - what each type would cost each tensor, in nat, measured on calibration texts.
 *
 * The teacher walks alone over some 4,096 tokens. Of every linear layer the smallest
 * candidate is made in full, with compensation, and put alone into the teacher: the
 * divergence on the probe is its damage. The other candidates are made on some 128 rows;
 * their damage is the smallest one's, times the ratio of the output errors (in the metric
 * of the inputs). Tables of tokens and heads are made (table.h) and tried whole, each
 * candidate. What cannot be tried gets its prior (role.h) in the measured ones' units.
 */
#ifndef COMPRESS_COST_H
#define COMPRESS_COST_H

#include "compress/calib.h"
#include "compress/scan.h"

struct cost_params {
    const char *source;
    struct modelfile *mf;
    struct choose *c; /* scanned; gets the damage of every candidate */
    const struct calib *calib;
    const struct scan_env *env;
    uint64_t mem_limit; /* 0: none */
    const struct log *log;
};

/* The same for any number of threads. Errors of normal_new(); B2_ECANCEL. */
enum b2_status cost_measure(const struct cost_params *p, struct b2_err *err) NODISCARD;

#endif
