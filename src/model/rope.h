/*
 * rope.h - the angles of rotary positions, scaling included.
 */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "model/hparams.h"

/* Angles per position step, freq [n_rot/2], and the factor on cos and sin. factors
 * [n_rot/2] > 0 divide the plain frequencies (the tensor rope_freqs.weight), or NULL. */
void rope_angles(const struct hparams *hp, const float *factors, float *freq,
                 float *mscale);

#endif
