/*
 * prune_restore.h - what the columns that stay become when others are taken away.
 *
 * Least squares on the calibration tokens, held back towards the weights as they are:
 *     W' = argmin Σ |t - W' x|² + l |W' - W|²  over the columns K that stay
 *        = ((1 - eta) W H + eta W C + l W)_K (H_KK + l I)⁻¹
 * with t = (1 - eta) W x + eta W z (metric.h: x what the pruned model feeds, z the
 * teacher), and the damping l = damp times the mean diagonal of H. Some 1,500 columns have
 * more freedom than a few thousand tokens can pin down: with a small l the solution fits
 * those tokens and is worse than W on all others. So the tokens are in two parts, one to
 * solve on and one to judge by, and `as it is` is among what is judged.
 */
#ifndef COMPRESS_PRUNE_RESTORE_H
#define COMPRESS_PRUNE_RESTORE_H

#include "compress/metric.h"

/* Dampings that are tried, from strong to weak. */
#define PRUNE_DAMPS                                                                    \
    {                                                                                  \
        100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3                        \
    }

struct prune_matrix {
    const float *w; /* [rows, d] */
    int64_t rows;
    double eta;
    const struct metric_sums *fit;  /* tokens to solve on */
    const struct metric_sums *held; /* others to judge by; d as in fit */
    const struct blas *b;
    struct pool *pool;
};

/* Held tokens: what is lost of t, as a share of the square of W x, but for a part that is
 * the same for every W' (so it may be negative). */
struct prune_choice {
    double damp; /* 0: nothing is better than leaving what stays as it is */
    double loss; /* of the choice; never more than left */
    double left; /* of W without the columns that go */
};

/* The best damping for what `gone` [d] takes away. B2_ENOMEM, B2_EFORMAT. */
enum b2_status prune_choose(struct prune_choice *out, const struct prune_matrix *m,
                            const uint8_t *gone, struct b2_err *err) NODISCARD;

/* out [rows, d] on the fit tokens, zero where gone. damp is made ten times more until the
 * system can be solved; 0: W itself. */
enum b2_status prune_restore(float *out, const struct prune_matrix *m,
                             const uint8_t *gone, double damp,
                             struct b2_err *err) NODISCARD;

/* tr (W - out) H (W - out)ᵀ as a share of tr W H Wᵀ, over the fit tokens; out NULL: W
 * without the columns that go. */
enum b2_status prune_lost(double *lost, const struct prune_matrix *m, const float *out,
                          const uint8_t *gone, struct b2_err *err) NODISCARD;

/* Bytes that the functions above take at most for a matrix [rows, d]. */
uint64_t prune_restore_bytes(int64_t rows, int64_t d, int threads);

#endif
