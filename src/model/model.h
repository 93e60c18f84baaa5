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

/* A gated delta net (forward.h). C: channels of the convolution. */
struct delta_weights {
    struct weight qkv, z, alpha, beta, out;
    const float *conv;        /* [taps, C], oldest first */
    const float *rate, *bias; /* [V heads] of the decay */
    const float *norm;        /* [v_dim] */
};

/* Vectors that the architecture has not are NULL. */
struct layer_weights {
    const float *attn_norm, *ffn_norm;           /* [D] of the blocks' inputs */
    const float *attn_post_norm, *ffn_post_norm; /* [D] of their outputs */
    const float *q_norm, *k_norm;                /* [head_dim] */
    const float *attn_sub_norm;                  /* [H * head_dim] of o's input */
    const float *ffn_sub_norm;                   /* [F] of down's input */
    const float *q_bias, *k_bias, *v_bias;       /* [rows of q, k, v] */
    struct weight q, k, v, o;
    struct weight gate, up, down;
    const struct delta_weights *delta; /* instead of q, k, v, o; NULL: attention */
};

/* Rotary positions of a kind of layer. */
struct rope_table {
    const float *freq; /* [n_rot/2] angle per position, scaling included */
    float mscale;
};

struct model {
    struct modelfile *mf;
    struct hparams hp;
    struct tokenizer *tok;    /* NULL when the file has none and that was allowed */
    struct weight embd, head; /* head shares embd's data when tied */
    bool tied;
    const float *out_norm;          /* [D] */
    const float *rope_freq_factors; /* [n_rot/2] or NULL (llama3 scaling in GGUF) */
    const float *rope_long_factors; /* the same in long contexts, or NULL (longrope) */
    struct rope_table rope, rope_local; /* of layers that see all, that slide */
    struct rope_table
        rope_long; /* of all, in contexts above rope_orig_ctx; freq NULL: none */
    struct layer_weights *layers; /* [n_layers] */
    struct rotation_decl rotation;
    struct rotation_set rots;
    uint8_t *repacked;       /* matrices in another order (repack.h), or NULL */
    uint64_t repacked_bytes; /* of them; counted though not there when only planned */
    uint64_t weights_bytes;  /* tensors that are used, and copies made of them */
    uint64_t copy_bytes;     /* those copies alone */
    uint64_t table_bytes;    /* of them: a mapped token table that is no head */
    uint64_t type_bytes[N_DTYPES]; /* tensors by type as stored, without the
                                    * table and without what is repacked */
    struct arena *arena;
    char fingerprint[65];
};

/* The table for a layer in a session of ctx positions: longrope takes the divisors by the
 * context, so that no position changes while a text grows. */
const struct rope_table *model_rope(const struct model *m, bool slides, int64_t ctx);

struct model_params {
    const struct log *log;
    bool no_tokenizer; /* tests and tools that only use ids */
    bool no_data; /* matrices are checked, not loaded: enough to plan, not to run */
    bool warm;    /* read the files into memory first, at the disk's speed */
};

/* Opens path and checks that every tensor the architecture needs is there with its
 * shape and a usable type; unexpected tensors are named in a warning. */
enum b2_status model_open(struct model **out, const char *path,
                          const struct model_params *p, struct b2_err *err) NODISCARD;
void model_close(struct model *m); /* NULL is fine */

#endif
