/*
 * layer_delta.c - the gated delta net of a layer, and the same backwards.
 */
#include "train/layer_int.h"

static struct delta delta_of(const struct layer *l, const struct layer_batch *b,
                             real *scratch)
{
    const struct layer_delta *d = &l->delta;

    return (struct delta){.k_heads = d->k_heads,
                          .v_heads = d->v_heads,
                          .k_dim = d->k_dim,
                          .v_dim = d->v_dim,
                          .eps = d->eps,
                          .rate = d->rate,
                          .bias = d->bias,
                          .n_seqs = b->n_seqs,
                          .ctx = b->ctx,
                          .first = b->first,
                          .scratch = scratch};
}

static int64_t channels_of(const struct layer *l)
{
    const struct delta d = delta_of(l, &(struct layer_batch){0}, NULL);

    return delta_width(&d);
}

int layer_delta_kept(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                     int64_t tokens)
{
    const int64_t v = tokens * l->delta.v_heads;
    const struct layer_cut all[] = {
        {&w->u, tokens * channels_of(l)},
        {&w->z, v * l->delta.v_dim},
        {&w->alpha, v},
        {&w->beta, v},
        {&w->a, v * l->delta.v_dim},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

int layer_delta_rest(struct layer_cut *c, struct layer_work *w, const struct layer *l,
                     const struct layer_batch *b, int threads)
{
    const int64_t n = b->n_seqs * b->ctx, v = n * l->delta.v_heads;
    const int64_t channels = n * channels_of(l), values = v * l->delta.v_dim;
    const struct delta d = delta_of(l, b, NULL);
    const struct layer_cut all[] = {
        {&w->conv, channels},     {&w->normed, values},
        {&w->gated, values},      {&w->dconv, channels},
        {&w->dalpha, v},          {&w->dbeta, v},
        {&w->inv, max_i64(v, n)}, {&w->mix, v ? threads * delta_scratch(&d) : 0},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

static struct conv conv_of(const struct layer_pass *p)
{
    return (struct conv){.w = p->l->delta.conv,
                         .taps = p->l->delta.taps,
                         .channels = channels_of(p->l),
                         .n_seqs = p->b->n_seqs,
                         .ctx = p->b->ctx,
                         .first = p->b->first};
}

/* normed and gated of a. */
static void make_gated(const struct layer_pass *p)
{
    const struct layer_delta *d = &p->l->delta;
    struct layer_work *w = p->w;
    const int64_t heads = p->n * d->v_heads;

    norm_forward(p->e, w->normed, &p->l->norm[NORM_DELTA], w->a, heads);
    glu_forward(p->e, GLU_SILU, w->gated, w->z, w->normed, heads * d->v_dim);
}

void layer_delta_forward(const struct layer_pass *p, const real *x)
{
    const struct layer *l = p->l;
    struct layer_work *w = p->w;
    const struct conv conv = conv_of(p);
    const struct delta delta = delta_of(l, p->b, w->mix);

    norm_forward(p->e, w->h, &l->norm[NORM_ATTN], x, p->n);
    linear_forward(p->e, w->u, &l->lin[LIN_QKV], w->h, p->n);
    linear_forward(p->e, w->z, &l->lin[LIN_Z], w->h, p->n);
    linear_forward(p->e, w->alpha, &l->lin[LIN_ALPHA], w->h, p->n);
    linear_forward(p->e, w->beta, &l->lin[LIN_BETA], w->h, p->n);
    conv_forward(p->e, w->conv, &conv, w->u);
    delta_forward(p->e, w->a, &delta, &(struct delta_in){w->conv, w->alpha, w->beta});
    make_gated(p);
    linear_forward(p->e, w->o, &l->lin[LIN_OUT], w->gated, p->n);
    layer_add(p->e, w->m, w->o, x, p->n * l->d);
}

/* From the gradient of the block's output to those of u, z, alpha and beta, which lie in
 * conv, z, dalpha and dbeta. */
static void back_mix(const struct layer_pass *p, const real *dout)
{
    const struct layer_delta *d = &p->l->delta;
    struct layer_work *w = p->w;
    const int64_t heads = p->n * d->v_heads;
    const struct conv conv = conv_of(p);
    const struct delta delta = delta_of(p->l, p->b, w->mix);
    const struct delta_grad dg = {w->dconv, w->dalpha, w->dbeta, p->g->rate,
                                  p->g->bias};
    const struct conv_grad cg = {w->conv, p->g->conv};

    make_gated(p);
    conv_forward(p->e, w->conv, &conv, w->u);
    linear_backward_w(p->e, &p->g->lin[LIN_OUT], &p->l->lin[LIN_OUT], dout, w->gated,
                      p->n);
    linear_backward_x(p->e, w->gated, &p->l->lin[LIN_OUT], dout, p->n, false);
    glu_backward(p->e, GLU_SILU, w->z, w->normed, w->gated, heads * d->v_dim);
    layer_back_norm(p, NORM_DELTA, w->normed, w->normed, w->a, heads);
    delta_backward(p->e, &dg, &delta, &(struct delta_in){w->conv, w->alpha, w->beta},
                   w->normed);
    conv_backward(p->e, &cg, &conv, w->dconv, w->u); /* w->conv is used up */
}

void layer_delta_backward(const struct layer_pass *p, real *dm, const real *x)
{
    struct layer_work *w = p->w;

    back_mix(p, dm);
    norm_forward(p->e, w->h, &p->l->norm[NORM_ATTN], x, p->n);
    layer_back_linear(p, LIN_QKV, w->dd, w->conv, w->h, false);
    layer_back_linear(p, LIN_Z, w->dd, w->z, w->h, true);
    layer_back_linear(p, LIN_ALPHA, w->dd, w->dalpha, w->h, true);
    layer_back_linear(p, LIN_BETA, w->dd, w->dbeta, w->h, true);
    layer_back_norm(p, NORM_ATTN, w->dd, w->dd, x, p->n);
    layer_add(p->e, dm, dm, w->dd, p->n * p->l->d);
}
