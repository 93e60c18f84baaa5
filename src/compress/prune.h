/*
 * prune.h - a model made smaller by taking away what it can do without: hidden values of
 * feed-forward blocks, heads, kv groups, layers.
 *
 * What goes is decided layer by layer while calibration tokens walk through the teacher
 * and through what is left of it (walk.h); what stays makes up for it by least squares
 * (prune_solve.h). Rounds begin again at the source with a larger share; a round whose
 * divergence is above the limit is not taken. The result is a whole model of smaller
 * shapes in a GGUF, or a Hugging Face folder.
 *
 * Without calibration the order comes from a file of `analyze`, and nothing is restored.
 */
#ifndef COMPRESS_PRUNE_H
#define COMPRESS_PRUNE_H

#include "base/log.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/str.h"
#include "compress/calib.h"
#include "tensor/dtype.h"

struct cJSON;

enum { PRUNE_MAX_RULES = 64, PRUNE_MAX_GLOB = 256, PRUNE_MAX_ROUNDS = 8 };

struct prune_rule {
    char glob[PRUNE_MAX_GLOB]; /* over names without ".weight": blk.3.ffn_down, blk.3 */
    double share;              /* 0 to below 1; of a layer 0 or 1 */
};

/* "GLOB=SHARE". B2_EARG. */
enum b2_status prune_rule_read(struct prune_rule *r, const char *word,
                               struct b2_err *err) NODISCARD;

struct prune_params {
    const char *source, *output;
    const char *format;      /* NULL: gguf; else a word of convert.h: hf-bf16, … */
    const char *sensitivity; /* a file of `analyze`, or NULL */
    const struct calib_params *calib;
    struct prune_rule rule[PRUNE_MAX_RULES]; /* the last that matches wins */
    int n_rules;
    double ffn, kv, heads; /* shares of every layer that no rule names */
    int64_t layers;        /* those with the least influence go */
    double cap;            /* the most that a layer loses of one kind */
    int64_t multiple;      /* hidden values that stay are a multiple of this */
    bool uneven;           /* ffn is the share of all layers; dear ones lose less */
    bool no_restore;
    double mismatch; /* share of the correction for layers before */
    int rounds;
    double max_kld;  /* NaN: none */
    enum dtype type; /* of matrices whose columns change; N_DTYPES: as they were */
    uint64_t seed;
    bool force;
    uint64_t mem_limit; /* 0: none */
    struct pool *pool;
    const struct log *log;
    bool (*cancelled)(void *ctx);                                  /* may be NULL */
    void (*on_stage)(void *ctx, const char *name, uint64_t total); /* may be NULL */
    struct progress *progress;
    void *ctx_of_calls;
};

struct prune_part {
    int64_t n, gone;        /* hidden values, or heads */
    double plain, restored; /* share of outputs lost without and with restoring; NaN */
    double damp;      /* of the restoring (prune_restore.h); 0: left as it is; NaN */
    double held_gain; /* what it gained on tokens it was not solved on; NaN */
    int32_t *unit;    /* [gone] which */
    float *cost;      /* [gone] what each cost when it went */
};

struct prune_layer {
    bool gone;
    double skip; /* kld without it, or its influence, when it was chosen by that */
    struct prune_part ffn, heads;
    int64_t kv, kv_gone;
};

struct prune_report {
    struct prune_layer *layer; /* [n_layers] of the source */
    int64_t n_layers;
    int rounds, taken;            /* made, and the one that was written */
    double kld[PRUNE_MAX_ROUNDS]; /* on the probe; NaN: no calibration */
    int64_t params_before, params_after;
    uint64_t bytes_before, bytes_after;
    int64_t retyped; /* matrices whose type could not be kept */
    char arch[32];
    bool uneven; /* layers of different shapes */
};

/* Fills r on success (prune_report_free). B2_EARG: nothing to take away, or more than there
 * is; no round below the limit. B2_EUNSUP: a model that cannot lose that. Others as
 * analyze_run(). */
enum b2_status prune_run(struct prune_report *r, const struct prune_params *p,
                         struct b2_err *err) NODISCARD;
void prune_report_free(struct prune_report *r); /* zeroed is fine */

struct cJSON *prune_report_json(const struct prune_report *r);
void prune_report_text(const struct prune_report *r, struct str *out);

#endif
