/*
 * analyze_stats.h - statistics of what flows through a layer, from batches of tokens.
 *
 * Columns are cut over the threads and tokens added in their order, so that the numbers
 * are the same for any pool.
 */
#ifndef COMPRESS_ANALYZE_STATS_H
#define COMPRESS_ANALYZE_STATS_H

#include "base/pool.h"
#include "compress/sensitivity.h"

/* Of the columns of an input. Zeroed memory is a start. */
struct stats_columns {
    int64_t d, n_tokens;
    double *square;    /* [d] sum */
    float *max;        /* [d] of magnitudes */
    int64_t *outliers; /* [d] values beyond six times the batch's rms */
};

enum b2_status stats_columns_new(struct stats_columns *s, int64_t d,
                                 struct b2_err *err) NODISCARD;
void stats_columns_free(struct stats_columns *s); /* zeroed is fine */
void stats_columns_add(struct stats_columns *s, struct pool *pool, const float *x,
                       int64_t n_tokens);
/* B2_ENOMEM. */
enum b2_status stats_columns_input(struct sens_input *out,
                                   const struct stats_columns *s,
                                   struct b2_err *err) NODISCARD;

/* How often the gates of hidden values are far from 0: beyond STATS_FAR the activation
 * is the line y = x or 0 to three digits. */
#define STATS_FAR 6.0f
struct stats_gates {
    int64_t f, n_tokens;
    int64_t *above, *below; /* [f] tokens */
};
enum b2_status stats_gates_new(struct stats_gates *s, int64_t f,
                               struct b2_err *err) NODISCARD;
void stats_gates_free(struct stats_gates *s); /* zeroed is fine */
void stats_gates_add(struct stats_gates *s, struct pool *pool, const float *gate,
                     int64_t n_tokens);

/* cost [f]: mean square of each hidden value times the squares of its column in down
 * [d, f]. A value is dead when that is at most a millionth of the median, off or
 * saturated when its gate is far below or above 0 at 99 % of the tokens. B2_ENOMEM. */
enum b2_status stats_neurons(struct sens_layer *l, float *cost,
                             const struct stats_columns *hidden,
                             const struct stats_gates *gates, const float *down,
                             int64_t d, struct b2_err *err) NODISCARD;

/* Sum over tokens of the cosine of rows a and b [n_tokens, d]. */
double stats_cosines(const float *a, const float *b, int64_t n_tokens, int64_t d);

#endif
