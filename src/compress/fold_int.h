/*
 * fold_int.h - what the steps of folding share.
 */
#ifndef COMPRESS_FOLD_INT_H
#define COMPRESS_FOLD_INT_H

#include "base/arena.h"
#include "compress/fold.h"
#include "model/model.h"

/* Mean squares of the inputs that can be folded. */
struct fold_stats_layer {
    int64_t f;
    double *attn, *ffn, *hidden; /* [D], [D], [f] */
};

struct fold_stats {
    struct arena *arena;
    struct fold_stats_layer *layer; /* [n_layers] */
    int64_t n_layers, d;
    char calibration[65]; /* hash of the tokens */
};

/* Of at most so many of the calibration's tokens through the source. Errors of
 * prune_run(). */
enum b2_status fold_measure(struct fold_stats *s, const struct model *m,
                            const struct pipeline_params *p, int64_t max_tokens,
                            struct b2_err *err) NODISCARD;
void fold_stats_free(struct fold_stats *s); /* zeroed is fine */

/* By how many powers of two each column grows, and where values come from. */
struct fold_plan_layer {
    int64_t f;
    int8_t *attn, *ffn, *hidden; /* [D], [D], [f] */
    int32_t *order;              /* [f] value i was order[i]; NULL: as it was */
};

struct fold_plan {
    struct arena *arena;
    struct fold_plan_layer *layer; /* [n_layers] */
    int64_t n_layers, d;
    double exponent;
    int32_t *stream; /* [D] as order; NULL: as it was */
};

enum b2_status fold_make_plan(struct fold_plan *plan, const struct fold_stats *s,
                              double exponent, bool sort, bool stream,
                              struct b2_err *err) NODISCARD;
void fold_plan_free(struct fold_plan *plan); /* zeroed is fine */

/* The rewritten model as a GGUF. B2_EUNSUP: a tensor that is not known. */
enum b2_status fold_write(const struct fold_plan *plan, const struct model *m,
                          const char *path, const char *source_sha256,
                          const struct pipeline_params *p,
                          struct b2_err *err) NODISCARD;

#endif
