/*
 * probe.h - how far changed models say something else than the teacher, for many of them
 * at once.
 *
 * What is compared are the distributions over the whole vocabulary at the last `rows`
 * tokens of a probe sequence. The head is decoded in slices, each once for all changed
 * models, and no logits are kept.
 */
#ifndef COMPRESS_PROBE_H
#define COMPRESS_PROBE_H

#include "base/pool.h"
#include "model/model.h"
#include "train/blas.h"

struct probe {
    const struct model *m;
    const struct blas *blas;
    struct pool *pool;
    int64_t n, rows, max_seqs; /* tokens of the sequence; scored ones; models at once */
    float *teacher;            /* [rows, D] normed last hidden states */
    double *log_sum;           /* [rows] of the teacher's logits */
    float *hidden;             /* [max_seqs, rows, D] */
    float *slice, *logits; /* of a slice: weights; teacher's [rows], then by thread */
    double *sum;           /* [max_seqs, rows, 3] */
};

uint64_t probe_bytes(const struct model *m, int64_t rows, int64_t max_seqs,
                     int threads);
enum b2_status probe_new(struct probe *p, const struct model *m,
                         const struct blas *blas, struct pool *pool, int64_t n,
                         int64_t rows, int64_t max_seqs, struct b2_err *err) NODISCARD;
void probe_free(struct probe *p); /* zeroed is fine */

/* x [n, D]: what the last layer of the teacher gave for the probe. */
void probe_teacher(struct probe *p, const float *x);

/* x [n_seqs, n, D]: what changed models gave; kld [n_seqs] nat, means over rows. */
void probe_kld(struct probe *p, double *kld, const float *x, int64_t n_seqs);

#endif
