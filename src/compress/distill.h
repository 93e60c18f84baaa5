/*
 * distill.h - a ternary student trained to say what its teacher says.
 *
 *   loss = kl T^2 forward KL over the whole vocabulary + ce cross entropy
 *        + hidden relative squares of chosen layers' outputs      each a mean over the
 *        + scale squares of the scales' logarithms                tokens of a step
 *
 * Latents behind the codes (latent.h), scales and norms move by AdamW; what is evaluated
 * is what a packed file computes. Held-out sequences of each region are scored before the
 * start and at even distances; of all states that are worse than the start in no region
 * the one with the lowest mean is kept and written. So the output is never worse there
 * than the student that came in.
 *
 * Guard: a loss or a gradient that is no number changes nothing, and the rates are halved;
 * a loss that jumps takes everything back to the last checkpoint, with half the rates. If
 * it comes again at the same step, the step's text is a hard one: it counts, and the rates
 * are as before.
 *
 * At each evaluation all that moves goes to OUT.b2distill, whole or not at all. A run that
 * was killed goes on from there and ends with the same bytes (on the same processor level
 * and OpenBLAS kernels; others are announced).
 */
#ifndef COMPRESS_DISTILL_H
#define COMPRESS_DISTILL_H

#include "base/log.h"
#include "base/pool.h"
#include "base/progress.h"
#include "compress/calib.h"
#include "compress/latent.h"

/* Of what products of matrices are made (train/mm.h, mm_bf16()). */
enum distill_gemm {
    DISTILL_AUTO, /* BF16 where the processor and oneDNN are there for it */
    DISTILL_F32,
    DISTILL_BF16 /* or an error */
};

enum { DISTILL_MAX_REGIONS = CALIB_MAX_FILES, DISTILL_MAX_CHOSEN = 64 };

struct distill_rates {
    double latent, scale, norm; /* of a full step; in units of the starting scale, of
                                 * logarithms, of gains */
};

/* Weights of the parts; 0: not computed. */
struct distill_loss {
    double kl, ce, hidden, scale;
    int64_t hidden_layers; /* of how many layers' outputs, at even distances */
    int n_chosen;          /* > 0: of these instead, different from each other */
    int64_t chosen[DISTILL_MAX_CHOSEN];
    double hidden_until; /* share of the steps over which it falls to 0; 0: it stays */
};

/* GLOB or GLOB=WORD over names of tensors; the last that matches counts. */
struct distill_rules {
    const char *const *item;
    int n;
};

struct distill_mode {
    enum latent_kind kind; /* of ternary matrices: all, scales or lora */
    int64_t rank;          /* of lora */
    double soft; /* share of the steps with smooth codes (latent.h); 0: none */
    struct distill_rules free;          /* =TYPE [Q8_0]: plain weights of that type */
    struct distill_rules freeze;        /* =STEPS [all]: rest */
    struct distill_rules freeze_scales; /* =STEPS: of matrices the scales alone */
};

struct distill_params {
    const char *teacher, *student, *output;
    const char *original; /* what the student was made from when it is not the teacher
                           * but a part of it (prune.h): of its vocabulary and width,
                           * layers as they may be; NULL: the teacher */
    bool force, dry_run;
    bool
        go_on; /* with force: an unfinished run of the same settings is not thrown away */
    const struct calib_params *data; /* files, avoid; n_tokens and ctx are set here */
    const char *teacher_cache; /* the teacher's teacher_k most likely tokens are kept
                                * there and used again; NULL: the teacher runs along */
    int64_t teacher_k;
    const char *const *held; /* files of regions; none: a sixteenth of each training
                              * file, at most held_tokens */
    int n_held;
    int64_t held_tokens;              /* of a region */
    int64_t steps, batch, micro, ctx; /* sequences of a step, at a time; tokens */
    int64_t eval_every;               /* steps */
    int64_t patience; /* evaluations without a better one before it stops; 0: never */
    struct distill_rates rates;
    struct distill_loss loss;
    struct distill_mode mode;
    struct schedule schedule; /* kind, warmup, floor; total becomes steps */
    double temperature, clip;
    enum distill_gemm gemm; /* of steps; what is scored is computed in F32 */
    uint64_t seed;
    struct pool *pool;
    unsigned cpu;       /* features that kernels may use (base/cpu.h) */
    uint64_t mem_limit; /* 0: none */
    const struct log *log;
    bool (*cancelled)(void *ctx);                                  /* may be NULL */
    void (*on_stage)(void *ctx, const char *name, uint64_t total); /* may be NULL */
    struct progress *progress;
    void *ctx_of_calls;
    int64_t
        fault_step; /* tests: the loss of this step counts as fault_value; 0: none */
    double fault_value;
    bool fault_stays;    /* tests: also when the step is made again */
    int64_t fault_again; /* tests: a further such step; 0: none */
};

struct distill_region {
    char name[64];
    int64_t seqs;
    double before, after; /* nat */
};

/* A text that was learnt from. */
struct distill_source {
    char name[64];
    int64_t tokens, used; /* there are to learn from and score; learnt from, again and
                           * again where there are too few */
};

/* The loss and its parts, unweighted; NaN: not computed. */
struct distill_parts {
    double loss, kl, ce, hidden, scale;
};

/* One evaluation. */
struct distill_point {
    int64_t step, tokens;
    struct distill_parts train; /* means of the steps since the last one */
    double held;                /* mean over regions */
    double region[DISTILL_MAX_REGIONS];
};

struct distill_report {
    struct distill_region region[DISTILL_MAX_REGIONS];
    int n_regions;
    struct distill_source source[CALIB_MAX_FILES];
    int n_sources;
    double of_kind[N_TEXT_KINDS]; /* shares of the tokens learnt from */
    struct distill_point *curve;  /* [n_points] */
    int64_t n_points;
    int64_t steps, tokens, best_step;
    bool improved; /* false: nothing was better, the student is written as it came */
    int64_t n_latents, n_trained, changed; /* matrices, weights, codes that changed */
    int64_t n_faults, n_back;              /* no numbers; jumps gone back for */
    double before, after;                  /* means over regions */
    double seconds, tokens_per_s, rate_share;
    uint64_t plan_bytes; /* of memory, beside mapped_bytes of both models */
    uint64_t mapped_bytes, disk_bytes; /* disk: latents that do not fit; 0: all do */
    uint64_t
        checkpoint_bytes;     /* on the disk, twice while one takes the other's place */
    uint64_t step_disk_bytes; /* of that, read and written by a step, at most */
    int64_t n_layers, resident_layers; /* whose latents stay in memory */
    double flops, bytes_per_s;         /* of a dry run's trial; 0: none */
    char *recipe; /* all that the result depends on, as JSON; NULL of a dry run */
    char blas_core[32];
    char dnn[48]; /* "oneDNN 2.6.3"; "": all products were F32 */
    bool resumed, stopped_early;
};

/* B2_EARG: a budget of steps or data that cannot work, an unfinished run of other
 * settings. B2_EUNSUP: models that cannot be distilled. B2_ENOTFOUND: no OpenBLAS.
 * B2_ENOMEM: the plan is over the limit; says by how much. B2_ECANCEL: stopped, what was
 * done is kept. report is filled as far as it came; distill_report_free(). */
enum b2_status distill_run(struct distill_report *report,
                           const struct distill_params *p,
                           struct b2_err *err) NODISCARD;
void distill_report_free(struct distill_report *r);

#endif
