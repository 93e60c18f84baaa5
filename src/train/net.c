/*
 * net.c - layers in order, and back.
 */
#include "train/net.h"

#include "base/mem.h"

struct net_work {
    struct layer_work *layer;
    int64_t n_kept; /* inputs that lie in x: all, or one that is overwritten */
    int64_t size;   /* reals of an input */
    real *x;        /* [n_kept, tokens, d]; the last one is what the last layer gave */
    real *h;        /* [tokens, d] normed */
    real *inv;      /* [tokens] */
    real *kept;     /* [n_layers, per_layer]; NULL: made again */
    int64_t per_layer;
};

static int64_t kept(const struct net *net, enum net_keep keep)
{
    return keep == NET_FORWARD ? 1 : net->n_layers + 1;
}

static int64_t reals(const struct net *net, const struct layer_batch *max,
                     enum net_keep keep)
{
    const int64_t tokens = max->n_seqs * max->ctx;

    return tokens * net->d * (kept(net, keep) + 1) + tokens;
}

static int64_t per_layer(const struct layer *first, const struct layer_batch *max,
                         enum net_keep keep)
{
    return keep == NET_ALL ? layer_kept(first, max) : 0;
}

uint64_t net_work_bytes(const struct net *net, const struct layer *first,
                        const struct layer_batch *max, int threads, enum net_keep keep)
{
    const int64_t n =
        reals(net, max, keep) + net->n_layers * per_layer(first, max, keep);

    return (uint64_t)n * sizeof(real) + layer_work_bytes(first, max, threads);
}

struct net_work *net_work_new(const struct net *net, const struct layer *first,
                              const struct layer_batch *max, int threads,
                              enum net_keep keep)
{
    struct net_work *w = mem_calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->size = max->n_seqs * max->ctx * net->d;
    w->n_kept = kept(net, keep);
    w->per_layer = per_layer(first, max, keep);
    w->layer = layer_work_new(first, max, threads);
    w->x = mem_aligned(64, (size_t)reals(net, max, keep), sizeof *w->x);
    if (w->per_layer > 0)
        w->kept =
            mem_aligned(64, (size_t)(net->n_layers * w->per_layer), sizeof *w->kept);
    if (!w->layer || !w->x || (w->per_layer > 0 && !w->kept)) {
        net_work_free(w);
        return NULL;
    }
    w->h = w->x + w->n_kept * w->size;
    w->inv = w->h + w->size;
    return w;
}

void net_work_free(struct net_work *w)
{
    if (!w)
        return;
    layer_work_free(w->layer);
    mem_free(w->kept);
    mem_free(w->x);
    mem_free(w);
}

real *net_input(struct net_work *w)
{
    return w->x;
}

static real *input_of(const struct net_work *w, int64_t layer)
{
    return w->n_kept == 1 ? w->x : w->x + layer * w->size;
}

static real *kept_of(const struct net_work *w, int64_t layer)
{
    return w->kept ? w->kept + layer * w->per_layer : NULL;
}

const real *net_last(const struct net_work *w)
{
    return input_of(w, w->n_kept - 1);
}

const real *net_output(const struct net_work *w, int64_t i)
{
    return input_of(w, i + 1);
}

const real *net_forward(const struct env *e, struct net_work *w, const struct net *net,
                        const struct layer_batch *b)
{
    const int64_t tokens = b->n_seqs * b->ctx;

    for (int64_t i = 0; i < net->n_layers; i++) {
        layer_forward(e, w->layer, net->layer(net->ctx, i), b, input_of(w, i + 1),
                      input_of(w, i), kept_of(w, i));
        if (net->tap && net->tap->made)
            net->tap->made(net->tap->ctx, i, input_of(w, i + 1), tokens);
    }
    norm_forward(e, w->h, &net->out_norm, net_last(w), tokens);
    return w->h;
}

void net_backward(const struct env *e, struct net_work *w, const struct net *net,
                  const struct layer_batch *b, real *dh, real *dnorm)
{
    const struct norm_grad norm = {dh, dnorm, w->inv};

    norm_backward(e, &norm, &net->out_norm, dh, net_last(w), b->n_seqs * b->ctx);
    for (int64_t i = net->n_layers - 1; i >= 0; i--) {
        const struct layer *l = net->layer(net->ctx, i);
        if (net->tap && net->tap->back)
            net->tap->back(net->tap->ctx, i, dh, b->n_seqs * b->ctx);
        const struct layer_back back = {dh, input_of(w, i), kept_of(w, i)};
        layer_backward(e, w->layer, l, b, net->grad(net->ctx, i), &back);
        if (net->done)
            net->done(net->ctx, i);
    }
}
