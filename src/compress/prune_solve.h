/*
 * prune_solve.h - which columns of a matrix cost least to take away, and what the others
 * become without them.
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
    bool restore; /* costs if the others make up for it; else as the unit stands */
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

/* What outputs lose, as a share of their square over all tokens. */
struct prune_lost {
    double plain, restored;
};

/* out [rows, d], columns that are gone zero: the others make up for them,
 *     ((1 - eta) W (H + l I) + eta W (C + l I)) restricted to kept columns (H_KK + l I)⁻¹
 * with as small a damping as lets it be solved. gone [d] by column. out NULL: only the loss,
 * restored as plain. */
enum b2_status prune_restore(float *out, struct prune_lost *lost, const uint8_t *gone,
                             const struct metric_sums *s, const float *w, int64_t rows,
                             double eta, const struct blas *b, struct pool *pool,
                             struct b2_err *err) NODISCARD;

#endif
