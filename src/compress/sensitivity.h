/*
 * sensitivity.h - what an analysis found out about a model's layers, and its file.
 *
 * The file is JSON (docs/ANALYZE.md has every key). Numbers that were not measured are
 * NaN here and null there. Divergences are in nat per token, against the teacher.
 */
#ifndef COMPRESS_SENSITIVITY_H
#define COMPRESS_SENSITIVITY_H

#include "base/heatmap.h"
#include "compress/stream.h"

struct cJSON;

enum { SENS_SHARES = 5, SENS_NAME = 64 };

/* Shares of a layer's hidden values that are taken away to see what it costs. */
extern const double sens_share[SENS_SHARES];

struct sens_input {
    double rms, max;   /* over all tokens and columns */
    double outliers;   /* share of values beyond six times the rms */
    double top_column; /* largest rms of a column over the median one */
};

struct sens_tensor {
    char name[SENS_NAME];
    double rms;           /* of the weights */
    double cosine, error; /* of outputs: cosine and relative squared error with the
                             compressed tensor, over all calibration tokens */
    double damage;        /* kld with this tensor alone compressed */
    double restore;       /* by how much kld falls when all tensors are compressed and
                             this one is not */
    double fisher;        /* mean of the diagonal over the weights */
    double fisher_damage; /* half the sum of the diagonal times squared errors */
};

struct sens_layer {
    double influence; /* 1 - mean cosine of what enters and what leaves the layer */
    double skip, no_attn, no_ffn; /* kld without the layer, without its blocks */
    double damage;                /* kld with all its tensors compressed */
    struct sens_input input[N_INPUTS];
    struct sens_tensor tensor[N_PARTS];
    int64_t f, heads, kv_heads;
    int64_t dead, off,
        saturated; /* hidden values; see sens_neurons in analyze_stats.h */
    double
        prune_kld[SENS_SHARES]; /* without the cheapest sens_share of hidden values */
    double tolerable;           /* share whose kld stays below the tolerance */
    float *neuron;              /* [f] squared output that each hidden value adds */
    double *head;               /* [heads] kld without the head */
    double *head_fisher;        /* [heads] half the mean square of d loss / d mask */
};

struct sensitivity {
    struct sens_layer *layer; /* [n_layers] */
    int64_t n_layers;
    /* What it was measured with; strings are owned. */
    char *source, *source_sha256, *arch, *calibration, *type;
    int64_t tokens, probe_tokens, fisher_tokens;
    double tolerance; /* nat */
    double kld_all;   /* with all tensors compressed */
};

/* Room for n_layers layers, all of it NaN. B2_ENOMEM. */
enum b2_status sens_new(struct sensitivity *s, int64_t n_layers,
                        struct b2_err *err) NODISCARD;
/* Room in a layer for its hidden values and heads. */
bool sens_layer_new(struct sens_layer *l, int64_t f, int64_t heads, int64_t kv_heads);
void sens_free(struct sensitivity *s); /* zeroed is fine */

/* tolerable and its meaning: the share at which prune_kld, taken as straight between
 * what was measured (0 at 0), reaches the tolerance. */
double sens_tolerable(const double kld[SENS_SHARES], double tolerance);

/* The file's text; owned (cJSON_Delete). NULL: out of memory. */
struct cJSON *sens_json(const struct sensitivity *s);
/* B2_EFORMAT: it is no such file; says what is missing where. Owns nothing of json. */
enum b2_status sens_read(struct sensitivity *s, const struct cJSON *json,
                         struct b2_err *err) NODISCARD;
enum b2_status sens_open(struct sensitivity *s, const char *path,
                         struct b2_err *err) NODISCARD;

/* A table for people. */
void sens_text(const struct sensitivity *s, struct str *out);
/* A picture: a row per layer, a column per tensor and block. */
void sens_svg(const struct sensitivity *s, struct str *out);

#endif
