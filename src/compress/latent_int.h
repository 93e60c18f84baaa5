/*
 * latent_int.h - what latent.c and latent_free.c share.
 */
#ifndef COMPRESS_LATENT_INT_H
#define COMPRESS_LATENT_INT_H

#include "compress/latent.h"

#include <stdatomic.h>

struct latent_job {
    struct latent *l;
    const struct latent *cl;
    const struct weight *student;
    const struct latent_how *how;
    float *w, *delta; /* delta NULL: no change of rank r */
    float sharp;
    uint8_t *bytes;
    uint64_t row_bytes;
    atomic_bool bad;
};

/* y = R x in place, and back. rot NULL: nothing. */
void latent_fold(const struct rotation *rot, float *x);
void latent_unfold(const struct rotation *rot, float *x);

/* latent_start.c: rows of the ternary kinds (job: l, student, how; sets bad), and factors
 * of a change of low rank. */
void latent_start_rows(void *job, int64_t begin, int64_t end, int thread);
void latent_start_lora(struct latent *l, uint64_t seed);

/* latent_free.c: LATENT_FREE. The first sets sizes; the next start, then work on rows. */
enum b2_status latent_free_check(struct latent *l, const struct weight *w,
                                 const struct latent_how *how,
                                 struct b2_err *err) NODISCARD;
bool latent_free_start(struct latent *l, const struct latent_how *how);
void latent_free_weights(void *job, int64_t begin, int64_t end, int thread);
void latent_free_collect(void *job, int64_t begin, int64_t end, int thread);
void latent_free_pack(void *job, int64_t begin, int64_t end, int thread);

#endif
