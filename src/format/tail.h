/*
 * tail.h - padded tensors: rows widened to a multiple of their type's group.
 *
 * Block types hold whole groups. A weight whose rows a group does not divide can be
 * stored with wider rows: ne[0] in the file is the stored width, and two keys tell what
 * it means.
 *
 *   bonsai2.tail.names   str[]  the padded tensors, each once
 *   bonsai2.tail.widths  u32[]  values of a row that count, in the same order
 *
 * Columns from the width on are padding. The writer gives them zeros; a reader drops
 * them, whatever they hold. A program that does not know the keys finds a shape that
 * contradicts the model's and refuses the file. Every key below bonsai2.tail. must be
 * understood: a strange one means rows of another layout, and is an error.
 */
#ifndef FORMAT_TAIL_H
#define FORMAT_TAIL_H

#include "format/meta.h"
#include "tensor/tensor.h"

/* Whether key belongs to this declaration. */
bool tail_is_key(const char *key);

/* Columns that rows of this width lack to be a multiple of t's group; 0: none. */
static inline int64_t tail_pad(enum dtype t, int64_t width)
{
    int64_t block = dtype_info(t)->block;

    return (block - width % block) % block;
}

/* Marks t, whose ne[0] is the stored width, as padded from width on. B2_EFORMAT: t is no
 * matrix, width is not below the stored one, or the padding is a whole group or more. */
enum b2_status tail_apply(struct tensor *t, uint32_t width,
                          struct b2_err *err) NODISCARD;

/* Sets the two keys; n = 0 sets none. */
enum b2_status tail_set_keys(struct meta *m, const struct meta_str *names,
                             const uint32_t *widths, uint64_t n,
                             struct b2_err *err) NODISCARD;

#endif
