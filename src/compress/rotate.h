/*
 * rotate.h - the block-Hadamard rotation of a weight's input axis, and its keys.
 *
 *   fold     W' = W diag(s) H   per block of N columns
 *   runtime  y  = W' H (s * x)
 *
 * H is symmetric and its own inverse (tensor/hadamard.h). One sign vector
 * per input width, shared by all weights of that width, drawn from the seed and stored
 * in the file (FORMATS.md §1.5, version 1 of the contract: linear layers only; the
 * embedding stays as it is, also when it is the head).
 */
#ifndef COMPRESS_ROTATE_H
#define COMPRESS_ROTATE_H

#include "format/meta.h"

enum { ROTATE_MAX_BLOCK = 1024, ROTATE_MAX_WIDTHS = 32 };

struct rotate; /* block sizes and the sign vectors of some widths */

enum {
    ROTATE_EACH = 0,  /* every width in blocks of rotate_auto_block() */
    ROTATE_WHOLE = 1, /* of hadamard_largest(): of orders 12, 20 and 28 too */
};

/* block: a power of two, 2 to 65536, or one of those. NULL: out of memory. */
struct rotate *rotate_new(int64_t block, uint64_t seed);
void rotate_free(struct rotate *r); /* NULL is fine */

int64_t rotate_mode(const struct rotate *r); /* what rotate_new() was given */
/* The block of all widths that were added; 0: they differ, there are none, or it is no
 * power of two. */
int64_t rotate_block(const struct rotate *r);

/* Makes the signs of a width ready. Widths may come in any order: the signs depend on
 * seed and width alone. B2_EARG: the block does not divide it, or too many widths. */
enum b2_status rotate_add_width(struct rotate *r, int64_t width,
                                struct b2_err *err) NODISCARD;

/* Folds one row [width] in place; the width must have been added. Thread-safe. */
void rotate_fold_row(const struct rotate *r, float *row, int64_t width);

/* Takes the rotation off again, in F32. */
void rotate_unfold_row(const struct rotate *r, float *row, int64_t width);

/* The block of one width that was added. */
int64_t rotate_block_of(const struct rotate *r, int64_t width);

/* A rotation for rows of n values that does what r does to columns [from, from + n) of
 * rows of width; from and n are multiples of the block. NULL: out of memory. */
struct rotate *rotate_slice(const struct rotate *r, int64_t width, int64_t from,
                            int64_t n);

/* Sets prism.hadamard.*, or bonsai2.rotation.* (model/rotation.h) when rotate_block() is
 * 0; names are the folded weights in file order, widths in the order in
 * which they were added. */
enum b2_status rotate_set_keys(const struct rotate *r, struct meta *m,
                               const struct meta_str *names, uint64_t n_names,
                               struct b2_err *err) NODISCARD;

/* The largest power of two that divides n, at most ROTATE_MAX_BLOCK. */
int64_t rotate_auto_block(int64_t n);

#endif
