/*
 * compensate.h - one weight matrix rounded so that its outputs stay, not its weights.
 *
 *   1. target   row w of the teacher becomes (1 - eta) w + eta w (C + l I)(H + l I)⁻¹
 *   2. rotate   when the type is to be folded
 *   3. sweep    column by column: what rounding one loses goes to those that are still
 *               free, in the metric of H (GPTQ, arXiv:2210.17323); a group's scale is
 *               fitted when the sweep enters it, on what the weights have become
 *   4. refine   all scales of a row solved together; then passes of coordinate descent
 *               over the codes, each followed by the scales again
 *
 * Rows are independent, so that they are cut over threads in any way.
 */
#ifndef COMPRESS_COMPENSATE_H
#define COMPRESS_COMPENSATE_H

#include "compress/codes.h"
#include "compress/metric.h"

struct compensate_how {
    double eta; /* share of the correction for what came before, 0 to 1 */
    int passes; /* of coordinate descent; 0: neither these nor joint scales */
    enum ternarise_rule rule;
    int64_t zeros; /* groups of each row, those of the least energy, that become zero */
};

/* What a matrix [rows, d] becomes. */
struct compensate_out {
    uint8_t *bytes;       /* [rows] rows of the type */
    float *values;        /* [rows, d] the decoded weight, rotated back; may be NULL */
    struct fit_stat stat; /* against the teacher's weight */
    double loss, energy; /* of outputs: sums of e H eᵀ and w H wᵀ over rows, e and w
                              against the target */
    int64_t
        uncorrected; /* rows whose target was beyond the type: the teacher's instead */
};

/* w [rows, d] finite; m: of the same group as the type's; target: [d, d] of
 * metric_target(), NULL when eta is 0; rotate: NULL or has the width d.
 * B2_EUNSUP: a scale beyond the type (row named). B2_ENOMEM. */
enum b2_status compensate_rows(struct compensate_out *out, const struct codes *codes,
                               const float *w, int64_t rows, const struct metric *m,
                               const float *target, const struct rotate *rotate,
                               const struct compensate_how *how, const struct blas *b,
                               struct pool *pool, struct b2_err *err) NODISCARD;

#endif
