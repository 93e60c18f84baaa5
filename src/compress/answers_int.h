/*
 * answers_int.h - what asking and answering share.
 */
#ifndef COMPRESS_ANSWERS_INT_H
#define COMPRESS_ANSWERS_INT_H

#include "compress/answers.h"

struct questions {
    char **text; /* [n], owned */
    int64_t n, cap;
};

/* At most n of the sources, in their order. B2_EARG: none, an evaluation set. */
enum b2_status questions_make(struct questions *out, const struct calib_params *from,
                              int64_t n, struct b2_err *err) NODISCARD;
void questions_free(struct questions *q); /* zeroed is fine */

#endif
