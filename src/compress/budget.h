/*
 * budget.h - which type for which tensor, so that the bytes suffice.
 *
 * Each unit (a tensor) has a few choices, each with its bytes and its damage. The
 * allocator takes one choice per unit so that the bytes stay within the budget and the
 * summed damage is small.
 */
#ifndef COMPRESS_BUDGET_H
#define COMPRESS_BUDGET_H

#include "base/error.h"

enum { BUDGET_MAX_CHOICES = 16 };

struct budget_choice {
    uint64_t bytes;
    double damage; /* >= 0 */
};

struct budget_unit {
    int n_choices; /* >= 1 */
    struct budget_choice choice[BUDGET_MAX_CHOICES];
    int pick; /* the result: an index into choice */
};

/* The fewest bytes that any allocation takes. */
uint64_t budget_min_bytes(const struct budget_unit *units, int64_t n);

/* Fills every pick. The result depends on the numbers alone (ties go to the earlier
 * unit and choice); its damage is above the optimum by at most the worth of one step
 * of one unit. B2_EARG: even the smallest choices are over max_bytes. B2_ENOMEM. */
enum b2_status budget_allocate(struct budget_unit *units, int64_t n, uint64_t max_bytes,
                               struct b2_err *err) NODISCARD;

#endif
