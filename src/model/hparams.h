/*
 * hparams.h - the numbers of an architecture, read and checked from a model's keys.
 *
 * Shapes use the letters of docs/ARCHITECTURE.md: T tokens, D width, F hidden, H heads,
 * K kv heads, V vocabulary.
 */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include "format/meta.h"
#include "model/arch.h"

enum rope_scaling {
    ROPE_SCALE_NONE,
    ROPE_SCALE_LINEAR,
    ROPE_SCALE_YARN /* llama3's is a tensor: model.rope_freq_factors */
};

enum { HPARAMS_MAX_LAYERS = 4096 };

struct hparams {
    const struct arch *arch;
    int64_t n_layers, d, f, n_heads, n_kv_heads, head_dim, n_rot, vocab, ctx_train;
    /* [n_layers] of f, n_heads and n_kv_heads, which then are the largest of them; borrowed
     * from the keys. NULL: all layers are alike. */
    const int32_t *f_of, *heads_of, *kv_heads_of;
    int64_t window; /* sliding layers see the last `window` positions; 0: all see all */
    int64_t window_period; /* see hparams_slides() */
    float norm_eps;
    float attn_scale;    /* of q·k; 1/sqrt(head_dim) unless the file says otherwise */
    float final_softcap; /* of the logits; 0: none */
    float embd_scale;    /* of the embeddings; 1: none */
    float rope_base;
    float
        rope_base_local; /* of sliding layers, unstretched; 0: they are as the others */
    enum rope_scaling rope_scaling;
    float rope_factor;
    float rope_orig_ctx; /* YaRN: positions before stretching */
    float rope_attn_factor, yarn_ext, yarn_beta_fast, yarn_beta_slow;

    /* Gated delta nets (arch->delta); zeros elsewhere. */
    int64_t conv_taps, k_heads, v_heads, k_dim, v_dim;
    int64_t n_mtp; /* blocks behind the n_layers that predict further tokens: not run */
    uint8_t recurrent[HPARAMS_MAX_LAYERS / 8]; /* a bit per layer: it is such a net */
};

/* Every key that changes the arithmetic is applied or refused: B2_EUNSUP names the key
 * and its value (unknown architecture: lists the known ones). B2_EFORMAT: values that
 * contradict each other or are out of range. vocab comes from the token list, or from
 * its key when there is none. B2_ENOTFOUND: a key that must be there. */
enum b2_status hparams_read(struct hparams *hp, const struct meta *m,
                            struct b2_err *err) NODISCARD;

/* Hidden values of a layer's feed-forward block, its heads, its kv heads. */
static inline int64_t hparams_f(const struct hparams *hp, int64_t layer)
{
    return hp->f_of ? hp->f_of[layer] : hp->f;
}

static inline int64_t hparams_heads(const struct hparams *hp, int64_t layer)
{
    return hp->heads_of ? hp->heads_of[layer] : hp->n_heads;
}

static inline int64_t hparams_kv_heads(const struct hparams *hp, int64_t layer)
{
    return hp->kv_heads_of ? hp->kv_heads_of[layer] : hp->n_kv_heads;
}

/* Whether a layer slides the window: all but the last of every window_period, all when
 * that is 0 (and so none when it is 1), as llama.cpp counts. */
bool hparams_slides(const struct hparams *hp, int64_t layer);

/* Whether a layer is a gated delta net, with a state instead of a cache. */
bool hparams_recurrent(const struct hparams *hp, int64_t layer);
/* Rows of its joined projection of q, k and v, which pass the convolution. */
int64_t hparams_conv_channels(const struct hparams *hp);

/* Reads the keys of gated delta nets; part of hparams_read. */
enum b2_status hparams_read_delta(struct hparams *hp, const struct meta *m,
                                  struct b2_err *err) NODISCARD;

/* The next key at or after *i that starts with the architecture's prefix and that
 * hparams_read does not know, or NULL at the end; *i moves past it. */
const char *hparams_unknown_key(const struct meta *m, int64_t *i);

#endif
