/*
 * ternarise.h - a group of weights to {-1, 0, +1} and one scale.
 *
 * Four rules, all with the scale rounded as it will be stored:
 *
 *   ls         the scale and codes that minimise sum (w - s t)^2, exactly
 *   round      s = mean |w|, t = w / s rounded to the nearest code (BitNet b1.58,
 *              arXiv:2402.17764 §2)
 *   threshold  t = sign(w) where |w| >= mean |w|, s = mean |w| of those kept
 *   twn        t = sign(w) where |w| > 0.7 mean |w|, s = mean |w| of those kept
 *              (Ternary Weight Networks, arXiv:1605.04711 §2.2)
 */
#ifndef COMPRESS_TERNARISE_H
#define COMPRESS_TERNARISE_H

#include "tensor/dtype.h"

enum ternarise_rule {
    TERNARISE_LS,
    TERNARISE_ROUND,
    TERNARISE_THRESHOLD,
    TERNARISE_TWN,
    N_TERNARISE_RULES
};

enum { TERNARISE_MAX_GROUP = 256 };

/* "ls", "round", … and how the scale is chosen, in words. Never NULL. Both are written
 * into the file: two programs may share a rule's name and not its scale. */
const char *ternarise_rule_name(enum ternarise_rule r);
const char *ternarise_scale_name(enum ternarise_rule r);
bool ternarise_rule_from_name(enum ternarise_rule *out, const char *name);

/* Rounds one group.
 *
 *   codes  [n] int8, all written
 *   scale  the value of the stored FP16
 *   w      [n] finite F32, 1 <= n <= TERNARISE_MAX_GROUP
 *
 * An all-zero group, and one whose scale is too small for FP16, gets codes 0 and scale
 * 0. False: the scale is beyond FP16 (above 65504); outputs are then unspecified. */
bool ternarise_group(int8_t *codes, float *scale, const float *w, int n,
                     enum ternarise_rule rule);
/* The same with scales, and codes (DTF_QUADS), as type t stores them. n is then a
 * multiple of four. */
bool ternarise_group_as(enum dtype t, int8_t *codes, float *scale, const float *w,
                        int n, enum ternarise_rule rule);

#endif
