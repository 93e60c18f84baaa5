/*
 * layer_attn.c - the attention block of a layer, and the same backwards.
 */
#include "train/layer_int.h"

int layer_attn_kept(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                    int64_t tokens)
{
    const int64_t q = tokens * l->n_heads * l->head_dim;
    const int64_t k = tokens * l->n_kv_heads * l->head_dim;
    const struct layer_cut all[] = {
        {&w->q_raw, l->norm[NORM_Q].gain ? q : 0},
        {&w->k_raw, l->norm[NORM_K].gain ? k : 0},
        {&w->q, q},
        {&w->k, k},
        {&w->v, k},
        {&w->q_gate, l->attn_gate ? q : 0},
        {&w->a, q},
        {&w->o, l->norm[NORM_ATTN_POST].gain ? tokens * l->d : 0},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

int layer_attn_rest(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                    const struct layer_batch *b, int threads)
{
    const int64_t n = b->n_seqs * b->ctx, q = n * l->n_heads * l->head_dim;
    const int64_t k = n * l->n_kv_heads * l->head_dim;
    const struct layer_cut all[] = {
        {&w->dq, q},
        {&w->dk, k},
        {&w->dv, k},
        {&w->da, q},
        {&w->joined, l->attn_gate ? 2 * q : 0},
        {&w->gated, l->attn_gate ? q : 0},
        {&w->inv, n * max_i64(l->n_heads, 1)},
        {&w->mix, l->n_heads ? threads * attn_scratch(b->ctx) : 0},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

static struct attn attn_of(const struct layer_pass *p)
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
                         .scratch = p->w->mix};
}

/* Heads of q or k through their norm, when there is one, and to their positions. */
static void finish_heads(const struct layer_pass *p, real *x, const real *raw,
                         enum layer_norm which, int64_t heads)
{
    const struct norm *norm = &p->l->norm[which];

    if (norm->gain)
        norm_forward(p->e, x, norm, raw, p->n * heads);
    rope_turn(p->e, x, &p->l->rope, p->b->pos, p->n, heads);
}

/* What attention gave, through its gates where there are any. */
static const real *input_of_o(const struct layer_pass *p)
{
    const struct layer_work *w = p->w;

    if (!p->l->attn_gate)
        return w->a;
    gate_forward(p->e, w->gated, w->a, w->q_gate,
                 p->n * p->l->n_heads * p->l->head_dim);
    return w->gated;
}

void layer_attn_forward(const struct layer_pass *p, const real *x)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const struct attn attn = attn_of(p);
    real *q = l->norm[NORM_Q].gain ? w->q_raw : w->q;
    real *k = l->norm[NORM_K].gain ? w->k_raw : w->k;

    norm_forward(p->e, w->h, &l->norm[NORM_ATTN], x, p->n);
    linear_forward(p->e, l->attn_gate ? w->joined : q, &l->lin[LIN_Q], w->h, p->n);
    if (l->attn_gate)
        gate_split(p->e, q, w->q_gate, w->joined, p->n * l->n_heads, l->head_dim);
    linear_forward(p->e, k, &l->lin[LIN_K], w->h, p->n);
    linear_forward(p->e, w->v, &l->lin[LIN_V], w->h, p->n);
    finish_heads(p, w->q, q, NORM_Q, l->n_heads);
    finish_heads(p, w->k, k, NORM_K, l->n_kv_heads);
    attn_forward(p->e, w->a, &attn, &(struct attn_in){w->q, w->k, w->v});
    linear_forward(p->e, w->o, &l->lin[LIN_O], input_of_o(p), p->n);
    if (l->norm[NORM_ATTN_POST].gain) {
        norm_forward(p->e, w->m, &l->norm[NORM_ATTN_POST], w->o, p->n);
        layer_add(p->e, w->m, w->m, x, p->n * l->d);
    } else {
        layer_add(p->e, w->m, w->o, x, p->n * l->d);
    }
}

static void back_heads(const struct layer_pass *p, real *dx, const real *raw,
                       enum layer_norm which, int64_t heads)
{
    rope_turn_back(p->e, dx, &p->l->rope, p->b->pos, p->n, heads);
    if (p->l->norm[which].gain)
        layer_back_norm(p, which, dx, dx, raw, p->n * heads);
}

void layer_attn_backward(const struct layer_pass *p, real *dm, const real *x)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const struct attn attn = attn_of(p);
    const struct attn_grad ag = {w->dq, w->dk, w->dv};
    const real *dout = dm;

    if (l->norm[NORM_ATTN_POST].gain) {
        layer_back_norm(p, NORM_ATTN_POST, w->dd, dm, w->o, p->n);
        dout = w->dd;
    }
    layer_back_linear(p, LIN_O, w->da, dout, input_of_o(p), false);
    if (l->attn_gate) /* its place is free now */
        gate_backward(p->e, w->gated, w->da, w->a, w->q_gate,
                      p->n * l->n_heads * l->head_dim);
    attn_backward(p->e, &ag, &attn, &(struct attn_in){w->q, w->k, w->v}, w->da);
    back_heads(p, w->dq, w->q_raw, NORM_Q, l->n_heads);
    back_heads(p, w->dk, w->k_raw, NORM_K, l->n_kv_heads);
    norm_forward(p->e, w->h, &l->norm[NORM_ATTN], x, p->n);
    if (l->attn_gate)
        gate_join(p->e, w->joined, w->dq, w->gated, p->n * l->n_heads, l->head_dim);
    layer_back_linear(p, LIN_Q, w->dd, l->attn_gate ? w->joined : w->dq, w->h, false);
    layer_back_linear(p, LIN_K, w->dd, w->dk, w->h, true);
    layer_back_linear(p, LIN_V, w->dd, w->dv, w->h, true);
    layer_back_norm(p, NORM_ATTN, w->dd, w->dd, x, p->n);
    layer_add(p->e, dm, dm, w->dd, p->n * l->d);
}
