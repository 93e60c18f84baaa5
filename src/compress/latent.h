/*
 * latent.h - a ternary matrix while it is trained: what lies behind its codes.
 *
 * In the basis of the stored (rotated) weight, group by group of a row:
 *
 *   a = a0 exp(ls), as the type stores it          trained scale; a0 is the first one
 *   code = 0 if |u| < a / (2 a0), else the sign    u: latent in units of a0;
 *          where codes make words, the nearest word to u a0 / a
 *   weight = a code
 *
 * A gradient g of the weight goes straight through the rounding: du += g a0, and
 * dls += g weight. At the start the codes are the student's: a latent stands where the
 * teacher's weight is; where that lies in another bin, somewhere in the first third of
 * the student's (spread evenly: piled up at one distance, latents flip together and the
 * model dies, METHODS.md §10). A group of scale 0 stays as it is.
 *
 * latent_pack() writes exactly what latent_weights() says.
 */
#ifndef COMPRESS_LATENT_H
#define COMPRESS_LATENT_H

#include "backend/backend.h"
#include "compress/codes.h"
#include "train/adam.h"

struct latent {
    struct codes codes;
    const struct rotation *rot; /* NULL: none */
    int64_t rows, cols;
    int64_t stored, groups;           /* of a row: values with padding, scales */
    float *u, *gu, *mu, *vu;          /* [rows, stored] and their gradients, moments */
    float *a0, *ls, *gls, *mls, *vls; /* [rows, groups] */
    float *all;
};

uint64_t latent_bytes(const struct weight *student);

/* teacher [rows, cols]: weights in the plain basis; borrowed. B2_EUNSUP: a type or a
 * rotation that is not trained. B2_EFORMAT: codes that no encoder writes. B2_ENOMEM. */
enum b2_status latent_new(struct latent *out, const struct weight *student,
                          const float *teacher, uint64_t seed, struct pool *pool,
                          struct b2_err *err) NODISCARD;
void latent_free(struct latent *l); /* zeroed is fine */

/* w [rows, cols]: the weight in the plain basis. */
void latent_weights(const struct latent *l, float *w, struct pool *pool);

/* Takes in the gradient of what latent_weights() gave; dw is rotated in place. */
void latent_collect(struct latent *l, float *dw, struct pool *pool);

/* The matrix in its type; bytes [rows, row bytes]. */
void latent_pack(const struct latent *l, uint8_t *bytes, struct pool *pool);

/* Codes that are not those of bytes, as latent_pack() lays them. */
int64_t latent_changed(const struct latent *l, const uint8_t *bytes);

/* The two sets of numbers that are trained. */
struct param latent_param_u(const struct latent *l, float rate);
struct param latent_param_scale(const struct latent *l, float rate);

#endif
