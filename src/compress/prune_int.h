/*
 * prune_int.h - what the steps of pruning share.
 */
#ifndef COMPRESS_PRUNE_INT_H
#define COMPRESS_PRUNE_INT_H

#include "compress/probe.h"
#include "compress/prune.h"
#include "compress/prune_solve.h"
#include "compress/sensitivity.h"
#include "compress/walk.h"
#include "compress/work.h"

/* What goes of a layer when all rounds are done. */
struct prune_plan {
    bool gone;
    int64_t ffn;       /* hidden values */
    int64_t kv;        /* whole kv groups, with their heads */
    int64_t per_group; /* heads of each kv group that stays */
};

struct prune {
    const struct prune_params *p;
    struct prune_report *r;
    struct model *m;
    struct blas *blas;
    struct walk *walk;
    struct calib calib;
    char *calib_text;
    struct sensitivity sens; /* n_layers 0: none */
    struct prune_plan *plan; /* [n_layers] */
    struct work *work;
    struct walk_weights teacher, student;
    struct probe probe;
    float *x[2]; /* [n_seqs, ctx, D] of teacher and student */
    int64_t n_calib;
    int round;
    char sha256[65];
};

enum { PRUNE_TEACHER = 0, PRUNE_STUDENT = 1 };

/* What became of a matrix; NaN: not measured. */
struct prune_kept {
    double plain, restored; /* share of outputs lost without and with restoring */
    double damp;            /* of the restoring; 0: the matrix was left as it is */
    double held_gain;       /* what restoring gained on tokens it was not solved on */
};

/* A layer as its piece has it: masks, then costs, then the bytes of o and down. */
struct prune_found {
    struct prune_kept o, down;
};

/* A layer while it is pruned. */
struct cutting {
    struct prune *k;
    int64_t layer;
    struct prune_found found;
    uint8_t *ffn, *head;         /* masks */
    float *ffn_cost, *head_cost; /* of those that are gone */
    uint8_t *column;             /* mask of o's or down's columns */
    struct str o, down;          /* bytes */
};

/* prune_plan.c */
enum b2_status prune_make_plan(struct prune *k, struct b2_err *err) NODISCARD;
/* What of a layer is to be gone after a round. */
struct prune_plan prune_plan_of(const struct prune *k, int round, int64_t layer);
bool prune_heads_change(const struct prune *k, int64_t layer);

/* prune_layers.c: rounds, layer by layer, into pieces. */
enum b2_status prune_round(struct prune *k, int round, struct b2_err *err) NODISCARD;
uint64_t prune_bytes(const struct prune *k);

/* Sums of an input of both sides, a quarter of the tokens in `held`; the streams stay. */
enum b2_status prune_collect(struct cutting *c, struct metric_sums *fit,
                             struct metric_sums *held, enum stream_input in,
                             struct b2_err *err) NODISCARD;

/* prune_cut.c: the share of a block goes, feed-forward or attention. */
enum b2_status prune_cut(struct cutting *c, bool ffn, struct b2_err *err) NODISCARD;

/* The number of a piece and the bytes of what it holds. */
int64_t prune_piece_number(const struct prune *k, int round, int64_t layer);
uint64_t prune_payload(const struct prune *k, int round, int64_t layer);

/* A piece of a layer of a round; map belongs to the caller (file_unmap). */
struct prune_piece {
    struct prune_found found;
    const uint8_t *ffn, *head;           /* [f], [heads] 1: gone */
    const uint8_t *ffn_cost, *head_cost; /* float, not aligned */
    const uint8_t *o, *down;             /* bytes as the output's types */
};
enum b2_status prune_piece_open(struct prune_piece *out, struct file_map *map,
                                const struct prune *k, int round, int64_t layer,
                                struct b2_err *err) NODISCARD;

/* The type of o or down in the output, for rows of `width`. */
enum dtype prune_type(const struct prune *k, int64_t layer, enum stream_part part,
                      int64_t width);

/* Columns that stay in o and down after a round. */
int64_t prune_width(const struct prune *k, int round, int64_t layer,
                    enum stream_part part);

/* prune_out.c: the model of round `round` as a file. */
enum b2_status prune_write(struct prune *k, int round, const char *path,
                           struct b2_err *err) NODISCARD;

#endif
