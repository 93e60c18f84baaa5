/*
 * tensor.h - a named matrix of bytes: what format/ hands to everybody else.
 *
 * Dimensions follow GGUF: ne[0] is the row length (the input axis of a weight), ne[1]
 * the number of rows; unused dimensions are 1. A padded tensor (format/tail.h) has rows
 * that end in values which mean nothing: ne and n_bytes count them, nothing else does.
 */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "tensor/dtype.h"

enum { TENSOR_MAX_RANK = 4 };

struct tensor {
    const char *name; /* borrowed from the container */
    enum dtype type;
    int rank;
    int64_t ne[TENSOR_MAX_RANK];
    const uint8_t *data; /* mapped or owned by the container */
    uint64_t n_bytes;
    int64_t pad; /* values at the end of each row that are padding; 0 for most */
    float scale; /* of all values, for types with DTF_APART; means nothing else */
};

/* Values of a row, padding left out: the inputs of a weight. */
static inline int64_t tensor_width(const struct tensor *t)
{
    return t->ne[0] - t->pad;
}

static inline int64_t tensor_rows(const struct tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

/* What decoded values are multiplied with. */
static inline float tensor_scale(const struct tensor *t)
{
    return dtype_info(t->type)->flags & DTF_APART ? t->scale : 1.0f;
}

/* Values, padding left out. */
static inline int64_t tensor_count(const struct tensor *t)
{
    return tensor_width(t) * tensor_rows(t);
}

#endif
