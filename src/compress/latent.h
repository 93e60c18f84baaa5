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
 * What is trained of it is one of several kinds:
 *
 *   all     u and ls
 *   scales  ls alone; the codes stay as they are
 *   lora    ls, and the two factors of a change of rank r: u + (B A) / a0 takes the place
 *           of u (train/lora.h). Taking the change into u changes no bit
 *   free    a plain weight in a type of 8 bits or more: u in units of one size a0 for the
 *           whole matrix, weight = a0 u as the type stores it, straight through
 *
 * With a sharpness the codes of the first kind are smooth (train/soft.h) and gradients are
 * those of the smooth function; what is evaluated and packed is always hard.
 *
 * latent_pack() writes exactly what latent_weights() says.
 */
#ifndef COMPRESS_LATENT_H
#define COMPRESS_LATENT_H

#include "backend/backend.h"
#include "compress/codes.h"
#include "train/adam.h"
#include "train/lora.h"

enum latent_kind { LATENT_ALL, LATENT_SCALES, LATENT_LORA, LATENT_FREE };

struct latent {
    enum latent_kind kind;
    enum dtype type;            /* that is written */
    struct codes codes;         /* not of LATENT_FREE */
    const struct rotation *rot; /* NULL: none */
    int64_t rows, cols;
    int64_t stored, groups;           /* of a row: values with padding, scales */
    float *u, *gu, *mu, *vu;          /* [rows, stored] and their gradients, moments;
                                       * gradients and moments NULL: u rests */
    float *a0, *ls, *gls, *mls, *vls; /* [rows, groups]; free: a0 [1] alone */
    struct lora lora;                 /* rank 0: none */
    float *ma, *va, *mb, *vb;         /* moments of its factors */
    float *all;
    uint64_t n_bytes; /* of all */
    bool placed;      /* all lies where latent_how.place said */
};

struct latent_how {
    enum latent_kind kind;
    enum dtype type;      /* of LATENT_FREE: Q8_0, F16, BF16, F32 */
    int64_t rank;         /* of LATENT_LORA */
    const float *teacher; /* [rows, cols]: weights in the plain basis; borrowed */
    uint64_t seed;
    float *place; /* latent_bytes() of zeros, to last as long; NULL: memory is taken */
};

uint64_t latent_bytes(const struct weight *student, const struct latent_how *how);
/* Of these, what is trained and its moments: a checkpoint's part. */
uint64_t latent_saved_bytes(const struct weight *student, const struct latent_how *how);

/* B2_EUNSUP: a type or a rotation that is not trained, rows that the type of a free
 * weight does not divide. B2_EFORMAT: codes that no encoder writes. B2_ENOMEM. */
enum b2_status latent_new(struct latent *out, const struct weight *student,
                          const struct latent_how *how, struct pool *pool,
                          struct b2_err *err) NODISCARD;
void latent_free(struct latent *l); /* zeroed is fine */

/* w [rows, cols]: the weight in the plain basis. sharp 0: hard codes. */
void latent_weights(const struct latent *l, const struct env *e, float *w, float sharp);

/* Takes in the gradient of what latent_weights() gave with the same sharpness; dw is
 * rotated in place, delta [rows, cols] is scratch. */
void latent_collect(struct latent *l, const struct env *e, float *dw, float *delta,
                    float sharp);

/* The matrix in its type; bytes [latent_packed_bytes()], delta [rows, cols] scratch. */
void latent_pack(const struct latent *l, const struct env *e, uint8_t *bytes,
                 float *delta);
uint64_t latent_packed_bytes(const struct latent *l);
uint64_t latent_packed_size(const struct weight *student, const struct latent_how *how);

/* Codes in which two packed matrices differ; 0 for free weights. */
int64_t latent_changed(const struct latent *l, const uint8_t *a, const uint8_t *b);

/* The change of rank r becomes a part of u, and its factors start anew as none. */
void latent_merge(struct latent *l, const struct env *e, float *delta);

/* The sets of numbers that are trained, without rates; at most 3. */
enum latent_part { LATENT_PART_WEIGHT, LATENT_PART_SCALE };
struct latent_param {
    enum latent_part part;
    struct param p;
};
int latent_params(const struct latent *l, struct latent_param *out);

#endif
