/*
 * backend.h - whole-tensor operations on a device.
 *
 * The model is written against these calls alone. Buffers are F32, row-major, tokens
 * first: [T, D]. Nothing allocates in a decode step: every buffer exists before. A CPU
 * backend gives the same bits at any number of threads, kernel level and batch shape.
 * A weight that was folded carries its rotation, and matmul applies it to the
 * activation; no path can forget it. Not thread-safe.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/log.h"
#include "base/pool.h"
#include "tensor/tensor.h"

struct backend;

/* Block-Hadamard rotation of the input axis (FORMATS.md §1.5). Shared by all weights of
 * one width; compared by address. */
struct rotation {
    int64_t width;      /* a multiple of block */
    int64_t block;      /* one of tensor/hadamard.h */
    const float *signs; /* [width] of +1 and -1; NULL: all +1 */
    /* Heads of `head` values that are put in another order before the signs: place
     * g * reps + r gets head r * (heads / reps) + g. 0: none. */
    int64_t head, reps;
};

/* Ternary rows in an order of our own, in memory (kernel/sets.h). */
enum repack_form {
    REPACK_2BITS, /* of any ternary type: the fastest */
    REPACK_TRITS, /* of base-3 types: the smallest */
    REPACK_N_FORMS
};

/* A weight matrix of a linear layer or an embedding table: y = W x. */
struct weight {
    const char *name; /* for messages */
    enum dtype type;
    int64_t cols, rows; /* inputs (row length), outputs */
    int64_t pad; /* values behind the cols of each stored row that mean nothing */
    const uint8_t *data;
    uint64_t row_bytes;
    const struct rotation *rot; /* NULL: not folded; of the cols, never of padding */
    float scale; /* of the whole matrix, for types with DTF_APART; else unused */
    /* The rows repacked: products read these instead of data. NULL: they do not. */
    const uint8_t *sets;
    enum repack_form form;
    /* Rows of two types; then type, row_bytes and data are those of the rare ones. NULL:
     * all rows are alike. */
    struct weight_tiers *tiers;
};

/* A table of tokens of which the frequent rows have a type of their own. */
struct weight_tiers {
    struct weight hot, rare; /* each in the order of the table, without rotation */
    const int32_t *row; /* [hot.rows] where a hot row stands in the table, ascending */
};

enum { TIERS_MAX_HOT = 1 << 17 }; /* rows; a product keeps their results aside */

/* Where row *r lies: its tier, and *r becomes the row of that. */
static inline const struct weight *weight_of_row(const struct weight *w, int64_t *r)
{
    const struct weight_tiers *t = w->tiers;
    int64_t lo = 0, hi = t ? t->hot.rows : 0;

    if (!t)
        return w;
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        if (t->row[mid] < *r)
            lo = mid + 1;
        else
            hi = mid;
    }
    const bool is_hot = lo < t->hot.rows && t->row[lo] == *r;
    *r = is_hot ? lo : *r - lo;
    return is_hot ? &t->hot : &t->rare;
}

/* Bytes of all rows as they lie in the file. */
static inline uint64_t weight_bytes(const struct weight *w)
{
    return w->tiers ? weight_bytes(&w->tiers->hot) + weight_bytes(&w->tiers->rare)
                    : (uint64_t)w->rows * w->row_bytes;
}

/* Values of a row as it is stored: a multiple of the type's block. */
static inline int64_t weight_stored(const struct weight *w)
{
    return w->cols + w->pad;
}

/* Can this backend use w's rows in this form, and do products have the same bits? */
bool backend_can_repack(const struct backend *be, const struct weight *w,
                        enum repack_form form);
/* Bytes of all rows of w in this form, a multiple of 64. */
uint64_t backend_repack_bytes(const struct weight *w, enum repack_form form);
/* Writes rows [first, first + n) of w, on all threads, to where they belong among the
 * rows that begin at sets (64-byte aligned); first is a multiple of 16. */
void backend_repack(struct backend *be, uint8_t *sets, const struct weight *w,
                    enum repack_form form, int64_t first, int64_t n);

/* An activation that several weights may read: x [T, width], with its rotated and
 * quantised forms kept beside it, each made at most once after act_changed(). */
struct act {
    float *x; /* [max_tokens, max_width], the caller writes rows [0, n_tokens) */
    int64_t n_tokens, width;
    void *impl;
};

/* One layer's keys and values, with the layout that backend_kv_place() gives. A position
 * below cap has the slot of its number; later ones take turns in the slots from `sinks`
 * on, so that the last cap - sinks positions and the first `sinks` are held. */
struct kv_layer {
    enum dtype type; /* DT_F16, DT_Q8_0 or DT_Q4_0 */
    int64_t cap;     /* slots */
    int64_t sinks;
    uint8_t *k, *v;              /* [K][cap] rows of F16 or codes */
    uint16_t *k_scale, *v_scale; /* [K][head_dim / 32][cap]; F16: NULL */
};

static inline int64_t kv_slot(const struct kv_layer *kv, int64_t pos)
{
    return pos < kv->cap ? pos : kv->sinks + (pos - kv->sinks) % (kv->cap - kv->sinks);
}

enum rope_kind {
    ROPE_NORM, /* pairs (2i, 2i+1): GGUF `llama` */
    ROPE_NEOX, /* pairs (i, i + n_rot/2) */
};

struct rope_args {
    enum rope_kind kind;
    int64_t head_dim, n_rot;
    const float *freq; /* [n_rot/2] angle per position step, scaling included */
    float mscale;      /* multiplies cos and sin (YaRN); 1 otherwise */
    int64_t max_pos;   /* later tokens are turned as if they stood here; 0: none are */
};

struct attn_args {
    int64_t n_heads, n_kv_heads, head_dim;
    int64_t
        pos0; /* position of the first token of the batch; cache holds 0..pos0+T-1 */
    int64_t
        window; /* 0: all; else attends to the last `window` positions, itself included */
    float scale;
    float softcap;        /* 0: none */
    int64_t sinks;        /* with a window: the first positions, seen by all */
    const float *q_sinks; /* [T, H, head_dim] queries for those of them that lie before
                           * the window; NULL: the same as for the others */
};

/* What the buffers of attention are made for. */
struct attn_limits {
    int64_t n_heads, head_dim;
    int64_t max_ctx; /* the most positions that a token sees */
};

struct backend_config {
    struct pool *pool; /* borrowed; NULL: one thread */
    unsigned cpu;      /* feature bits allowed (cpu_limit) */
    bool exact;        /* activations and sums in F32, weights decoded to F32 */
    const struct log *log;
};

/* The CPU backend. B2_ENOMEM. */
enum b2_status backend_cpu_new(struct backend **out, const struct backend_config *cfg,
                               struct b2_err *err) NODISCARD;
void backend_free(struct backend *be);                     /* NULL is fine */
const char *backend_kernel_name(const struct backend *be); /* "avx2", "scalar" */
bool backend_is_exact(const struct backend *be);

/* Bytes of scratch that the backend and its activations will allocate for these limits. */
uint64_t backend_act_bytes(const struct backend *be, int64_t max_tokens,
                           int64_t max_width);

enum b2_status act_new(struct act **out, struct backend *be, int64_t max_tokens,
                       int64_t max_width, struct b2_err *err) NODISCARD;
void act_free(struct backend *be, struct act *a); /* NULL is fine */
/* Says that x[0..n_tokens)[width] was rewritten. */
void act_changed(struct act *a, int64_t n_tokens, int64_t width);

/* y [T, w->rows] = a · Wᵀ, rotation applied. a->width == w->cols; padding is dropped,
 * so that the bits are those of a weight whose rows end after cols. */
void backend_matmul(struct backend *be, float *y, const struct weight *w,
                    struct act *a);
/* The same for several weights that read one activation (q/k/v, gate/up): one join of
 * threads instead of n. Bits equal n single calls. */
void backend_matmul_n(struct backend *be, float *const *y,
                      const struct weight *const *w, int n, struct act *a);

/* dst [T, w->cols] = rows ids[t] of an embedding table, inverse rotation applied.
 * ids are in range (checked by the caller). */
void backend_embed(struct backend *be, float *dst, const struct weight *w,
                   const int32_t *ids, int64_t n_tokens);

/* y = x / sqrt(mean(x²) + eps) · gain, per row of width d; y may be x. */
void backend_rmsnorm(struct backend *be, float *y, const float *x, const float *gain,
                     int64_t n_rows, int64_t d, float eps);

/* In place on x [T, n_heads, head_dim]; token t has position pos0 + t. */
void backend_rope(struct backend *be, float *x, int64_t n_tokens, int64_t n_heads,
                  int64_t pos0, const struct rope_args *args);

/* Whether a cache of this type can hold heads of this size: the block types need a
 * multiple of 32. B2_EUNSUP says so in words; B2_EARG: not a type of caches. */
enum b2_status backend_kv_check(enum dtype type, int64_t head_dim,
                                struct b2_err *err) NODISCARD;
/* Bytes of a layer's cache. */
uint64_t backend_kv_bytes(enum dtype type, int64_t n_kv_heads, int64_t head_dim,
                          int64_t cap);
/* Lays a cache of kv->type with kv->cap slots into mem (64-byte aligned). */
void backend_kv_place(struct kv_layer *kv, void *mem, int64_t n_kv_heads,
                      int64_t head_dim);
/* Stores k, v [T, K, head_dim] at positions pos0... */
void backend_kv_store(struct backend *be, struct kv_layer *kv, const float *k,
                      const float *v, int64_t n_tokens, int64_t n_kv_heads,
                      int64_t head_dim, int64_t pos0);

/* out [T, H, head_dim] = causal grouped attention of q [T, H, head_dim] over the cache. */
void backend_attention(struct backend *be, float *out, const float *q,
                       const struct kv_layer *kv, int64_t n_tokens,
                       const struct attn_args *args);

/* The activation function of a gated feed-forward block. */
enum glu_kind {
    GLU_SILU,
    GLU_GELU,  /* by the tanh formula */
    GLU_RELU2, /* max(x, 0)^2 */
};

/* y[i] = f(gate[i]) * up[i]; y may be gate. */
void backend_glu(struct backend *be, enum glu_kind kind, float *y, const float *gate,
                 const float *up, int64_t n);
/* y[i] += x[i] */
void backend_add(struct backend *be, float *y, const float *x, int64_t n);
/* Adds bias [d] to each of n_rows rows of y. */
void backend_add_bias(struct backend *be, float *y, const float *bias, int64_t n_rows,
                      int64_t d);
void backend_scale(struct backend *be, float *y, int64_t n, float by); /* y *= by */
/* y = cap * tanh(y / cap), cap > 0 */
void backend_softcap(struct backend *be, float *y, int64_t n, float cap);

/* q, gate [n_rows, d] from x [n_rows, 2 d]: the halves of each row. */
void backend_split(struct backend *be, float *q, float *gate, const float *x,
                   int64_t n_rows, int64_t d);
/* y[i] = sigmoid(gate[i]) * x[i]; y may be gate or x. */
void backend_sigmoid_mul(struct backend *be, float *y, const float *gate,
                         const float *x, int64_t n);

/* A gated delta net: value head j reads key head j mod n_k_heads. */
struct delta_args {
    int64_t n_k_heads, n_v_heads, k_dim, v_dim; /* k_dim <= DELTA_MAX_KEYS */
    float eps;                                  /* of the norm of q and k */
};
enum { DELTA_MAX_KEYS = 4096, CONV_MAX_TAPS = 8 };

/* y [T, C] = silu of the convolution of u [T, C] over time, channel by channel: w [taps,
 * C], oldest first. state [taps - 1, C] holds the rows of u before, and the last ones
 * afterwards. y is not u. */
void backend_conv(struct backend *be, float *y, const float *u, float *state,
                  const float *w, int64_t n_tokens, int64_t n_channels, int64_t taps);
/* In place, [T, H]: decay = exp(rate * softplus(decay + bias)), beta = sigmoid(beta);
 * rate, bias [H]. H <= DELTA_MAX_KEYS. */
void backend_delta_gates(struct backend *be, float *decay, float *beta,
                         const float *rate, const float *bias, int64_t n_tokens,
                         int64_t n_heads);
/* out [T, V heads, v_dim] from rows q, k [K heads, k_dim], v [V heads, v_dim] of qkv, and
 * decay, beta [T, V heads]; state [V heads, k_dim, v_dim] is read and written. Token after
 * token, so that the bits do not depend on how a sequence is cut. */
void backend_delta(struct backend *be, float *out, const float *qkv, const float *decay,
                   const float *beta, float *state, int64_t n_tokens,
                   const struct delta_args *args);

/* Scratch that attention needs for these limits is made here, before decoding. */
enum b2_status backend_reserve(struct backend *be, const struct attn_limits *limits,
                               struct b2_err *err) NODISCARD;
/* Bytes of the backend with that scratch. */
uint64_t backend_reserve_bytes(const struct backend *be,
                               const struct attn_limits *limits);

#endif
