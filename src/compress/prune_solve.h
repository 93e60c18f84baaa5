/*
 * prune_solve.h - which columns of a matrix cost least to take away. What the others become
 * without them: prune_restore.h.
 *
 * A unit is a run of columns that go together: a hidden value, a head, the heads of a kv
 * group. With P = (H + l I)⁻¹ a unit S of the weight W costs
 *     tr(W_S (P_SS)⁻¹ W_Sᵀ)
 * of the outputs' square, if all other columns make up for it as well as they can (optimal
 * brain surgeon); what is left is then the problem without S.
 */
#ifndef COMPRESS_PRUNE_SOLVE_H
#define COMPRESS_PRUNE_SOLVE_H

#include "compress/metric.h"

/* Units [n] of `size` columns each, n * size the width of the matrix. */
struct prune_units {
    int64_t n, size;
    int64_t part; /* the same number goes from each run of so many units; n: any */
    double
        damp; /* of l, in mean diagonals of H: costs if the others make up for it; 0: as
                  * the unit stands */
};

/* Marks `gone` units more in each part: gone_before [n] are marked already. cost [n] gets
 * those of the marked ones at the time, per token. s: H; w [rows, n * size]. The cheapest
 * one first, costs counted anew after each; in matrices wider than PRUNE_EXACT those of the
 * start. B2_ENOMEM, B2_EFORMAT. */
enum { PRUNE_EXACT = 4096 };
enum b2_status prune_pick(uint8_t *gone, float *cost, const struct prune_units *u,
                          int64_t n_more, const struct metric_sums *s, const float *w,
                          int64_t rows, const struct blas *b, struct pool *pool,
                          struct b2_err *err) NODISCARD;

/* Means over tokens of H and C, and of the diagonal of H: 1 where it is 0, NaN
 * where something is no number. */
double prune_h(const struct metric_sums *s, int64_t i, int64_t k);
double prune_c(const struct metric_sums *s, int64_t i, int64_t k);
double prune_mean_diagonal(const struct metric_sums *s);

#endif
