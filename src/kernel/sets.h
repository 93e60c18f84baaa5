/*
 * sets.h - ternary rows repacked for the kernels: sets of sixteen rows, one stream.
 *
 * A file keeps each row whole, so sixteen rows that advance together are sixteen streams
 * of short pieces. A set puts them together: a line of 64 bytes has four bytes of each
 * row, a dword for each, so that a register is one aligned load, every lane is a row, and
 * no sum ever crosses lanes. Both forms hold codes plus one, 0..3, by position (enum
 * kq_order, whatever the order), and meet the activation's q and e alone:
 *
 *   KSET_2BITS  a line for each group of KQ_GROUP positions: bits 2 k, 2 k + 1 of byte b
 *               are position 4 k + b of the group. 2 bits a weight.
 *   KSET_TRITS  five groups in four lines. Line l has base-3 bytes: digits 0-3 are group l
 *               as above, digit 4 of byte b is position 4 l + b of the fifth group. A byte
 *               is ceil(256 / 243 * (81 d0 + 27 d1 + 9 d2 + 3 d3 + d4)) - 128 modulo 256:
 *               a signed compare gives d0, and times 3 modulo 256 the next. Groups that
 *               are left over at the end of a row are lines of KSET_2BITS. 1.6 bits.
 *
 * A set is its scales, FP16, [n / block][16], filled up to whole lines, then the lines.
 * Rows that are missing in the last set have scales of 0.
 */
#ifndef KERNEL_SETS_H
#define KERNEL_SETS_H

#include "kernel/kernel.h"

enum { KSET_LINE = 64, KSET_UNIT = 5 }; /* bytes of a line; groups in four lines */

/* Rows of type t can be kept in this form without loss. */
bool kset_possible(enum dtype t, enum kset_form form);
/* Bytes of a set of rows of n weights with a scale for each `block`, and of its scales. */
uint64_t kset_bytes(enum kset_form form, int block, int64_t n);
int64_t kset_scale_bytes(int block, int64_t n);

/* A set from up to KSET_ROWS rows of w (code_step is their length; codes -1..2, base-3
 * forms below 2, in the type's order; scales that FP16 holds). */
void kset_pack(uint8_t *set, enum kset_form form, const struct kq_mat *w);
/* Rows [first, first + w->rows) of a set back into w's codes and scales, which are
 * written. */
void kset_unpack(const struct kq_mat *w, const uint8_t *set, enum kset_form form,
                 int64_t first);

#endif
