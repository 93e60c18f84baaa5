/*
 * remove.h - layers as a choice of the budget.
 *
 * For n = 0, 1, 2 ... up to a limit: the source without its n least layers (prune.h, what
 * stays makes up for it), and the types that the budget would choose for that, both in nat.
 * What loses least in sum is made. The search ends at the first n that is no better than
 * the one before, budgets under the smallest types being worse than any. Smaller models and
 * their costs lie beside the output until it is done (OUT.removed-N.*), so that a run that
 * was stopped goes on with them.
 */
#ifndef COMPRESS_REMOVE_H
#define COMPRESS_REMOVE_H

#include "compress/pipeline.h"

enum { REMOVE_MAX = 64 };

struct remove_report {
    int n;                         /* of choices that were tried: layers 0 to n - 1 */
    int taken;                     /* layers that went */
    double pruned[REMOVE_MAX + 1]; /* nat by the layers that go */
    double types[REMOVE_MAX + 1];  /* by types; infinite: no types are small enough */
};

/* pipeline_run() with at most max_layers layers less; 0: just that. Else p has an output, effort normal and a
 * budget in bytes. Errors of pipeline_run() and prune_run(). */
enum b2_status remove_run(struct report *r, struct remove_report *found,
                          const struct pipeline_params *p, int max_layers,
                          struct b2_err *err) NODISCARD;

#endif
