/*
 * walk.h - sequences of tokens through the layers of a model, with something changed on
 * the way.
 *
 * Residual streams belong to the caller; one layer's weights lie in F32. Each sequence
 * may meet other weights, without some heads, or without a block, and each is one piece
 * of work of the pool, so that the numbers are the same for any number of threads.
 */
#ifndef COMPRESS_WALK_H
#define COMPRESS_WALK_H

#include "compress/stream.h"

/* What a plan counts for OpenBLAS and everything small. */
#define WALK_OTHER_BYTES ((uint64_t)160 << 20)

struct walk;

struct walk_params {
    const struct model *m;
    const struct blas *blas;
    struct pool *pool;
    int64_t ctx; /* tokens of the longest sequence */
};

/* A layer's weights in F32, room for any layer of a model. */
struct walk_weights {
    float *w[N_PARTS]; /* [rows, cols] */
};

/* What one sequence meets instead of the layer as it is. Zeroed: nothing else. */
struct walk_edit {
    const float *w[N_PARTS];      /* NULL: the layer's */
    int64_t head_begin, head_end; /* heads of attention whose output counts as zero */
    bool no_attn, no_ffn;         /* the block adds nothing */
};

/* Where the inputs of the matrices go, [n_seqs * n, width] each; NULL: nowhere. */
struct walk_tap {
    float *input[N_INPUTS];
    float *gate; /* [n_seqs * n, F] before the activation */
};

/* One pass of a layer. */
struct walk_pass {
    int64_t layer;
    const struct walk_weights *weights;
    float *x; /* [n_seqs, n, D] */
    int64_t n_seqs, n;
    const struct walk_edit *edit; /* [n_seqs] or NULL */
    const struct walk_tap *tap;   /* NULL: no one looks */
};

/* Bytes that walk_new() takes, and those of one walk_weights. */
uint64_t walk_bytes(const struct model *m, int64_t ctx, int threads);
uint64_t walk_weights_bytes(const struct model *m);

/* B2_EUNSUP: an architecture, or a rotated or padded source, that cannot be walked
 * through. */
enum b2_status walk_check(const struct model *m, struct b2_err *err) NODISCARD;

/* Errors of walk_check(), B2_ENOMEM. */
enum b2_status walk_new(struct walk **out, const struct walk_params *p,
                        struct b2_err *err) NODISCARD;
void walk_free(struct walk *w); /* NULL is fine */

bool walk_weights_new(struct walk_weights *w, const struct model *m);
void walk_weights_free(struct walk_weights *w); /* zeroed is fine */

/* A part of a layer as it is stored. */
const struct weight *walk_weight(const struct model *m, int64_t layer,
                                 enum stream_part part);

/* Decodes a layer. B2_EFORMAT: NaN or infinity in it. */
enum b2_status walk_decode(const struct walk *w, struct walk_weights *to, int64_t layer,
                           struct b2_err *err) NODISCARD;

/* x [n_seqs, n, D] of ids. */
void walk_embed(struct walk *w, float *x, const int32_t *ids, int64_t n_seqs,
                int64_t n);

void walk_layer(struct walk *w, const struct walk_pass *p);

#endif
