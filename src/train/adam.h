/*
 * adam.h - AdamW (arXiv:1711.05101) and its rates over time.
 */
#ifndef TRAIN_ADAM_H
#define TRAIN_ADAM_H

#include "train/mm.h"

/* Numbers that move together: values, gradients, moments, all [n]. */
struct param {
    real *p, *g, *m, *v;
    int64_t n;
    real rate; /* the schedule's share is multiplied with it; 0: they rest */
};

struct adam {
    real beta1, beta2, eps, decay;
    int64_t step; /* of the one to come, from 1 */
};

/* p -= rate share (m^ / (sqrt(v^) + eps) + decay p), with moments of g clip and their
 * corrections for a start at zero. g becomes zero. */
void adam_step(const struct env *e, const struct adam *a, const struct param *p,
               real share, real clip);

/* Sum of the squares of p->g, in fixed parts that are added in order. Not a number when
 * any of them is none. parts: adam_parts(n) doubles of scratch. */
double adam_norm2(const struct env *e, const struct param *p, double *parts);
int64_t adam_parts(int64_t n);

enum schedule_kind {
    SCHEDULE_COSINE, /* falls to the floor along half a cosine */
    SCHEDULE_WSD     /* stays, and falls in a line over the last 30 % */
};

struct schedule {
    enum schedule_kind kind;
    int64_t warmup, total; /* steps */
    double floor;          /* share at the end */
};

/* Share of the full rate at a step from 1 to total. */
double schedule_at(const struct schedule *s, int64_t step);

#endif
