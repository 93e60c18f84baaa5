/*
 * stream.h - calibration tokens walking through the teacher and through what becomes of
 * it, side by side, layer by layer.
 *
 * Both residual streams of all tokens lie in memory; of the weights only one layer is
 * there, in F32. A layer has four inputs, each of which feeds some weights:
 *
 *   ATTN  q, k, v      O  attn_output      FFN  gate, up      DOWN  ffn_down
 *
 *   stream_begin(layer)              teacher's weights decoded, the student's empty
 *   stream_collect(ATTN) ... fill the student's q, k, v
 *   stream_collect(O)    ... fill o;     stream_attention()   both streams go past it
 *   stream_collect(FFN)  ... fill gate, up
 *   stream_collect(DOWN) ... fill down;  stream_ffn()         end of the layer
 *
 * An input depends on the student's weights before it and on no later one. Sequences
 * are cut alike for any number of threads, and so the sums are the same. Arithmetic is
 * F32: the model's own steps (model/forward.h), the products by OpenBLAS.
 */
#ifndef COMPRESS_STREAM_H
#define COMPRESS_STREAM_H

#include "compress/metric.h"
#include "model/forward.h"

enum stream_part {
    PART_Q,
    PART_K,
    PART_V,
    PART_O,
    PART_GATE,
    PART_UP,
    PART_DOWN,
    N_PARTS,
    /* Further ones that gated delta nets have. There Q is u's weight (attn_qkv), K is z's
     * (attn_gate), O is ssm_out, and V is absent. */
    PART_ALPHA = N_PARTS,
    PART_BETA,
    N_ALL_PARTS
};
enum stream_input { INPUT_ATTN, INPUT_O, INPUT_FFN, INPUT_DOWN, N_INPUTS };

struct stream;

struct stream_params {
    const struct model *m;     /* the teacher */
    const struct weight *embd; /* the student's embedding table; NULL: the teacher's */
    const struct blas *blas;
    struct pool *pool;
    const int32_t *ids; /* [n_seqs, ctx]; the last sequence is the probe */
    int64_t n_seqs, ctx;
    bool keep;  /* stream_keep_bytes() more memory, so that attention is made once */
    bool probe; /* keep the last sequence out of the sums, for stream_divergence() */
    bool alone; /* the teacher walks alone: no C; student weights for stream_damage() */
};

/* Bytes that stream_new() will take. */
uint64_t stream_bytes(const struct model *m, int64_t n_seqs, int64_t ctx, int threads);

uint64_t stream_keep_bytes(const struct model *m, int64_t n_seqs, int64_t ctx);

/* B2_EUNSUP: an architecture or a rotated source that cannot be streamed. B2_ENOMEM. */
enum b2_status stream_new(struct stream **out, const struct stream_params *p,
                          struct b2_err *err) NODISCARD;
void stream_free(struct stream *s); /* NULL is fine */

/* A part of a layer as it is stored, or NULL: the layer has none. */
const struct weight *stream_weight(const struct model *m, int64_t layer,
                                   enum stream_part part);
/* The input that a part reads. */
enum stream_input stream_input_of(enum stream_part part);
int64_t stream_width(const struct stream *s, enum stream_input in);

/* B2_EFORMAT: a weight with NaN or infinity. */
enum b2_status stream_begin(struct stream *s, int64_t layer,
                            struct b2_err *err) NODISCARD;
const float *stream_teacher(const struct stream *s, enum stream_part part);
float *stream_student(const struct stream *s, enum stream_part part); /* to be filled */
int64_t stream_rows(const struct stream *s, enum stream_part part);   /* 0: absent */

/* Adds all calibration tokens to sums of this input's width. */
void stream_collect(struct stream *s, enum stream_input in, struct metric_sums *sums);
/* Behind the last layer: what the teacher feeds the head. */
void stream_collect_head(struct stream *s, struct metric_sums *sums);
void stream_attention(struct stream *s);
void stream_ffn(struct stream *s);

/* The divergence (nat) of the whole model on the probe if layers after `layer` were the
 * teacher's and those up to it are the student's. */
double stream_divergence(struct stream *s, int64_t layer);

/* Alone: the divergence if this part were the student's and everything else the
 * teacher's. Of q to o before stream_attention(), of gate to down between that and
 * stream_ffn(). */
double stream_damage(struct stream *s, enum stream_part part);
/* The same of a table in the place of the embedding, of the head or of both. */
double stream_damage_table(struct stream *s, const struct weight *table, bool embed,
                           bool head);

#endif
