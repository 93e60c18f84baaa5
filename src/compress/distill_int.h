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

/* A sequence to train on: block of ctx tokens of a source. */
struct distill_block {
    int source;
    int64_t block;
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
    int32_t *ids, *first, *pos; /* [micro, ctx] of a pass: tokens, where each one's
                                 * document begins in its sequence, places in it */
    struct calib train;
    struct calib_stream streams[CALIB_MAX_FILES];
    struct distill_block *order; /* [steps * batch] */
    int64_t n_order;
    int32_t *held; /* [regions' seqs, 2, ctx], region after region: ids, first */
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
void distill_data_free(struct distill *d);
/* Sequence k of the training: its tokens [ctx], and see attn.h for first [ctx]. */
void distill_sequence(const struct distill *d, int64_t k, int32_t *ids, int32_t *first);

#endif
