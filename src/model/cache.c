/*
 * cache.c - the kinds of caches, their sizes, and going back.
 */
#include "model/cache.h"

#include "base/mem.h"

#include <limits.h>

enum { ALIGN = 64 };

struct cache_layer cache_layer_of(const struct hparams *hp,
                                  const struct cache_params *p, int64_t layer)
{
    struct cache_layer c = {.kind = CACHE_FULL, .kv = {.type = p->type, .cap = p->ctx}};

    if (hparams_recurrent(hp, layer))
        return (struct cache_layer){.kind = CACHE_NONE};
    if (hparams_slides(hp, layer)) {
        c.window = hp->window;
    } else if (p->window > 0) {
        c.window = p->window;
        c.sinks = p->sinks;
    }
    /* A batch of T tokens is stored before the first of them looks back. */
    if (c.window > 0 && c.sinks + c.window + p->batch - 1 < p->ctx) {
        c.kind = CACHE_RING;
        c.kv.sinks = c.sinks;
        c.kv.cap = c.sinks + c.window + p->batch - 1;
    }
    return c;
}

uint64_t cache_layer_bytes(const struct hparams *hp, const struct cache_params *p,
                           int64_t layer)
{
    struct cache_layer c = cache_layer_of(hp, p, layer);

    if (c.kind == CACHE_NONE)
        return 0;
    return align_up_u64(
        backend_kv_bytes(p->type, hparams_kv_heads(hp, layer), hp->head_dim, c.kv.cap),
        ALIGN);
}

int64_t cache_max_visible(const struct hparams *hp, const struct cache_params *p)
{
    int64_t most = 1;

    for (int64_t i = 0; i < hp->n_layers; i++) {
        struct cache_layer c = cache_layer_of(hp, p, i);
        if (c.kind != CACHE_NONE)
            most =
                max_i64(most, c.window ? min_i64(c.window + c.sinks, p->ctx) : p->ctx);
    }
    return most;
}

enum b2_status cache_check(const struct hparams *hp, const struct cache_params *p,
                           struct b2_err *err)
{
    if (p->window < 0 || p->sinks < 0 || p->sinks > CACHE_MAX_SINKS)
        return err_set(err, B2_EARG,
                       "window %lld with %lld sinks: the window must be positive, the "
                       "sinks in 0..%d",
                       (long long)p->window, (long long)p->sinks, CACHE_MAX_SINKS);
    if (p->window > 0 && p->window + p->sinks > hp->ctx_train)
        return err_set(
            err, B2_EARG,
            "a window of %lld and %lld sinks are more than the %lld positions "
            "that the model was trained for",
            (long long)p->window, (long long)p->sinks, (long long)hp->ctx_train);
    if (p->window > INT32_MAX || p->ctx > INT32_MAX)
        return err_set(err, B2_EARG, "a context of %lld is too long",
                       (long long)p->ctx);
    return backend_kv_check(p->type, hp->head_dim, err);
}

/* Notes how far back the rings reach. */
static void note_ring(struct cache *c, const struct cache_layer *l)
{
    int64_t held = l->kv.cap - l->kv.sinks;

    c->ring = c->ring ? min_i64(c->ring, held) : held;
    c->reach = max_i64(c->reach, l->window);
}

enum b2_status cache_init(struct cache *c, const struct hparams *hp,
                          const struct cache_params *p, struct b2_err *err)
{
    uint64_t n_bytes = 0;

    *c = (struct cache){.n_layers = hp->n_layers};
    for (int64_t i = 0; i < hp->n_layers; i++)
        n_bytes += cache_layer_bytes(hp, p, i);
    c->layer = mem_calloc((size_t)hp->n_layers, sizeof *c->layer);
    c->mem = mem_aligned(ALIGN, (size_t)n_bytes, 1);
    if (!c->layer || !c->mem) {
        cache_free(c);
        return err_set(err, B2_ENOMEM,
                       "out of memory for the caches of a context of %lld: a smaller "
                       "--ctx, or --cache q8_0, needs less",
                       (long long)p->ctx);
    }
    uint8_t *mem = c->mem;
    for (int64_t i = 0; i < hp->n_layers; i++) {
        struct cache_layer *l = &c->layer[i];
        *l = cache_layer_of(hp, p, i);
        if (l->kind == CACHE_RING)
            note_ring(c, l);
        if (l->kind != CACHE_NONE)
            backend_kv_place(&l->kv, mem, hparams_kv_heads(hp, i), hp->head_dim);
        mem += cache_layer_bytes(hp, p, i);
    }
    return B2_OK;
}

void cache_free(struct cache *c)
{
    mem_free(c->layer);
    mem_free(c->mem);
    *c = (struct cache){0};
}

void cache_wrote(struct cache *c, int64_t end)
{
    if (c->ring)
        c->low = max_i64(c->low, end - c->ring);
}

/* The token at pos sees reach - 1 positions before its own, or all from 0 on. Positions
 * below low were overwritten, by tokens that are forgotten now perhaps. */
int64_t cache_rewind(struct cache *c, int64_t pos)
{
    if (c->ring == 0 || pos <= 0 || max_i64(0, pos - c->reach + 1) >= c->low)
        return max_i64(pos, 0);
    c->low = 0;
    return 0;
}
