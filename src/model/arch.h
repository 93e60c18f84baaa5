/*
 * arch.h - what sets one architecture apart from another, as data.
 *
 * The layers of all of them are one text (forward.c); this says which optional steps a
 * model has. Numbers that a file may change are in hparams.h.
 */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "backend/backend.h"

struct arch {
    const char *name; /* general.architecture, and the prefix of its keys */
    enum rope_kind rope;
    enum glu_kind glu;
    bool fused; /* q, k and v are one tensor, and so are gate and up */
    bool
        longrope; /* may have a set of rotary divisors for short and for long contexts */
    bool qkv_bias;   /* biases on q, k and v */
    bool qk_norm;    /* each head of q and k is normalised, before rotary positions */
    bool post_norms; /* each block's output is normalised before it is added */
    bool sub_norms;  /* the inputs of the o and down projections are normalised */
    bool embd_scale; /* embeddings are multiplied by sqrt(D) */
    bool final_cap;  /* a key may cap the logits */
    bool delta;      /* some layers are gated delta nets instead of attention */
    bool attn_gate;  /* each head of q has as many values behind it, whose sigmoid gates
                      * the head's output */
    const char
        *ffn_norm; /* tensor before the feed-forward block; NULL: "ffn_norm.weight" */
    int period;    /* of every `period` layers the last sees everything and the others
                   slide the window; 0: all slide (when there is a window) */
    float local_base; /* rotary base of sliding layers; 0: the base of the others */
};

const struct arch *arch_find(const char *name); /* NULL if unknown */
const char *arch_list(void);                    /* "llama, qwen2, …" for messages */

#endif
