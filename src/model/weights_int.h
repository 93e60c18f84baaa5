/*
 * weights_int.h - what the binders of weights share.
 */
#ifndef MODEL_WEIGHTS_INT_H
#define MODEL_WEIGHTS_INT_H

#include "model/model.h"

enum { WEIGHTS_NAME_MAX = 64 };

struct weights_binder {
    struct model *m;
    const struct log *log;
    bool no_data;
    bool *used; /* [tensors of the file] */
};

/* The tensor of that name, checked to be [cols, rows], with its bytes; NULL: *rc says
 * why. */
const struct tensor *weights_tensor(struct weights_binder *b, const char *name,
                                    int64_t cols, int64_t rows, enum b2_status *rc,
                                    struct b2_err *err);
enum b2_status weights_matrix(struct weights_binder *b, struct weight *w,
                              const char *name, int64_t cols, int64_t rows,
                              struct b2_err *err) NODISCARD;
/* A vector, copied to F32 whatever float it is stored as. */
enum b2_status weights_vector(struct weights_binder *b, const float **out,
                              const char *name, int64_t n,
                              struct b2_err *err) NODISCARD;
/* The gated delta net of a layer. */
enum b2_status weights_take_delta(struct weights_binder *b, int64_t layer,
                                  struct b2_err *err) NODISCARD;

#endif
