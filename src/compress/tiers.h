/*
 * tiers.h - a table of tokens in two types (format/tiers.h) as a choice of the budget.
 *
 * Calibration counts the tokens. The table's candidates of two types give the most
 * frequent rows four bits and the others two or three: by quality/tiers.csv a twentieth of
 * the rows in 4 bits halves what two bits lose.
 */
#ifndef COMPRESS_TIERS_H
#define COMPRESS_TIERS_H

#include "backend/backend.h"
#include "compress/calib.h"
#include "compress/choose.h"

/* A source's table in two types stays as it is if the rules keep both tensors; else it
 * becomes one (modelfile.h). B2_EARG: the table alone is to be kept. */
enum b2_status tiers_open(struct modelfile *mf, const struct recipe *r,
                          struct b2_err *err) NODISCARD;

/* Ranks the rows of the table by how often ids has them (ties: the lower row first) and
 * adds its candidates of two types, where the budget chooses its type and may choose
 * theirs. Does nothing where it may not. B2_ENOMEM. */
enum b2_status tiers_add(struct choose *c, const int32_t *ids, int64_t n,
                         struct b2_err *err) NODISCARD;

/* list [rows of the table]: the cand->n_hot most frequent rows, then the others, both
 * ascending. */
void tiers_list(const struct choose *c, const struct choose_candidate *cand,
                int64_t rows, int32_t *list);

/* A candidate's bytes as a weight. t and list (tiers_list()) outlive it; for one of one
 * type neither is used. */
struct weight tiers_weight(const struct choose_item *it,
                           const struct choose_candidate *cand, const uint8_t *bytes,
                           struct weight_tiers *t, const int32_t *list);

#endif
