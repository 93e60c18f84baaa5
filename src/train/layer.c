/*
 * layer.c - the steps of a layer, and the same steps backwards.
 *
 * A net may have layers of two kinds. Buffers are as large as the larger one needs, and
 * both use the same memory.
 */
#include "train/layer_int.h"

#include "base/mem.h"
#include "base/pool.h"

enum { CHUNK = 4096, ALIGN = 16 };

/* What can be kept whatever stands before m, and the rest. */
static int list_kept(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                     int64_t tokens)
{
    const struct layer_cut all[] = {
        {&w->m, tokens * l->d},
        {&w->gate, tokens * l->f},
        {&w->up, tokens * l->f},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

static int list_rest(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                     int64_t tokens)
{
    const struct layer_cut all[] = {
        {&w->h, tokens * l->d},    {&w->act, tokens * l->f}, {&w->down, tokens * l->d},
        {&w->dact, tokens * l->f}, {&w->dd, tokens * l->d},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

static int64_t total(const struct layer_cut *c, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += (c[i].n + ALIGN - 1) / ALIGN * ALIGN;
    return sum;
}

static real *place(const struct layer_cut *c, int n, real *p)
{
    for (int i = 0; i < n; i++) {
        *c[i].to = p;
        p += (c[i].n + ALIGN - 1) / ALIGN * ALIGN;
    }
    return p;
}

int64_t layer_kept(const struct layer *l, const struct layer_batch *max)
{
    struct layer_work w;
    struct layer_cut c[LAYER_CUTS];
    const int64_t tokens = max->n_seqs * max->ctx;
    const int64_t both = total(c, list_kept(c, &w, l, tokens));
    const int64_t attn = total(c, layer_attn_kept(c, &w, l, tokens));
    const int64_t delta = total(c, layer_delta_kept(c, &w, l, tokens));

    return both + max_i64(attn, delta);
}

static int64_t rest(const struct layer *l, const struct layer_batch *max, int threads)
{
    struct layer_work w;
    struct layer_cut c[LAYER_CUTS];
    const int64_t both = total(c, list_rest(c, &w, l, max->n_seqs * max->ctx));
    const int64_t attn = total(c, layer_attn_rest(c, &w, l, max, threads));
    const int64_t delta = total(c, layer_delta_rest(c, &w, l, max, threads));

    return both + max_i64(attn, delta);
}

uint64_t layer_work_bytes(const struct layer *l, const struct layer_batch *max,
                          int threads)
{
    return (uint64_t)(rest(l, max, threads) + layer_kept(l, max)) * sizeof(real);
}

struct layer_work *layer_work_new(const struct layer *l, const struct layer_batch *max,
                                  int threads)
{
    struct layer_work *w = mem_calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->threads = threads;
    w->all = mem_aligned(64, (size_t)rest(l, max, threads), sizeof *w->all);
    w->own = mem_aligned(64, (size_t)layer_kept(l, max), sizeof *w->own);
    if (!w->all || !w->own) {
        layer_work_free(w);
        return NULL;
    }
    return w;
}

void layer_work_free(struct layer_work *w)
{
    if (!w)
        return;
    mem_free(w->own);
    mem_free(w->all);
    mem_free(w);
}

/* Gives everything its place, what the backward pass needs in `kept`. Without a norm behind
 * the block's output that is not needed again and lies where the feed-forward block's
 * will. */
static void use(struct layer_work *w, const struct layer *l,
                const struct layer_batch *b, real *kept)
{
    struct layer_cut c[LAYER_CUTS];
    const int64_t tokens = b->n_seqs * b->ctx;
    real *p = place(c, list_kept(c, w, l, tokens), kept ? kept : w->own);

    if (l->is_delta)
        place(c, layer_delta_kept(c, w, l, tokens), p);
    else
        place(c, layer_attn_kept(c, w, l, tokens), p);
    p = place(c, list_rest(c, w, l, tokens), w->all);
    if (l->is_delta)
        place(c, layer_delta_rest(c, w, l, b, w->threads), p);
    else
        place(c, layer_attn_rest(c, w, l, b, w->threads), p);
    if (l->is_delta || !l->norm[NORM_ATTN_POST].gain)
        w->o = w->down;
}

struct sum {
    real *y;
    const real *a, *b;
};

static void sum_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct sum *s = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        s->y[i] = s->a[i] + s->b[i];
}

void layer_add(const struct env *e, real *y, const real *a, const real *b, int64_t n)
{
    pool_run(e->pool, sum_part, &(struct sum){y, a, b}, n, CHUNK);
}

static void mix_forward(const struct layer_pass *p, const real *x)
{
    if (p->l->is_delta)
        layer_delta_forward(p, x);
    else
        layer_attn_forward(p, x);
}

/* Up to the hidden values of the feed-forward block; h is then the norm of m. */
static void hidden_part(const struct layer_pass *p)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;

    norm_forward(p->e, w->h, &l->norm[NORM_FFN], w->m, p->n);
    linear_forward(p->e, w->gate, &l->lin[LIN_GATE], w->h, p->n);
    linear_forward(p->e, w->up, &l->lin[LIN_UP], w->h, p->n);
    glu_forward(p->e, l->glu, w->act, w->gate, w->up, p->n * l->f);
}

/* What hidden_part() made besides what was kept. */
static void hidden_again(const struct layer_pass *p)
{
    norm_forward(p->e, p->w->h, &p->l->norm[NORM_FFN], p->w->m, p->n);
    glu_forward(p->e, p->l->glu, p->w->act, p->w->gate, p->w->up, p->n * p->l->f);
}

void layer_forward(const struct env *e, struct layer_work *w, const struct layer *l,
                   const struct layer_batch *b, real *y, const real *x, real *kept)
{
    const struct layer_pass p = {e, w, l, b, NULL, b->n_seqs * b->ctx};

    use(w, l, b, kept);
    mix_forward(&p, x);
    hidden_part(&p);
    linear_forward(e, w->down, &l->lin[LIN_DOWN], w->act, p.n);
    if (l->norm[NORM_FFN_POST].gain)
        norm_forward(e, w->down, &l->norm[NORM_FFN_POST], w->down, p.n);
    layer_add(e, y, w->m, w->down, p.n * l->d);
}

void layer_back_linear(const struct layer_pass *p, enum layer_linear which, real *dx,
                       const real *dy, const real *x, bool add_to)
{
    linear_backward_w(p->e, &p->g->lin[which], &p->l->lin[which], dy, x, p->n);
    linear_backward_x(p->e, dx, &p->l->lin[which], dy, p->n, add_to);
}

void layer_back_norm(const struct layer_pass *p, enum layer_norm which, real *dx,
                     const real *dy, const real *x, int64_t n)
{
    const struct norm_grad g = {dx, p->g->norm[which], p->w->inv};

    norm_backward(p->e, &g, &p->l->norm[which], dy, x, n);
}

/* dy: gradient of y; becomes that of m. */
static void back_ffn(const struct layer_pass *p, real *dy)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const real *dout = dy;

    if (l->norm[NORM_FFN_POST].gain) { /* its input has to be made again */
        linear_forward(p->e, w->down, &l->lin[LIN_DOWN], w->act, p->n);
        layer_back_norm(p, NORM_FFN_POST, w->dd, dy, w->down, p->n);
        dout = w->dd;
    }
    layer_back_linear(p, LIN_DOWN, w->dact, dout, w->act, false);
    glu_backward(p->e, l->glu, w->gate, w->up, w->dact, p->n * l->f);
    layer_back_linear(p, LIN_GATE, w->dd, w->gate, w->h, false);
    layer_back_linear(p, LIN_UP, w->dd, w->up, w->h, true);
    layer_back_norm(p, NORM_FFN, w->dd, w->dd, w->m, p->n);
    layer_add(p->e, dy, dy, w->dd, p->n * l->d);
}

void layer_backward(const struct env *e, struct layer_work *w, const struct layer *l,
                    const struct layer_batch *b, const struct layer_grad *g,
                    const struct layer_back *back)
{
    const struct layer_pass p = {e, w, l, b, g, b->n_seqs * b->ctx};

    use(w, l, b, back->kept);
    if (back->kept) {
        hidden_again(&p);
    } else {
        mix_forward(&p, back->x);
        hidden_part(&p);
    }
    back_ffn(&p, back->dy);
    if (l->is_delta)
        layer_delta_backward(&p, back->dy, back->x);
    else
        layer_attn_backward(&p, back->dy, back->x);
}
