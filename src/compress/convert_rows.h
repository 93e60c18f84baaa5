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
#include "tensor/dtype.h"

struct convert_error {
    double max;    /* largest |after - before|; infinite when a value left the range */
    double sum_sq; /* of all differences */
    double n_values; /* values compared */
};

struct convert_rows; /* how the rows of one tensor change, with its scratch */

/* Rows of n weights from one type to another (DTF_WRITE, or the same type). unfold (may be
 * NULL; borrowed) takes the block-Hadamard rotation off on the way: W = (W' H) diag(s).
 * Scratch comes from a. B2_EARG: n is not a multiple of a type's group. */
enum b2_status convert_rows_new(struct convert_rows **out, enum dtype from,
                                enum dtype to, int64_t n, const struct rotation *unfold,
                                struct arena *a, struct b2_err *err) NODISCARD;

uint64_t convert_rows_src_bytes(const struct convert_rows *c); /* per row */
uint64_t convert_rows_dst_bytes(const struct convert_rows *c);

/* Converts one row and adds its error to e. B2_EFORMAT: NaN or infinity where the type
 * cannot hold it (column in the message), or ternary blocks with codes that no encoder
 * writes (block in the message). B2_EUNSUP: a scale above FP16's range. */
enum b2_status convert_rows_row(struct convert_rows *c, uint8_t *dst,
                                const uint8_t *src, struct convert_error *e,
                                struct b2_err *err) NODISCARD;

#endif
