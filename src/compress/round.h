/*
 * round.h - one tensor to its chosen type, in batches of rows.
 */
#ifndef COMPRESS_ROUND_H
#define COMPRESS_ROUND_H

#include "compress/scan.h"
#include "compress/work.h"

/* Rounds tensor it of c to its pick and appends the bytes to the open piece of w. stat:
 * of the whole tensor, rows added in order. Memory: one batch of a few MB.
 * B2_EUNSUP: a scale beyond FP16 (tensor, row and columns are named). B2_ECANCEL. On an
 * error the piece is abandoned by whoever opened it. */
enum b2_status round_tensor(const struct choose *c, const struct choose_item *it,
                            struct modelfile *mf, const struct scan_env *env,
                            struct work *w, struct fit_stat *stat,
                            struct b2_err *err) NODISCARD;

#endif
