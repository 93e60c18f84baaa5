/*
 * metric.h - what the inputs of a linear layer say about errors in its weights.
 *
 *   H = E[x xᵀ]   x: what the compressed model feeds the layer
 *   C = E[z xᵀ]   z: what the teacher feeds it at the same token
 *
 * An error e in a row of the weight costs e H eᵀ. The row that does best on x what w does
 * on z is w C H⁻¹: it makes up for the error of everything before.
 */
#ifndef COMPRESS_METRIC_H
#define COMPRESS_METRIC_H

#include "base/pool.h"
#include "compress/rotate.h"
#include "train/blas.h"

/* The sums of one input of d values. */
struct metric_sums {
    int64_t d, n_tokens;
    double *h, *c;        /* [d, d] */
    float *part;          /* [2, d, d], of one batch */
    int64_t from, stride; /* rows of x and z are stride wide and begin at from; 0: d */
};

enum b2_status metric_sums_new(struct metric_sums *s, int64_t d,
                               struct b2_err *err) NODISCARD;
void metric_sums_free(struct metric_sums *s); /* zeroed is fine */
/* Adds n_tokens rows [d] of student x and teacher z (NULL: C is not wanted). The same for
 * any pool; the batches must be cut alike. */
void metric_sums_add(struct metric_sums *s, const struct blas *b, struct pool *pool,
                     const float *x, const float *z, int64_t n_tokens);

/* Damping: the part of the mean diagonal that is added to all of it. */
#define METRIC_DAMP 0.01

/* m [d, d] F32 = (C + l I)(H + l I)⁻¹. B2_EFORMAT: activations that are no numbers. */
enum b2_status metric_target(float *m, const struct metric_sums *s,
                             const struct blas *b, struct pool *pool,
                             struct b2_err *err) NODISCARD;

/* The metric in the order in which columns are rounded. Position p is column perm[p] of
 * the rotated row; positions [k * group, (k + 1) * group) are one group of the type, and
 * [k * unit, (k + 1) * unit) columns side by side. */
struct metric {
    int64_t d, group, unit;
    int32_t *perm; /* [d] */
    float *h;      /* [d, d] damped */
    float *u;      /* [d, d] upper triangle: (h)⁻¹ = uᵀ u */
    double damp;   /* that sufficed */
};

/* rotate: NULL, or has the width d. Groups and the units in them go by falling
 * diagonal. Damping grows until the matrix is positive definite. B2_EFORMAT as above. */
enum b2_status metric_new(struct metric *m, const struct metric_sums *s,
                          const struct rotate *rotate, int64_t group, int64_t unit,
                          const struct blas *b, struct b2_err *err) NODISCARD;
void metric_free(struct metric *m); /* zeroed is fine */

#endif
