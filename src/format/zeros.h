/*
 * zeros.h - groups of zeros that a file leaves out.
 *
 * Of a ternary matrix every row may leave out the same number of blocks, all zeros. The
 * tensor keeps its name and is narrower by them, so that a program that does not know
 * these keys finds a shape that contradicts the model's and refuses the file:
 *
 *   bonsai2.zeros.names   str[]  the tensors
 *   bonsai2.zeros.widths  u32[]  values of a row of each, with what was left out
 *   bonsai2.zeros.marks   u8[]   of each tensor, of each row: bit b % 8 of byte b / 8 is 1
 *                                where block b of the whole row is stored; whole bytes, bits
 *                                behind the last block are 0
 *
 * A reader must understand every key below bonsai2.zeros. Whoever opens such a file here
 * sees whole matrices, made when they are loaded, and none of these keys.
 */
#ifndef FORMAT_ZEROS_H
#define FORMAT_ZEROS_H

#include "format/meta.h"
#include "tensor/dtype.h"

/* Bytes of marks of a row of so many blocks. */
static inline uint64_t zeros_mark_bytes(int64_t blocks)
{
    return ((uint64_t)blocks + 7) / 8;
}

/* Marks all blocks of a row but the first left_out of those that decode to zeros. False:
 * there are fewer. */
bool zeros_mark_row(uint8_t *marks, enum dtype t, const uint8_t *row, int64_t blocks,
                    int64_t left_out);

/* The marked blocks of a row, side by side; and the whole row from them. */
void zeros_pack_row(uint8_t *dst, const uint8_t *marks, enum dtype t,
                    const uint8_t *row, int64_t blocks);
void zeros_unpack_row(uint8_t *row, const uint8_t *marks, enum dtype t,
                      const uint8_t *stored, int64_t blocks);

/* n names and widths; n_marks bytes. n 0: no key. B2_ENOMEM. */
enum b2_status zeros_set_keys(struct meta *m, const struct meta_str *names,
                              const uint32_t *widths, uint64_t n, const uint8_t *marks,
                              uint64_t n_marks, struct b2_err *err) NODISCARD;
/* Other marks for a file that has the keys, as many. B2_ENOMEM. */
enum b2_status zeros_set_marks(struct meta *m, const uint8_t *marks, uint64_t n_marks,
                               struct b2_err *err) NODISCARD;

#endif
