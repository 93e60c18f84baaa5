/*
 * layer.c - the steps of a layer, and the same steps backwards.
 */
#include "train/layer.h"

#include "base/mem.h"
#include "base/pool.h"

/* [tokens, …]; "raw": before the norm of heads. The backward pass needs all of them. */
struct layer_work {
    /* kept from a forward pass, or made again; in the caller's memory or in `own` */
    real *q_raw, *k_raw; /* H head_dim, K head_dim */
    real *q, *k, *v;
    real *a;         /* H head_dim: output of attention */
    real *o;         /* d: of the o projection, before its norm */
    real *m;         /* d */
    real *gate, *up; /* f */
    /* made again in any case: cheap */
    real *h;    /* d: norm of x, then of m */
    real *act;  /* f */
    real *down; /* d: before its norm */
    /* gradients */
    real *dq, *dk, *dv, *da; /* like q, k, v, a */
    real *dact;              /* f */
    real *dd;                /* d */
    real *inv;               /* of rows of heads */
    real *attn;              /* scratch of attention */
    real *own, *all;
};

enum { CHUNK = 4096, ALIGN = 16 };

struct cut {
    real **to;
    int64_t n; /* reals */
};

/* Sizes of what can be kept, in the order above; returns how many there are. */
static int list_kept(struct cut *c, struct layer_work *w, const struct layer *l,
                     const struct layer_batch *b)
{
    const int64_t n = b->n_seqs * b->ctx, d = n * l->d, f = n * l->f;
    const int64_t q = n * l->n_heads * l->head_dim;
    const int64_t k = n * l->n_kv_heads * l->head_dim;
    const bool raw_q = l->norm[NORM_Q].gain != NULL;
    const bool raw_k = l->norm[NORM_K].gain != NULL;
    const struct cut all[] = {
        {&w->q_raw, raw_q ? q : 0},
        {&w->k_raw, raw_k ? k : 0},
        {&w->q, q},
        {&w->k, k},
        {&w->v, k},
        {&w->a, q},
        {&w->o, l->norm[NORM_ATTN_POST].gain ? d : 0},
        {&w->m, d},
        {&w->gate, f},
        {&w->up, f},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

static int list_cuts(struct cut *c, struct layer_work *w, const struct layer *l,
                     const struct layer_batch *b, int threads)
{
    const int64_t n = b->n_seqs * b->ctx, d = n * l->d, f = n * l->f;
    const int64_t q = n * l->n_heads * l->head_dim;
    const int64_t k = n * l->n_kv_heads * l->head_dim;
    const struct cut all[] = {
        {&w->h, d},
        {&w->act, f},
        {&w->down, d},
        {&w->dq, q},
        {&w->dk, k},
        {&w->dv, k},
        {&w->da, q},
        {&w->dact, f},
        {&w->dd, d},
        {&w->inv, n * max_i64(l->n_heads, 1)},
        {&w->attn, threads * attn_scratch(b->ctx)},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

enum { MAX_CUTS = 32 };

static int64_t total(const struct cut *c, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += (c[i].n + ALIGN - 1) / ALIGN * ALIGN;
    return sum;
}

static void place(const struct cut *c, int n, real *p)
{
    for (int i = 0; i < n; i++) {
        *c[i].to = p;
        p += (c[i].n + ALIGN - 1) / ALIGN * ALIGN;
    }
}

int64_t layer_kept(const struct layer *l, const struct layer_batch *max)
{
    struct layer_work w;
    struct cut c[MAX_CUTS];
    int n = list_kept(c, &w, l, max);

    return total(c, n);
}

uint64_t layer_work_bytes(const struct layer *l, const struct layer_batch *max,
                          int threads)
{
    struct layer_work w;
    struct cut c[MAX_CUTS];
    int n = list_cuts(c, &w, l, max, threads);

    return (uint64_t)(total(c, n) + layer_kept(l, max)) * sizeof(real);
}

struct layer_work *layer_work_new(const struct layer *l, const struct layer_batch *max,
                                  int threads)
{
    struct layer_work *w = mem_calloc(1, sizeof *w);
    struct cut c[MAX_CUTS];
    int n;

    if (!w)
        return NULL;
    n = list_cuts(c, w, l, max, threads);
    w->all = mem_aligned(64, (size_t)total(c, n), sizeof *w->all);
    w->own = mem_aligned(64, (size_t)layer_kept(l, max), sizeof *w->own);
    if (!w->all || !w->own) {
        layer_work_free(w);
        return NULL;
    }
    place(c, n, w->all);
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

/* Where this pass keeps what the backward pass needs. Without a norm behind attention its
 * output is not needed again and lies where that of the feed-forward block will. */
static void use(struct layer_work *w, const struct layer *l,
                const struct layer_batch *b, real *kept)
{
    struct cut c[MAX_CUTS];
    int n = list_kept(c, w, l, b);

    place(c, n, kept ? kept : w->own);
    if (!l->norm[NORM_ATTN_POST].gain)
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

/* y = a + b */
static void add(const struct env *e, real *y, const real *a, const real *b, int64_t n)
{
    pool_run(e->pool, sum_part, &(struct sum){y, a, b}, n, CHUNK);
}

/* What the steps below share. */
struct pass {
    const struct env *e;
    struct layer_work *w;
    const struct layer *l;
    const struct layer_batch *b;
    const struct layer_grad *g;
    int64_t n; /* tokens */
};

static struct attn attn_of(const struct pass *p)
{
    const struct layer *l = p->l;

    return (struct attn){.n_heads = l->n_heads,
                         .n_kv_heads = l->n_kv_heads,
                         .head_dim = l->head_dim,
                         .window = l->window,
                         .scale = l->attn_scale,
                         .softcap = l->attn_softcap,
                         .n_seqs = p->b->n_seqs,
                         .ctx = p->b->ctx,
                         .first = p->b->first,
                         .scratch = p->w->attn};
}

/* Heads of q or k through their norm, when there is one, and to their positions. */
static void finish_heads(const struct pass *p, real *x, const real *raw,
                         enum layer_norm which, int64_t heads)
{
    const struct norm *norm = &p->l->norm[which];

    if (norm->gain)
        norm_forward(p->e, x, norm, raw, p->n * heads);
    rope_turn(p->e, x, &p->l->rope, p->b->pos, p->n, heads);
}

static void attention_part(const struct pass *p, const real *x)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const struct attn attn = attn_of(p);
    real *q = l->norm[NORM_Q].gain ? w->q_raw : w->q;
    real *k = l->norm[NORM_K].gain ? w->k_raw : w->k;

    norm_forward(p->e, w->h, &l->norm[NORM_ATTN], x, p->n);
    linear_forward(p->e, q, &l->lin[LIN_Q], w->h, p->n);
    linear_forward(p->e, k, &l->lin[LIN_K], w->h, p->n);
    linear_forward(p->e, w->v, &l->lin[LIN_V], w->h, p->n);
    finish_heads(p, w->q, q, NORM_Q, l->n_heads);
    finish_heads(p, w->k, k, NORM_K, l->n_kv_heads);
    attn_forward(p->e, w->a, &attn, &(struct attn_in){w->q, w->k, w->v});
    linear_forward(p->e, w->o, &l->lin[LIN_O], w->a, p->n);
    if (l->norm[NORM_ATTN_POST].gain) {
        norm_forward(p->e, w->m, &l->norm[NORM_ATTN_POST], w->o, p->n);
        add(p->e, w->m, w->m, x, p->n * l->d);
    } else {
        add(p->e, w->m, w->o, x, p->n * l->d);
    }
}

/* Up to the hidden values of the feed-forward block; h is then the norm of m. */
static void hidden_part(const struct pass *p)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;

    norm_forward(p->e, w->h, &l->norm[NORM_FFN], w->m, p->n);
    linear_forward(p->e, w->gate, &l->lin[LIN_GATE], w->h, p->n);
    linear_forward(p->e, w->up, &l->lin[LIN_UP], w->h, p->n);
    glu_forward(p->e, l->glu, w->act, w->gate, w->up, p->n * l->f);
}

/* What hidden_part() made besides what was kept. */
static void hidden_again(const struct pass *p)
{
    norm_forward(p->e, p->w->h, &p->l->norm[NORM_FFN], p->w->m, p->n);
    glu_forward(p->e, p->l->glu, p->w->act, p->w->gate, p->w->up, p->n * p->l->f);
}

void layer_forward(const struct env *e, struct layer_work *w, const struct layer *l,
                   const struct layer_batch *b, real *y, const real *x, real *kept)
{
    const struct pass p = {e, w, l, b, NULL, b->n_seqs * b->ctx};

    use(w, l, b, kept);
    attention_part(&p, x);
    hidden_part(&p);
    linear_forward(e, w->down, &l->lin[LIN_DOWN], w->act, p.n);
    if (l->norm[NORM_FFN_POST].gain)
        norm_forward(e, w->down, &l->norm[NORM_FFN_POST], w->down, p.n);
    add(e, y, w->m, w->down, p.n * l->d);
}

/* One weight's own gradient, and what it hands to its input. */
static void back_linear(const struct pass *p, enum layer_linear which, real *dx,
                        const real *dy, const real *x, bool add_to)
{
    linear_backward_w(p->e, &p->g->lin[which], &p->l->lin[which], dy, x, p->n);
    linear_backward_x(p->e, dx, &p->l->lin[which], dy, p->n, add_to);
}

static void back_norm(const struct pass *p, enum layer_norm which, real *dx,
                      const real *dy, const real *x, int64_t n)
{
    const struct norm_grad g = {dx, p->g->norm[which], p->w->inv};

    norm_backward(p->e, &g, &p->l->norm[which], dy, x, n);
}

/* dy: gradient of y; becomes that of m. */
static void back_ffn(const struct pass *p, real *dy)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const real *dout = dy;

    if (l->norm[NORM_FFN_POST].gain) { /* its input has to be made again */
        linear_forward(p->e, w->down, &l->lin[LIN_DOWN], w->act, p->n);
        back_norm(p, NORM_FFN_POST, w->dd, dy, w->down, p->n);
        dout = w->dd;
    }
    back_linear(p, LIN_DOWN, w->dact, dout, w->act, false);
    glu_backward(p->e, l->glu, w->gate, w->up, w->dact, p->n * l->f);
    back_linear(p, LIN_GATE, w->dd, w->gate, w->h, false);
    back_linear(p, LIN_UP, w->dd, w->up, w->h, true);
    back_norm(p, NORM_FFN, w->dd, w->dd, w->m, p->n);
    add(p->e, dy, dy, w->dd, p->n * l->d);
}

static void back_heads(const struct pass *p, real *dx, const real *raw,
                       enum layer_norm which, int64_t heads)
{
    rope_turn_back(p->e, dx, &p->l->rope, p->b->pos, p->n, heads);
    if (p->l->norm[which].gain)
        back_norm(p, which, dx, dx, raw, p->n * heads);
}

/* dm: gradient of m; becomes that of x. */
static void back_attention(const struct pass *p, real *dm, const real *x)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const struct attn attn = attn_of(p);
    const struct attn_grad ag = {w->dq, w->dk, w->dv};
    const real *dout = dm;

    if (l->norm[NORM_ATTN_POST].gain) {
        back_norm(p, NORM_ATTN_POST, w->dd, dm, w->o, p->n);
        dout = w->dd;
    }
    back_linear(p, LIN_O, w->da, dout, w->a, false);
    attn_backward(p->e, &ag, &attn, &(struct attn_in){w->q, w->k, w->v}, w->da);
    back_heads(p, w->dq, w->q_raw, NORM_Q, l->n_heads);
    back_heads(p, w->dk, w->k_raw, NORM_K, l->n_kv_heads);
    norm_forward(p->e, w->h, &l->norm[NORM_ATTN], x, p->n);
    back_linear(p, LIN_Q, w->dd, w->dq, w->h, false);
    back_linear(p, LIN_K, w->dd, w->dk, w->h, true);
    back_linear(p, LIN_V, w->dd, w->dv, w->h, true);
    back_norm(p, NORM_ATTN, w->dd, w->dd, x, p->n);
    add(p->e, dm, dm, w->dd, p->n * l->d);
}

void layer_backward(const struct env *e, struct layer_work *w, const struct layer *l,
                    const struct layer_batch *b, const struct layer_grad *g,
                    const struct layer_back *back)
{
    const struct pass p = {e, w, l, b, g, b->n_seqs * b->ctx};

    use(w, l, b, back->kept);
    if (back->kept) {
        hidden_again(&p);
    } else {
        attention_part(&p, back->x);
        hidden_part(&p);
    }
    back_ffn(&p, back->dy);
    back_attention(&p, back->dy, back->x);
}
