/*
 * fold.h - the same model with other columns, before it is rounded.
 *
 * Two rewritings that change no output, in one pass over the source:
 *
 *   scales  Column j of a matrix is multiplied by s_j, what comes before it divided:
 *           s_j = (rms of input j over the geometric mean of all) ^ exponent, rounded to
 *           a power of two, so that no value is rounded (AWQ's fold, METHODS.md 1.4).
 *           q, k and v into the norm before them, gate and up into theirs, down into the
 *           rows of up (or the norm between them, where there is one).
 *   order   Hidden values of each feed-forward block by falling rms, and the values of
 *           the residual stream too where the table of tokens is stored as floats.
 *
 * The exponent may be tried: each one's model compressed with few tokens, the least
 * divergence on the probe wins. The rewritten model lies beside the output until that is
 * done (OUT.folded.gguf), and what was done stands in the output's keys (bonsai2.fold.*).
 */
#ifndef COMPRESS_FOLD_H
#define COMPRESS_FOLD_H

#include "compress/pipeline.h"
#include "compress/remove.h"

enum { FOLD_TRIES = 4 };

extern const double fold_exponent[FOLD_TRIES];

struct fold_params {
    double exponent; /* 0 to 1; NaN: the best of fold_exponent */
    bool sort;
    int max_layers; /* of remove.h; 0: all stay */
};

struct fold_report {
    double exponent;        /* that was taken */
    double kld[FOLD_TRIES]; /* of each that was tried; NaN: was not */
    bool sorted, stream;    /* hidden values; the residual stream too */
    struct remove_report removed;
};

/* pipeline_run(), or remove_run(), of the rewritten source; p has an output and effort
 * normal or best. Errors of these; B2_EUNSUP: a model whose columns are not known here. */
enum b2_status fold_run(struct report *r, struct fold_report *found,
                        const struct fold_params *fp, const struct pipeline_params *p,
                        struct b2_err *err) NODISCARD;

#endif
