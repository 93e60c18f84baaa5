/*
 * model.h - an opened model: file, numbers, weights, tokenizer.
 *
 * Weights stay mapped and read-only. A model may be shared by several sessions; the
 * backend of a session is not.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "backend/backend.h"
#include "format/modelfile.h"
#include "model/hparams.h"
#include "model/rotation.h"
#include "text/tokenizer.h"

struct layer_weights {
    const float *attn_norm, *ffn_norm; /* [D] */
    struct weight q, k, v, o;
    struct weight gate, up, down;
};

struct model {
    struct modelfile *mf;
    struct hparams hp;
    struct tokenizer *tok;    /* NULL when the file has none and that was allowed */
    struct weight embd, head; /* head shares embd's data when tied */
    bool tied;
    const float *out_norm;          /* [D] */
    const float *rope_freq_factors; /* [n_rot/2] or NULL (llama3 scaling in GGUF) */
    const float *rope_freq;         /* [n_rot/2] angle per position, scaling included */
    float rope_mscale;
    struct layer_weights *layers; /* [n_layers] */
    struct rotation_decl rotation;
    struct rotation_set rots;
    uint64_t weights_bytes; /* tensors that a step reads, and copies made of them */
    struct arena *arena;
    char fingerprint[65];
};

struct model_params {
    const struct log *log;
    bool no_tokenizer; /* tests and tools that only use ids */
};

/* Opens path and checks that every tensor the architecture needs is there with its
 * shape and a usable type; unexpected tensors are named in a warning. */
enum b2_status model_open(struct model **out, const char *path,
                          const struct model_params *p, struct b2_err *err) NODISCARD;
void model_close(struct model *m); /* NULL is fine */

#endif
