/*
 * weights.h - from named tensors to the weights of an architecture.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "model/model.h"

/* Fills m's weights from m->mf for m->hp, with the rotations of m->rots; memory from
 * m->arena. Every tensor must be there with its shape and a type that a matmul can use:
 * B2_ENOTFOUND, B2_EFORMAT (shape, NaN in a norm), B2_EUNSUP (type, or a tensor that
 * means arithmetic which `llama` here has not: biases, scales, further norms),
 * B2_ELAYOUT (the legacy group-128 layout). Other tensors that nobody needs are named
 * in a warning; when log is strict they are B2_EUNSUP. With no_data, matrices are
 * checked but not made available: their data may be NULL. */
enum b2_status weights_bind(struct model *m, const struct log *log, bool no_data,
                            struct b2_err *err) NODISCARD;

#endif
