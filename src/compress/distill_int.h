/*
 * distill_int.h - what the files of distillation share.
 */
#ifndef COMPRESS_DISTILL_INT_H
#define COMPRESS_DISTILL_INT_H

#include "base/str.h"
#include "compress/distill.h"
#include "compress/netmodel.h"
#include "kernel/kernel.h"

/* Everything that a checkpoint holds besides latents and norms. */
struct distill_state {
    int64_t step;      /* done */
    int64_t adam_step; /* updates made: steps without faults */
    int64_t best_step;
    int64_t stale; /* evaluations since the best */
    int64_t n_faults, n_back;
    int64_t n_points;
    char core[32];     /* OpenBLAS's kernels at the start */
    double rate_share; /* halved by the guard */
    double loss_mean;  /* running mean of the loss; 0: none yet */
    double loss_sum;   /* since the last evaluation */
    int64_t loss_n;
    double best; /* mean over regions of the best state */
    double before[DISTILL_MAX_REGIONS], after[DISTILL_MAX_REGIONS]; /* of the best */
};

struct distill {
    const struct distill_params *p;
    struct distill_report *r;
    struct blas *blas;
    struct model *tm, *sm;
    struct netmodel t, s;
    struct net_work *tw, *sw;
    enum net_keep keep; /* of the student's passes: what memory allows */
    struct kernels kernels;
    struct env env;
    struct head_loss loss;
    real *dh;
    int32_t *pos;
    struct calib train;
    int64_t *order; /* training sequences of an epoch; held-out ones are left out */
    int64_t n_order, epoch;
    int64_t *pool_of;  /* sequences that may be trained on */
    int32_t *held_ids; /* [regions' seqs, ctx], region after region */
    int64_t n_held;
    double *parts; /* of gradient norms */
    struct distill_state st;
    uint8_t *best; /* the best state: packed matrices, then norms */
    uint64_t best_bytes;
    struct str recipe; /* what a checkpoint must agree with */
    char *state_path;
};

/* distill_state.c */
enum b2_status distill_save(struct distill *d, struct b2_err *err) NODISCARD;
/* B2_ENOTFOUND: there is none. B2_EARG: of another run. B2_ETRUNC, B2_EFORMAT. */
enum b2_status distill_load(struct distill *d, struct b2_err *err) NODISCARD;

/* distill_out.c: the student's file with the best state in it. */
enum b2_status distill_write(struct distill *d, struct b2_err *err) NODISCARD;
/* The trained numbers as they are now into d->best. */
void distill_keep(struct distill *d);
uint64_t distill_packed_bytes(const struct netmodel *s);

/* distill_data.c: sequences for training and of regions. */
enum b2_status distill_data(struct distill *d, struct b2_err *err) NODISCARD;
/* Sequence k of all that are taken in order, shuffled anew in each epoch. */
const int32_t *distill_sequence(struct distill *d, int64_t k);

#endif
