/*
 * analyze_int.h - what the steps of an analysis share.
 */
#ifndef COMPRESS_ANALYZE_INT_H
#define COMPRESS_ANALYZE_INT_H

#include "compress/analyze.h"
#include "compress/compensate.h"
#include "compress/probe.h"
#include "compress/walk.h"
#include "compress/work.h"

struct analyze {
    const struct analyze_params *p;
    struct sensitivity *s;
    struct model *m;
    struct blas *blas;
    struct walk *walk;
    struct calib calib;
    struct codes codes; /* of the type that tensors become */
    struct rotate *rotate;
    struct work *work;
    struct walk_weights teacher, student; /* of the layer at hand */
    int64_t n_calib;                      /* sequences; one more is the probe */
    char sha256[65];
};

/* Numbers of a layer as they lie in its pieces: what the steps found out. */
struct analyze_local {
    double influence;
    struct sens_input input[N_INPUTS];
    double rms[N_PARTS], cosine[N_PARTS], error[N_PARTS];
    int64_t dead, off, saturated;
};

struct analyze_measured {
    double skip, no_attn, no_ffn, damage;
    double tensor[N_PARTS], restore[N_PARTS], prune_kld[SENS_SHARES];
    double kld_all;
};

struct analyze_fisher {
    double mean[N_PARTS], damage[N_PARTS];
};

/* Whether a part of a layer can be compressed to the type. */
bool analyze_fits(const struct analyze *a, int64_t layer, enum stream_part part);
/* Bytes of a part as the type. */
uint64_t analyze_part_bytes(const struct analyze *a, int64_t layer,
                            enum stream_part part);
/* B2_ECANCEL when it was asked to stop. */
enum b2_status analyze_go_on(const struct analyze *a, struct b2_err *err) NODISCARD;

/* Decodes the compressed weights of a layer, or those of the model where a part does not
 * fit; they lie behind its local record. */
enum b2_status analyze_student(struct analyze *a, int64_t layer,
                               struct b2_err *err) NODISCARD;

/* The steps. Pieces: local [0, L), measure [L, 2 L), fisher 2 L. */
enum b2_status analyze_local_all(struct analyze *a, struct b2_err *err) NODISCARD;
enum b2_status analyze_measure_all(struct analyze *a, struct b2_err *err) NODISCARD;
enum b2_status analyze_fisher_all(struct analyze *a, struct b2_err *err) NODISCARD;

/* Bytes that the steps take beside what they share. */
uint64_t analyze_local_bytes(const struct analyze *a);
uint64_t analyze_measure_bytes(const struct analyze *a);

#endif
