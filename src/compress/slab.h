/*
 * slab.h - wide inputs in parts, each with statistics of its own.
 *
 * H of an input of d values takes some 50 d² bytes until it is solved: 16 GB at 17,408. So
 * inputs wider than a limit are cut into slabs of columns, H counts as zero between them,
 * and a matrix is compensated slab by slab. Slabs hold whole groups and blocks of the
 * rotation.
 */
#ifndef COMPRESS_SLAB_H
#define COMPRESS_SLAB_H

#include "compress/compensate.h"

enum { SLAB_MAX = 64 };

struct slabs {
    int n;
    int64_t d;
    int64_t from[SLAB_MAX + 1]; /* slab i is columns [from[i], from[i + 1]) */
};

/* What a slab is a multiple of, if it was of unit, and is of n too. */
int64_t slabs_unit(int64_t unit, int64_t n);

/* d in as few slabs of at most limit (0: none) as multiples of unit allow; unit divides
 * d. Of even widths, as far as that goes. */
struct slabs slabs_cut(int64_t d, int64_t unit, int64_t limit);

static inline int64_t slab_width(const struct slabs *s, int i)
{
    return s->from[i + 1] - s->from[i];
}

/* What slab i is folded with: owned (rotate_free); NULL when r is NULL or on lack of
 * memory. */
struct rotate *slab_rotate(const struct rotate *r, const struct slabs *s, int i);

/* One matrix, one slab of it. */
struct slab_job {
    const struct slabs *slabs;
    int i;
    const struct codes *codes;
    const float *w; /* [rows, d] */
    int64_t rows;
    const struct metric *m;      /* of the slab */
    const float *target;         /* of the slab, or NULL */
    const struct rotate *rotate; /* of the slab, or NULL */
    const struct compensate_how *how;
    const struct blas *b;
    struct pool *pool;
};

/* compensate_rows() on the slab's columns of out->bytes and out->values; adds to
 * out->stat, loss and energy. */
enum b2_status slab_compensate(struct compensate_out *out, const struct slab_job *j,
                               struct b2_err *err) NODISCARD;

#endif
