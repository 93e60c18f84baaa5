/*
 * synth_int.h - the parts of the generator: models, keys, vocabulary, random groups.
 */
#ifndef FORMAT_SYNTH_INT_H
#define FORMAT_SYNTH_INT_H

#include "base/arena.h"
#include "format/synth.h"

enum synth_family { SYNTH_QWEN3, SYNTH_QWEN35 };

struct synth_model {
    const char *name, *summary;
    enum synth_family family;
    const char *arch, *pre;
    int64_t layers, d, f, heads, kv_heads, head_dim, ctx;
    int64_t vocab, words, merges; /* rows, ordinary tokens, merges among them */
    bool tied;
    float theta;
};

/* NULL: unknown. */
const struct synth_model *synth_model_find(const char *name);

/* ---- tensors: synth_models.c ---- */

enum synth_kind {
    SYNTH_MATRIX, /* of the type asked for */
    SYNTH_SMALL,  /* a matrix that stays BF16 */
    SYNTH_GAIN,   /* F32 around `scale`, 10 % wide */
    SYNTH_NORMAL, /* F32, standard deviation `scale` */
    SYNTH_DECAY,  /* F32, -A of the recurrence: uniform in (-16, -1) */
    SYNTH_STEP,   /* F32, the step's bias: softplus of it is in (0.001, 0.1) */
};

struct synth_tensor {
    char name[64];
    enum synth_kind kind;
    int rank;
    int64_t ne[2];
    float scale; /* standard deviation of matrices */
};

struct synth_list {
    struct synth_tensor *t; /* arena */
    int64_t n;
};

/* All tensors of the first `layers` layers, in file order. */
enum b2_status synth_list_make(struct synth_list *out, const struct synth_model *m,
                               int64_t layers, struct arena *a,
                               struct b2_err *err) NODISCARD;

/* ---- keys: synth_meta.c and synth_vocab.c ---- */

/* All keys, vocabulary and rotation included; free with meta_free. */
enum b2_status synth_meta_make(struct meta **out, const struct synth_model *m,
                               const struct synth_list *list,
                               const struct synth_params *p,
                               struct b2_err *err) NODISCARD;

/* The tokenizer.ggml.* keys. */
enum b2_status synth_vocab_meta(struct meta *m, const struct synth_model *model,
                                struct b2_err *err) NODISCARD;

/* ---- random groups of 256 weights: synth_groups.c ---- */

enum { SYNTH_GROUP = 256 };

struct synth_groups;

/* The stock of groups that weights are drawn from. */
enum b2_status synth_groups_new(struct synth_groups **out, enum dtype type,
                                uint64_t seed, struct b2_err *err) NODISCARD;
void synth_groups_free(struct synth_groups *g); /* NULL is fine */

/* Draws come with a standard deviation of `scale` from now on; the stock is encoded once
 * for each. B2_ENOMEM. */
enum b2_status synth_groups_scale(struct synth_groups *g, float scale,
                                  struct b2_err *err) NODISCARD;

/* Bytes of one group, and of n groups drawn by a generator into dst. */
size_t synth_groups_bytes(const struct synth_groups *g);
struct rng;
void synth_groups_draw(const struct synth_groups *g, struct rng *r, uint8_t *dst,
                       int64_t n);

#endif
