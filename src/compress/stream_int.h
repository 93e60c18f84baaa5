/*
 * stream_int.h - what stream.c and stream_probe.c share.
 */
#ifndef COMPRESS_STREAM_INT_H
#define COMPRESS_STREAM_INT_H

#include "compress/stream.h"

enum { PROBE_TOKENS = 256, PROBE_ROWS = 64, TEACHER = 0, STUDENT = 1 };

struct worker {
    struct backend *be;
    struct forward f;
};

struct stream {
    struct stream_params p;
    int64_t layer, n_calib; /* sequences in the sums */
    int64_t base;           /* layer that stream_damage() compares with; -1: none yet */
    float *x[2];            /* [n_seqs * ctx, D] of teacher and student */
    float *w[2][N_ALL_PARTS]; /* [rows, width] */
    float *batch[2];          /* [batch_seqs * ctx, widest input] */
    float *kept[2];           /* [n_calib * ctx, input of o], or NULL: made twice */
    bool have_kept;           /* of this layer */
    int64_t batch_seqs;
    struct worker *worker; /* [threads] */
    int n_workers;
    struct backend *probe_be;
    struct forward probe;
    float *logits[2]; /* [PROBE_ROWS, V] */
    /* of the step that the pool runs */
    enum stream_input input;
    int64_t first_seq;
};

/* One sequence at a time, all of it in one pass. */
static inline struct cache_params stream_cache(int64_t tokens)
{
    return (struct cache_params){.type = DT_F16, .ctx = tokens, .batch = tokens};
}

/* y [ctx, rows] = x wᵀ for the side's weight. */
void stream_product(const struct stream *s, int side, enum stream_part part, float *y,
                    const float *x);
/* Leaves an input of one sequence in f->act. */
void stream_input(const struct stream *s, struct forward *f, int side, int64_t seq,
                  enum stream_input in);

/* stream_probe.c: the teacher's logits of the probe. */
enum b2_status stream_make_probe(struct stream *s, struct b2_err *err) NODISCARD;

#endif
