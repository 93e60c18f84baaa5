/*
 * tiers.h - a table of tokens in two types: its frequent rows apart from the others.
 *
 * A few tokens make up most of every text. A file may store their rows in more bits than
 * the others', as two tensors instead of token_embd.weight:
 *
 *   token_embd.hot.weight    the rows that are marked, in the order of the table
 *   token_embd.rare.weight   all others, in the order of the table
 *   bonsai2.tiers.hot  u8[]  the marks: bit r % 8 of byte r / 8 is row r; as many bytes
 *                            as the vocabulary needs, bits behind it are 0
 *
 * Without output.weight both together are the head too. A program that does not know the
 * key misses token_embd.weight and refuses the file. Every key below bonsai2.tiers. must
 * be understood.
 */
#ifndef FORMAT_TIERS_H
#define FORMAT_TIERS_H

#include "base/arena.h"
#include "format/meta.h"

#define TIERS_TABLE "token_embd.weight"
#define TIERS_HOT "token_embd.hot.weight"
#define TIERS_RARE "token_embd.rare.weight"
#define TIERS_KEY "bonsai2.tiers.hot"

/* Whether key belongs to this declaration. */
bool tiers_is_key(const char *key);
bool tiers_declared(const struct meta *m);

/* The marked rows of a table of so many, ascending, in a's memory. B2_EFORMAT: another
 * number of marks, no row or every row marked. B2_EUNSUP: a strange key of the group. */
enum b2_status tiers_read(const int32_t **row, int64_t *n_hot, const struct meta *m,
                          int64_t rows, struct arena *a, struct b2_err *err) NODISCARD;

/* Marks n rows of a table of so many. B2_ENOMEM. */
enum b2_status tiers_set_key(struct meta *m, const int32_t *row, int64_t n,
                             int64_t rows, struct b2_err *err) NODISCARD;

static inline uint64_t tiers_mark_bytes(int64_t rows)
{
    return ((uint64_t)rows + 7) / 8;
}

#endif
