/*
 * cache.h - what the layers remember of the tokens that went by.
 *
 * A layer keeps keys and values of every position (full), of the last ones and of a few
 * first ones (ring), or has no such cache (none: a recurrent layer keeps its state
 * elsewhere). The kind follows from the model and from what the session asks for.
 */
#ifndef MODEL_CACHE_H
#define MODEL_CACHE_H

#include "model/model.h"

enum cache_kind { CACHE_FULL, CACHE_RING, CACHE_NONE, CACHE_N_KINDS };

enum {
    CACHE_SINKS = 4,       /* by default, as in StreamingLLM (Xiao et al., 2023) */
    CACHE_MAX_SINKS = 256, /* what one segment of attention holds */
};

/* What a session asks of its caches. */
struct cache_params {
    enum dtype type;    /* DT_F16, DT_Q8_0, DT_Q4_0 */
    int64_t ctx, batch; /* positions in all; most tokens per pass */
    int64_t window;     /* for layers that see all by themselves; 0: they do */
    int64_t sinks;      /* first positions that such a window keeps */
    int saved;          /* checkpoints of recurrent states (model/recurrent.h) */
};

/* One layer's part. A ring has room for a window before each token of a batch. */
struct cache_layer {
    enum cache_kind kind;
    int64_t window, sinks; /* as attention sees it; 0: all */
    struct kv_layer kv;
};

struct cache {
    struct cache_layer *layer; /* [n_layers] */
    void *mem;
    int64_t n_layers;
    int64_t ring; /* positions besides sinks that the smallest ring holds; 0: no ring */
    int64_t reach; /* the longest window of a ring */
    int64_t low;   /* rings hold nothing certain between their sinks and here */
};

/* Kind, window and slots of a layer; kv without memory. */
struct cache_layer cache_layer_of(const struct hparams *hp,
                                  const struct cache_params *p, int64_t layer);
/* Bytes of a layer's cache. */
uint64_t cache_layer_bytes(const struct hparams *hp, const struct cache_params *p,
                           int64_t layer);
/* The most positions that a token of any layer sees. */
int64_t cache_max_visible(const struct hparams *hp, const struct cache_params *p);

/* B2_EARG, B2_EUNSUP: not a type, window or number of sinks for this model. */
enum b2_status cache_check(const struct hparams *hp, const struct cache_params *p,
                           struct b2_err *err) NODISCARD;

/* Allocates for checked params. Fresh pages cost nothing until a position is written.
 * B2_ENOMEM, with everything freed. */
enum b2_status cache_init(struct cache *c, const struct hparams *hp,
                          const struct cache_params *p, struct b2_err *err) NODISCARD;
void cache_free(struct cache *c); /* zeroed is fine */

/* Says that positions up to end (not included) were written, one pass at a time. */
void cache_wrote(struct cache *c, int64_t end);

/* Where the caches can go on from when positions from pos on are forgotten: pos itself,
 * or 0 when a ring has lost what the token at pos would see. */
int64_t cache_rewind(struct cache *c, int64_t pos);

#endif
