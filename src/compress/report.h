/*
 * report.h - what a compression did, as numbers, as a table and as JSON.
 *
 * The JSON keys stages, tensors, budget_bytes, output_bytes, bits_per_weight and
 * bits_per_weight_ternary are a contract with tools; others may be added.
 */
#ifndef COMPRESS_REPORT_H
#define COMPRESS_REPORT_H

#include "base/arena.h"
#include "base/str.h"
#include "compress/choose.h"
#include "compress/fit.h"

struct cJSON;

enum { REPORT_MAX_STAGES = 8 };

struct report_stage {
    const char *name; /* "scan", "choose", "round", "write" */
    double seconds;
    uint64_t bytes; /* read (scan) or written */
    double kld;     /* on the calibration's probe; NaN: not measured */
};

struct report_tensor {
    const char *name;
    enum role role;
    enum choose_why why;
    enum dtype type, source_type;
    enum dtype hot; /* of the n_hot most frequent rows of a table in two types */
    int64_t n_hot;
    bool fold, copy;
    int64_t width, count; /* without padding */
    int64_t pad;          /* values behind each row that are padding */
    int64_t left_out;     /* groups of each row that are zeros and not in the file */
    uint64_t n_bytes;     /* with padding, and the marks of what is left out */
    struct fit_stat stat; /* zero in a dry run */
    double damage;        /* nat, measured before the choice; negative: not */
    double error;         /* measured on all values; in a dry run on sampled rows */
};

struct report {
    struct arena *arena; /* owns strings and tensors */
    const char *source, *source_sha256, *output, *recipe;
    struct report_stage stage[REPORT_MAX_STAGES];
    int n_stages;
    struct report_tensor *tensor; /* [n] */
    int64_t n, n_params, source_ternary;
    uint64_t source_bytes, budget_bytes; /* budget 0: none */
    double budget_bpw;                   /* 0: none */
    uint64_t output_bytes, tensor_bytes, ternary_bytes;
    int64_t ternary_params;
    int64_t rotate_block; /* 0: nothing is rotated; -1: a block per width */
    int64_t padded;       /* tensors with padding */
    int64_t pieces, pieces_resumed;
    bool dry_run;
};

void report_free(struct report *r); /* zeroed is fine */

/* Takes over everything the picks say. stat: [c->n] in the order of c, or NULL (dry
 * run). B2_ENOMEM. */
enum b2_status report_set_tensors(struct report *r, const struct choose *c,
                                  const struct fit_stat *stat,
                                  struct b2_err *err) NODISCARD;

void report_add_stage(struct report *r, const char *name, double seconds,
                      uint64_t bytes);

double report_bits_per_weight(const struct report *r);
/* Of the ternary tensors alone; negative when there are none. */
double report_bits_per_weight_ternary(const struct report *r);

/* Appends the readable form: per role, totals, exceptions; all_tensors: each one too. */
void report_text(const struct report *r, bool all_tensors, struct str *out);

/* The JSON form; owned (cJSON_Delete). NULL: out of memory. */
struct cJSON *report_json(const struct report *r);

#endif
