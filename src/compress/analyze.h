/*
 * analyze.h - which layers and tensors of a model matter: measured, layer by layer.
 *
 *   local    calibration tokens walk through the layers: statistics of inputs and hidden
 *            values, block influence, each matrix compressed on its own (error
 *            compensation) and what its outputs lose
 *   measure  a probe sequence goes on from every layer to the end with one thing changed:
 *            a tensor compressed, a head, a block or the layer left out, hidden values
 *            taken away; and through the compressed model with one tensor restored
 *   fisher   the gradient of sampled labels, one sequence at a time
 *
 * State lies in OUT.b2work/ (work.h), a piece per layer and step: the same call goes on
 * after any interruption. The result is the same for any number of threads.
 */
#ifndef COMPRESS_ANALYZE_H
#define COMPRESS_ANALYZE_H

#include "base/log.h"
#include "base/progress.h"
#include "compress/calib.h"
#include "compress/sensitivity.h"

struct analyze_params {
    const char *source, *output;
    const struct calib_params *calib;
    enum dtype type; /* that tensors are compressed to; N_DTYPES: B2_T64 */
    bool plain;      /* fitted rounding instead of error compensation */
    bool quick;      /* local alone: nothing that goes on to the last layer */
    bool no_fisher;
    int64_t probe_tokens, fisher_tokens;
    double tolerance; /* nat, of the tolerable share of hidden values */
    uint64_t seed;
    bool force;
    uint64_t mem_limit; /* 0: none */
    struct pool *pool;
    const struct log *log;
    bool (*cancelled)(void *ctx);                                  /* may be NULL */
    void (*on_stage)(void *ctx, const char *name, uint64_t total); /* may be NULL */
    struct progress *progress;
    void *ctx_of_calls;
};

/* On success fills s (sens_free) and writes the output. B2_EARG: texts or sizes that
 * cannot work. B2_EUNSUP: a model that cannot be walked through. B2_ENOTFOUND: no
 * OpenBLAS. B2_ENOMEM: over the limit; says by how much. B2_EEXIST: the output is there.
 * B2_ECANCEL: stopped, what was done is kept. */
enum b2_status analyze_run(struct sensitivity *s, const struct analyze_params *p,
                           struct b2_err *err) NODISCARD;

#endif
