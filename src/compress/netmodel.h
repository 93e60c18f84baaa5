/*
 * netmodel.h - an opened model as a net that can be run backwards.
 *
 * Frozen (a teacher): each layer's weights are decoded to F32 when it is needed. Trained
 * (a student): ternary matrices have latents (latent.h), norms stored as F32 are trained
 * too, everything else stays (of a gated delta net: its convolution and the rates of its
 * decay, which say how long it remembers; texts of a training are too short to show that).
 * One layer lies in F32 at a time. A frozen model may still
 * have its gradients looked at.
 */
#ifndef COMPRESS_NETMODEL_H
#define COMPRESS_NETMODEL_H

#include "compress/latent.h"
#include "model/model.h"
#include "train/head.h"
#include "train/net.h"

/* Is given a layer's gradients of all matrices when they are whole. */
struct netmodel_look {
    void (*fn)(void *ctx, int64_t layer, const struct layer *l, float *const *dw);
    void *ctx;
};

struct netmodel {
    const struct model *m;
    struct pool *pool;
    const struct env *env; /* of a student; its pool is pool */
    struct net net;
    struct layer layer;     /* the one that is decoded */
    struct layer_grad grad; /* where its gradients go; trained only */
    int64_t current;        /* its number; -1: none */
    float *weights, *grads; /* of a layer; in them: */
    float *w[N_LINEARS], *dw[N_LINEARS];
    real *turns; /* cos and sin of both kinds of layers */
    int64_t ctx;
    struct netmodel_look look; /* fn NULL: nobody looks */
    /* Trained only. */
    struct latent *latent; /* [n_layers, N_LINEARS]; all NULL: frozen */
    float sharp;           /* of smooth codes (latent.h); 0: hard */
    bool as_came; /* free weights are those of the file; they start at the teacher's */
    struct param norms;           /* of all layers and the last one, in one piece */
    int64_t n_latents, n_trained; /* matrices, weights */
    int64_t n_free;               /* matrices that become plain weights */
    struct file_space *space;     /* see struct netmodel_how */
};

struct netmodel_how {
    const struct model *teacher; /* latents start at its weights; NULL: frozen */
    uint64_t seed;
    int64_t ctx;
    struct pool *pool;
    const struct env *env; /* of a student, to last as long as it */
    /* What of a matrix is trained: fills kind, type and rank for the tensor of this name.
     * NULL: all of every ternary one. */
    void (*kind)(void *ctx, const char *name, struct latent_how *out);
    void *ctx_of_kind;
    /* Latents of the layers from `resident` on lie there, and in memory only while they
     * are worked on. NULL: all lie in memory. */
    struct file_space *space;
    int64_t resident;
    struct netmodel_look look; /* frozen only */
};

/* Bytes that netmodel_new() takes beside the model and latents. */
uint64_t netmodel_bytes(const struct model *m, const struct netmodel_how *how);
/* What training takes of a layer. */
struct netmodel_share {
    uint64_t latents, packed;    /* bytes; packed: as a file holds them */
    uint64_t largest;            /* of latents, those of one matrix */
    uint64_t saved;              /* of latents, what a checkpoint holds */
    int64_t n_latents, n_values; /* matrices, weights that are trained */
};
struct netmodel_share netmodel_share(const struct model *m,
                                     const struct netmodel_how *how, int64_t layer);
int64_t netmodel_norm_values(const struct model *m);
int64_t netmodel_linear_values(const struct model *m); /* of all layers' matrices */

/* B2_EUNSUP: an architecture without a backward pass, layers of different shapes. */
enum b2_status netmodel_check(const struct model *m, struct b2_err *err) NODISCARD;
/* Both, and whether they have the same shape. */
enum b2_status netmodel_check_pair(const struct model *student,
                                   const struct model *teacher,
                                   struct b2_err *err) NODISCARD;

/* Whether a student may learn from a teacher of other layers: what goes in and comes out
 * has the same shape. B2_EUNSUP. */
enum b2_status netmodel_check_teacher(const struct model *student,
                                      const struct model *teacher,
                                      struct b2_err *err) NODISCARD;

/* *out must stay where it is. B2_EUNSUP: an architecture without a backward pass, nothing that can be trained, a
 * teacher of another shape. B2_EFORMAT, B2_ENOMEM. */
enum b2_status netmodel_new(struct netmodel *out, const struct model *m,
                            const struct netmodel_how *how,
                            struct b2_err *err) NODISCARD;
void netmodel_free(struct netmodel *n); /* zeroed is fine */

/* x [n, d] = embeddings of ids */
void netmodel_embed(const struct netmodel *n, float *x, const int32_t *ids,
                    int64_t n_ids);
struct head netmodel_head(const struct netmodel *n);
/* Whether both heads are the same bytes. */
bool netmodel_same_head(const struct model *a, const struct model *b);

/* Lets go of what a frozen net needs to run: only its shapes and its head stay. */
void netmodel_end_passes(struct netmodel *n);

/* To be called when trained numbers have changed. */
void netmodel_moved(struct netmodel *n);

/* Lets go of the memory of a matrix's latents, if they lie in the space. item: layer *
 * N_LINEARS + which. */
void netmodel_rest(const struct netmodel *n, int64_t item);

/* A layer's matrix, or NULL when it is not trained. */
struct latent *netmodel_latent(const struct netmodel *n, int64_t layer, int which);
/* The tensor's name; buf [64]. */
const char *netmodel_linear_name(char *buf, int64_t layer, int which);
/* Norms in the order of n->norms: calls fn for each with its name, place and length. */
void netmodel_each_norm(const struct netmodel *n,
                        void (*fn)(void *ctx, const char *name, int64_t at,
                                   int64_t len),
                        void *ctx);

#endif
