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
enum { N_HARD = 8 };

struct distill_state {
    int64_t step;      /* done */
    int64_t adam_step; /* updates made: steps without faults */
    int64_t best_step;
    int64_t improved; /* 1: there is a state better than the student */
    int64_t stale;    /* evaluations since the best */
    int64_t n_faults, n_back;
    int64_t n_points;
    char core[32];            /* what made products at the start: distill_core() */
    double rate_share;        /* halved by the guard */
    double loss_mean;         /* running mean of the loss; 0: none yet */
    int64_t jump_step;        /* the last step whose loss jumped; 0: none yet */
    double jump_loss;         /* that loss */
    int64_t hard[N_HARD];     /* the last steps whose text is hard; 0: none */
    int64_t n_hard;           /* found so far */
    struct distill_parts sum; /* since the last evaluation */
    int64_t sum_n;
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
    struct dnn *dnn;            /* of steps; NULL: all in F32 */
    struct model *tm, *sm, *om; /* om: what the student was made from, often tm */
    struct netmodel t, s;
    const struct netmodel *shape; /* of the student, while there is but a plan of it */
    struct net_work *tw, *sw;
    struct distill_cache *cache; /* distill_teacher.c; NULL: the teacher itself */
    struct file_space *space; /* of latents that do not fit into memory; NULL: none */
    enum net_keep keep;       /* of the student's passes: what memory allows */
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
    /* distill_loss.c */
    int32_t *target; /* [micro, ctx] tokens that follow; NULL: not needed */
    int64_t n_taps;
    real *seen; /* [n_taps, tokens, d] hidden states of the teacher */
    struct net_tap t_tap, s_tap;
    double hidden_now;        /* weight at this step; 0 when scoring */
    real token_weight;        /* of a token in a step's gradient */
    struct distill_parts sum; /* of a step, over passes */
    double *parts;            /* of gradient norms */
    struct distill_state st;
    uint8_t *best; /* the best state: packed matrices, then norms */
    uint64_t best_bytes;
    char note[160];    /* of the live line */
    struct str recipe; /* what a checkpoint must agree with */
    char *state_path, *lock_path;
    int lock; /* -1: not held */
};

/* distill_state.c */
/* What the result depends on, as JSON. */
enum b2_status distill_make_recipe(struct distill *d, struct b2_err *err) NODISCARD;
/* Names the state's file and keeps other processes from it. B2_EEXIST: one has it. */
enum b2_status distill_open_state(struct distill *d, struct b2_err *err) NODISCARD;
void distill_close_state(struct distill *d);
enum b2_status distill_save(struct distill *d, struct b2_err *err) NODISCARD;
/* B2_ENOTFOUND: there is none. B2_EARG: of another run. B2_ETRUNC, B2_EFORMAT. */
enum b2_status distill_load(struct distill *d, struct b2_err *err) NODISCARD;

/* distill_out.c: the student's file with the best state in it. */
enum b2_status distill_write(struct distill *d, struct b2_err *err) NODISCARD;
/* The trained numbers as they are now into d->best. */
void distill_keep(struct distill *d);
/* Lets go of the memory of the best state's first n_bytes, if it lies in the space. */
void distill_rest_best(const struct distill *d, uint64_t n_bytes);

/* distill_gemm.c */
enum b2_status distill_open_gemm(struct distill *d, struct b2_err *err) NODISCARD;
void distill_close_gemm(struct distill *d);
/* Whether products are those of a step, or those of a score. */
void distill_rough(struct distill *d, bool on);
/* The libraries' kernels in few words: the result depends on them in its last digits. */
void distill_core(const struct distill *d, char *buf, size_t size);

/* distill_plan.c: before the student's net is made; fills the report's plan, opens the
 * space. B2_ENOMEM: over --mem-limit. */
enum b2_status distill_plan(struct distill *d, struct b2_err *err) NODISCARD;
struct netmodel_how distill_how(struct distill *d); /* of the student */
/* Of a dry run: tokens a second, from two short trials. */
enum b2_status distill_estimate(struct distill *d, struct b2_err *err) NODISCARD;

/* distill_eval.c */
bool distill_stopped(const struct distill *d);
/* B2_ECANCEL, and from where the same command goes on. */
enum b2_status distill_interrupted(const struct distill *d,
                                   struct b2_err *err) NODISCARD;
/* Both models over the sequences in d->ids. dh set: gradients are added up. */
void distill_pass(struct distill *d, struct head_sums *sums, int64_t n_seqs,
                  real weight, real *dh);
double distill_mean(const double *x, int n);
/* Scores the state, keeps it when it is the best so far, and saves everything. */
enum b2_status distill_take_stock(struct distill *d, struct b2_err *err) NODISCARD;

/* distill_modes.c. The first is netmodel_how.kind, with the parameters as ctx. */
void distill_kind(void *ctx, const char *name, struct latent_how *out);
bool distill_is_free_type(const char *word);
enum b2_status distill_check_modes(const struct distill *d,
                                   struct b2_err *err) NODISCARD;
/* Each set of trained numbers, with the rate of the step to come, in one order. */
typedef void distill_param_fn(struct distill *d, const struct param *p, void *ctx);
void distill_each(struct distill *d, distill_param_fn *fn, void *ctx);
/* Sets how smooth codes are: hard when scoring. */
void distill_sharpen(struct distill *d, bool scoring);
void distill_modes_json(const struct distill_mode *m, struct str *out);

/* distill_loss.c */
int64_t distill_n_taps(const struct distill_loss *l, int64_t n_layers);
/* B2_EARG: a chosen layer that is not there. */
enum b2_status distill_check_loss(const struct distill *d,
                                  struct b2_err *err) NODISCARD;
enum b2_status distill_open_taps(struct distill *d, struct b2_err *err) NODISCARD;
double distill_hidden_weight(const struct distill *d); /* at this step */
void distill_targets(const struct distill *d, int64_t n_seqs);
double distill_scale_loss(struct distill *d); /* adds its gradient */
struct distill_parts distill_loss_of(const struct distill *d,
                                     const struct head_sums *sums, double scale);
void distill_loss_json(const struct distill_loss *l, struct str *out);

/* distill_teacher.c: the teacher's distributions from a file, where there is one. */
enum b2_status distill_teacher_check(const struct distill_params *p,
                                     struct b2_err *err) NODISCARD;
/* Makes what is missing of it; behind buffers and data. */
enum b2_status distill_teacher_open(struct distill *d, struct b2_err *err) NODISCARD;
void distill_teacher_close(struct distill *d);
/* Says whose rows sequence seq of the pass to come has: scored sequence i, the k-th that
 * is trained on. */
void distill_teacher_held(struct distill *d, int64_t seq, int64_t i);
void distill_teacher_trained(struct distill *d, int64_t seq, int64_t k);
void distill_teacher_row(void *ctx, int64_t token, real *yt,
                         const real *ys);                           /* head_io */
void distill_teacher_rest(const struct distill *d, int64_t n_seqs); /* of its memory */

/* distill_data.c: sequences for training and of regions. */
enum b2_status distill_data(struct distill *d, struct b2_err *err) NODISCARD;
void distill_data_free(struct distill *d);
/* Sequence k of the training: its tokens [ctx], and see attn.h for first [ctx]. */
void distill_sequence(const struct distill *d, int64_t k, int32_t *ids, int32_t *first);
void distill_block_of(const struct distill *d, const struct distill_block *b,
                      int32_t *ids, int32_t *first);

#endif
