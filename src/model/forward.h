/*
 * forward.h - the layers, written straight down.
 *
 *   x = embed(ids) [* sqrt(D)]
 *   per layer:  h = rmsnorm(x);  q, k, v = Wq h [+ b], Wk h [+ b], Wv h [+ b]
 *               [q, k = rmsnorm per head];  rope(q), rope(k);  cache k, v
 *               a = attention(q, cache) [sub-norm];  x += [post-norm] Wo a
 *               h = rmsnorm(x);  a = f(Wgate h) * Wup h [sub-norm]
 *               x += [post-norm] Wdown a
 *   logits = [softcap] Whead rmsnorm(x)
 *
 * Gated attention: Wq h has a gate behind each head; a = attention * sigmoid(gate).
 * A gated delta net stands in the place of attention in some layers:
 *               h = rmsnorm(x);  u, z, a, b = Wqkv h, Wz h, Walpha h, Wbeta h
 *               q, k, v = silu(conv(u));  q, k = q / |q|, k / |k| per head
 *               per value head: S = decay S + beta (v - decay S k) k^T;  o = S q / sqrt
 *               x += Wout (rmsnorm(o) per head * silu(z))
 *
 * What stands in brackets depends on the architecture (arch.h).
 */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/cache.h"
#include "model/recurrent.h"

#include <stdatomic.h>

/* A sequence of which a pass runs the token at pos. */
struct forward_lane {
    struct forward *f;
    int64_t pos;
};

/* Everything a pass writes to. Made before decoding; a pass allocates nothing. */
struct forward {
    const struct model *m;
    struct backend *be;
    struct cache_params params;
    struct cache cache;
    struct recurrent rec;
    /* Copy of rec (0: none) that the next pass fills with the state after mark_n of its
     * tokens; the pass takes the wish away. */
    int mark_copy;
    int64_t mark_n;
    struct act *act;  /* input of the next matmul */
    float *x;         /* [batch, D] residual stream */
    float *q, *k, *v; /* [batch, H or K, head_dim]; z, alpha, beta of a delta net */
    float *q_sinks;   /* [batch, H, head_dim]; NULL: no layer needs it */
    float *gate, *up; /* [batch, F]; gate also holds [batch, D], gated queries, u */
    void *floats;
    /* While forward_together() runs: whose caches and states token t of the batch has.
     * NULL: all are this one's. */
    const struct forward_lane *lane;
};

/* Bytes of forward_init's own buffers without the caches. */
uint64_t forward_scratch_bytes(const struct model *m, const struct backend *be,
                               const struct cache_params *p);

/* Allocates for checked params, batch <= ctx. On failure everything is freed again.
 * B2_ENOMEM. */
enum b2_status forward_init(struct forward *f, const struct model *m,
                            struct backend *be, const struct cache_params *p,
                            struct b2_err *err) NODISCARD;
void forward_free(struct forward *f); /* zeroed is fine */

/* Forgets positions from pos on. Returns the position to go on from: pos, or an earlier one
 * when what the layers remember does not allow that (model/cache.h, model/recurrent.h). */
int64_t forward_rewind(struct forward *f, int64_t pos);

/* Before a pass that starts at pos and is part of a prompt whose last token stands at
 * last: keeps what is needed to come back to pos after an interruption and, when the pass
 * reaches it, to last. */
void forward_mark(struct forward *f, int64_t pos, int64_t last);

/* Runs n <= batch tokens at positions pos0.. through the layers; pos0 + n <= ctx, ids in
 * range; a recurrent state stands at pos0. Stops with false before a layer when *cancel is
 * set; the cache then holds nothing certain from pos0 on, and the state is lost. */
bool forward_layers(struct forward *f, const int32_t *ids, int64_t n, int64_t pos0,
                    const atomic_int *cancel);

/* Runs one token of each of n <= batch sequences, ids[i] at lane[i].pos, in f's buffers:
 * weights are read once for all of them. The lanes are different ones of f's model and
 * backend, with f's window and sinks; f may be among them. The rest as forward_layers(). */
bool forward_together(struct forward *f, const struct forward_lane *lane,
                      const int32_t *ids, int64_t n, const atomic_int *cancel);

/* Stands in for forward_layers() without its work: random keys and values, a recurrent
 * state as it is, checkpoints as a prompt makes them. */
void forward_fill(struct forward *f, int64_t n, int64_t pos0, uint64_t seed);

/* Logits [n_last, V] of the last n_last of the n tokens just run. */
void forward_head(struct forward *f, int64_t n, int64_t n_last, float *logits);

/* The parts of the walk above, for whoever puts something between them (the compressor).
 * f->x is where the residual stream lies; it may be pointed elsewhere. What a step leaves
 * in f->act is the input of the next matmul:
 *   attn_input  -> q, k, v          into f->q, f->k, f->v
 *   attn_heads  -> o                into f->gate, which attn_output adds to x
 *   ffn_input   -> gate, up         into f->gate, f->up
 *   ffn_hidden  -> down             into f->gate, which ffn_output adds to x */
void forward_embed(struct forward *f, const int32_t *ids, int64_t n);
void forward_layer(struct forward *f, int64_t layer, int64_t n, int64_t pos0);
void forward_attn_input(struct forward *f, int64_t layer, int64_t n);
void forward_attn_heads(struct forward *f, int64_t layer, int64_t n, int64_t pos0);
void forward_attn_output(struct forward *f, int64_t layer, int64_t n);
/* Gated queries, as Wq gave them in f->gate, before attn_heads: to f->q and f->up. */
void forward_split_queries(struct forward *f, int64_t n);
/* In the place of attn_heads: u, z, alpha, beta in f->gate, f->q, f->k, f->v; the state
 * goes on from where it is. */
void forward_delta_heads(struct forward *f, int64_t layer, int64_t n);
/* The state before a sequence's first token. */
void forward_delta_reset(struct forward *f, int64_t layer);
void forward_ffn_input(struct forward *f, int64_t layer, int64_t n);
void forward_ffn_hidden(struct forward *f, int64_t layer, int64_t n);
void forward_ffn_output(struct forward *f, int64_t layer, int64_t n);

#endif
