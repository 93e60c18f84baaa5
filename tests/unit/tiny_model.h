/*
 * tiny_model.h - a seeded model of two layers in the shape of `llama`, as a GGUF.
 *
 * Rows of 192 (three groups of 64, no 128) and of 256, so that each ternary type and
 * the tail rule have something to do. Not a model that says anything.
 */
#ifndef UNIT_TINY_MODEL_H
#define UNIT_TINY_MODEL_H

#include "base/error.h"
#include "tensor/dtype.h"

enum { TINY_D = 192, TINY_F = 256, TINY_V = 320, TINY_LAYERS = 2, TINY_HEADS = 3 };

struct tiny_params {
    uint64_t seed;
    enum dtype type;     /* of the matrices */
    enum dtype vec_type; /* of the norms */
    int layers;          /* 0: TINY_LAYERS */
    bool untied;         /* with output.weight */
    bool router;         /* with a matrix that is no linear layer */
    /* One value that is put somewhere, when name is not NULL. */
    const char *bad_name;
    int64_t bad_row, bad_col;
    float bad_value;
    bool zero_group; /* blk.0.ffn_up.weight, row 0, columns 0 to 63 are zero */
};

enum b2_status tiny_model_write(const char *path, const struct tiny_params *p,
                                struct b2_err *err) NODISCARD;

#endif
