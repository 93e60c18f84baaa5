/*
 * rope.h - rotary positions, forward and backward (the turn the other way).
 */
#ifndef TRAIN_ROPE_H
#define TRAIN_ROPE_H

#include "backend/backend.h"
#include "train/mm.h"

/* The turns of all positions of a kind of layer. */
struct rope {
    enum rope_kind kind;
    int64_t head_dim, n_rot;
    const real *cos, *sin; /* [positions, n_rot/2], the factor of YaRN included */
};

/* Fills cos, sin [n_pos, n_rot/2] from angles per position. */
void rope_fill(real *cos_out, real *sin_out, const float *freq, float mscale,
               int64_t n_pos, int64_t n_rot);

/* In place on x [n, n_heads, head_dim]; pos [n] are the tokens' positions. */
void rope_turn(const struct env *e, real *x, const struct rope *r, const int32_t *pos,
               int64_t n, int64_t n_heads);
void rope_turn_back(const struct env *e, real *dx, const struct rope *r,
                    const int32_t *pos, int64_t n, int64_t n_heads);

#endif
