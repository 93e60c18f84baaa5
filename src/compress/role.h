/*
 * role.h - what a tensor does in the network, read from its GGUF name.
 *
 * The compressor asks three things of a name: may this tensor be quantised without
 * being asked for, may it be rotated, and how much does an error in it hurt.
 */
#ifndef COMPRESS_ROLE_H
#define COMPRESS_ROLE_H

#include "base/util.h"

enum role {
    ROLE_OTHER, /* norms, biases, routers, convolutions: kept unless a rule names them */
    ROLE_EMBED, /* token_embd.weight */
    ROLE_HEAD,  /* output.weight */
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_QKV,
    ROLE_O,
    ROLE_ATTN_GATE,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_SSM_OUT,
    N_ROLES
};

/* The role of a tensor. *layer (may be NULL) gets the N of "blk.N.", or -1. */
enum role role_of(const char *name, int *layer);

const char *role_name(enum role r); /* "embedding", "ffn_down", … Never NULL. */

/* Weights the rotation contract knows as linear layers (FORMATS.md §1.5). The small
 * projections of a gated delta net (ssm_alpha, ssm_beta) and its convolution are none. */
bool role_foldable(enum role r);

/* Weight of a relative squared error in this tensor, per parameter, against gate and
 * up = 1. n_layers counts the blocks; tied: the embedding is also the head. */
double role_prior(enum role r, int layer, int n_layers, bool tied);

/* What a relative squared error does, against a small one: it grows faster than the
 * error, since the layers behind magnify what they get. Fitted to an embedding in 5.5,
 * 4.5 and 2.25 bits (errors .0028, .011, .27; divergence .029, .123, 15). */
double role_damage(double error);

#endif
