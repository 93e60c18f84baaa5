/*
 * convert_rows.h - rows of one type into rows of another, and what that costs.
 *
 * Between ternary types codes and scales are carried over as they are where the groups
 * allow it; everything else goes through F32 values. Errors are differences of values
 * before and after.
 */
#ifndef COMPRESS_CONVERT_ROWS_H
#define COMPRESS_CONVERT_ROWS_H

#include "backend/backend.h"
#include "base/arena.h"
#include "compress/heads.h"
#include "tensor/dtype.h"

struct convert_error {
    double max;    /* largest |after - before|; infinite when a value left the range */
    double sum_sq; /* of all differences */
    double n_values; /* values compared */
};

struct convert_rows; /* how the rows of one tensor change, with its scratch */

struct convert_rows_shape {
    enum dtype from, to;  /* to: DTF_WRITE, or the same type */
    int64_t n_src, n_dst; /* values of a row; n_dst is less when padding is dropped */
    float scale;          /* of the source, tensor_scale() */
    bool log_of_minus;    /* each value x becomes ln(-x) */
    const struct heads
        *group; /* value heads along the row, to be grouped; NULL: none */
    float add;  /* to each value, in F32; the error counts from the sum */
    /* May be NULL; borrowed. Its block-Hadamard rotation of the first `width` values is
     * taken off on the way, W = (W' H) diag(s). */
    const struct rotation *unfold;
};

/* Scratch comes from a. B2_EARG: a row is not a multiple of its type's group. */
enum b2_status convert_rows_new(struct convert_rows **out,
                                const struct convert_rows_shape *shape, struct arena *a,
                                struct b2_err *err) NODISCARD;

uint64_t convert_rows_src_bytes(const struct convert_rows *c); /* per row */
uint64_t convert_rows_dst_bytes(const struct convert_rows *c);

/* Converts one row and adds its error to e. B2_EFORMAT: NaN or infinity where the type
 * cannot hold it (column in the message), or ternary blocks with codes that no encoder
 * writes (block in the message). B2_EUNSUP: a scale above FP16's range. */
enum b2_status convert_rows_row(struct convert_rows *c, uint8_t *dst,
                                const uint8_t *src, struct convert_error *e,
                                struct b2_err *err) NODISCARD;

#endif
