/*
 * netmodel.c - weights of a model in F32 when a layer needs them, gradients taken in when
 * it is done.
 */
#include "compress/netmodel_int.h"

#include "base/file_space.h"
#include "base/mem.h"
#include "base/pool.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 16, ALIGN = 16 };

/* ---- embedding and head ---- */

struct embedding {
    const struct weight *w;
    float *x;
    const int32_t *ids;
    float scale;
};

static void embed_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct embedding *d = ctx;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        float *x = d->x + t * d->w->cols;
        netmodel_rows(d->w, x, d->ids[t], d->ids[t] + 1);
        for (int64_t i = 0; d->scale != 1.0f && i < d->w->cols; i++)
            x[i] *= d->scale;
    }
}

void netmodel_embed(const struct netmodel *n, float *x, const int32_t *ids,
                    int64_t n_ids)
{
    struct embedding d = {&n->m->embd, x, ids, n->m->hp.embd_scale};

    pool_run(n->pool, embed_part, &d, n_ids, ROWS);
}

static void head_rows(void *ctx, real *dst, int64_t begin, int64_t end)
{
    const struct model *m = ctx;

    netmodel_rows(&m->head, dst, begin, end);
}

struct head netmodel_head(const struct netmodel *n)
{
    return (struct head){.vocab = n->m->hp.vocab,
                         .d = n->m->hp.d,
                         .rows = head_rows,
                         .ctx = (void *)(uintptr_t)n->m,
                         .softcap = n->m->hp.final_softcap};
}

bool netmodel_same_head(const struct model *a, const struct model *b)
{
    const struct weight *x = &a->head, *y = &b->head;

    return !x->tiers && !y->tiers && x->type == y->type && x->rows == y->rows &&
           x->cols == y->cols && x->row_bytes == y->row_bytes && !x->rot && !y->rot &&
           memcmp(x->data, y->data, (size_t)x->row_bytes * (size_t)x->rows) == 0;
}

/* ---- layers as the net asks for them ---- */

struct latent *netmodel_latent(const struct netmodel *n, int64_t layer, int which)
{
    struct latent *l = n->latent ? &n->latent[layer * N_LINEARS + which] : NULL;

    return l && l->all ? l : NULL;
}

void netmodel_rest(const struct netmodel *n, int64_t item)
{
    const struct latent *l = n->latent ? &n->latent[item] : NULL;

    if (n->space && l && l->placed)
        file_space_drop(n->space, l->all, l->n_bytes);
}

/* Where a layer's norm lies among the trained ones. */
static int64_t norm_at(const struct netmodel *n, int64_t layer, int which)
{
    int64_t at = 0;

    for (int64_t i = 0; i <= layer; i++)
        for (int k = 0; k < (i < layer ? N_NORMS : which); k++)
            at += netmodel_norm(n->m, i, k) ? netmodel_norm_len(&n->m->hp, k) : 0;
    return at;
}

static void point_norms(struct netmodel *n, int64_t layer)
{
    for (int k = 0; k < N_NORMS; k++) {
        const float *gain = netmodel_norm(n->m, layer, k);
        const int64_t at = n->norms.p && gain ? norm_at(n, layer, k) : 0;
        n->layer.norm[k] =
            (struct norm){n->norms.p && gain ? n->norms.p + at : gain,
                          netmodel_norm_len(&n->m->hp, k), n->m->hp.norm_eps};
        n->grad.norm[k] = n->norms.p && gain ? n->norms.g + at : NULL;
    }
}

/* Which kind of layer, and a gated delta net's numbers. */
static void point_delta(struct netmodel *n, int64_t layer)
{
    const struct delta_weights *w = n->m->layers[layer].delta;

    n->layer.is_delta = w != NULL;
    n->layer.delta.conv = w ? w->conv : NULL;
    n->layer.delta.rate = w ? w->rate : NULL;
    n->layer.delta.bias = w ? w->bias : NULL;
}

static const struct layer *get_layer(void *ctx, int64_t i)
{
    struct netmodel *n = ctx;
    const struct hparams *hp = &n->m->hp;
    const bool slides = hparams_slides(hp, i) && hp->window > 0;
    const struct rope_table *table = model_rope(n->m, hparams_slides(hp, i), n->ctx);
    const bool local = table == &n->m->rope_local;
    const int64_t half = n->ctx * (hp->n_rot / 2);

    if (n->current == i)
        return &n->layer;
    n->current = i;
    n->layer.window = slides ? hp->window : 0;
    point_delta(n, i);
    n->layer.rope.cos = n->turns + (local ? 2 * half : 0);
    n->layer.rope.sin = n->layer.rope.cos + half;
    for (int k = 0; k < N_LINEARS; k++) {
        const struct latent *l = netmodel_latent(n, i, k);
        const struct weight *w = netmodel_weight(n->m, i, k);
        n->layer.lin[k] =
            (struct linear){n->w[k], netmodel_bias(n->m, i, k), w->rows, w->cols};
        if (w->rows == 0)
            continue;
        if (l && !(n->as_came && l->kind == LATENT_FREE)) {
            latent_weights(l, n->env, n->w[k], n->sharp);
            netmodel_rest(n, i * N_LINEARS + k);
        } else {
            netmodel_decode(w, n->w[k], n->pool);
        }
    }
    point_norms(n, i);
    return &n->layer;
}

static const struct layer_grad *get_grad(void *ctx, int64_t i)
{
    struct netmodel *n = ctx;

    for (int k = 0; k < N_LINEARS; k++) {
        const struct linear *l = &n->layer.lin[k];
        const bool wanted = l->rows > 0 && (netmodel_latent(n, i, k) || n->look.fn);
        n->grad.lin[k].w = wanted ? n->dw[k] : NULL;
        if (n->grad.lin[k].w)
            memset(n->dw[k], 0, (size_t)(l->rows * l->cols) * sizeof(float));
    }
    return &n->grad;
}

/* The layer's weights are used up: their place is scratch. */
static void take_grad(void *ctx, int64_t i)
{
    struct netmodel *n = ctx;

    n->current = -1;
    for (int k = 0; k < N_LINEARS; k++) {
        struct latent *l = netmodel_latent(n, i, k);
        if (!l)
            continue;
        latent_collect(l, n->env, n->dw[k], n->w[k], n->sharp);
        netmodel_rest(n, i * N_LINEARS + k);
    }
    if (n->look.fn)
        n->look.fn(n->look.ctx, i, &n->layer, n->dw);
}

void netmodel_end_passes(struct netmodel *n)
{
    mem_free(n->weights);
    mem_free(n->turns);
    n->weights = NULL;
    n->turns = NULL;
    n->current = -1;
}

void netmodel_moved(struct netmodel *n)
{
    n->current = -1;
}

void netmodel_each_norm(const struct netmodel *n,
                        void (*fn)(void *ctx, const char *name, int64_t at,
                                   int64_t len),
                        void *ctx)
{
    const struct hparams *hp = &n->m->hp;
    int64_t at = 0;
    char name[64];

    for (int64_t i = 0; i < hp->n_layers; i++) {
        for (int k = 0; k < N_NORMS; k++) {
            if (!netmodel_norm(n->m, i, k))
                continue;
            fn(ctx, netmodel_norm_name(name, n->m, i, k), at, netmodel_norm_len(hp, k));
            at += netmodel_norm_len(hp, k);
        }
    }
    fn(ctx, "output_norm.weight", at, hp->d);
}

/* ---- making ---- */

static int64_t turn_reals(const struct model *m, int64_t ctx)
{
    return 4 * ctx * (m->hp.n_rot / 2);
}

/* Where each matrix of a layer lies among the decoded ones; returns how many values there
 * are. A layer has either kind of block before the feed-forward one: they share a place. */
static int64_t lay_out(const struct model *m, int64_t at[N_LINEARS])
{
    int64_t size[N_LINEARS] = {0}, attn = 0, delta = 0;

    for (int64_t i = 0; i < m->hp.n_layers; i++) /* those of a kind are alike */
        for (int k = 0; k < N_LINEARS; k++) {
            const struct weight *w = netmodel_weight(m, i, k);
            size[k] =
                (w->rows ? w->rows * w->cols + ALIGN - 1 : size[k]) / ALIGN * ALIGN;
        }
    for (int k = LIN_Q; k < LIN_GATE; k++) {
        at[k] = attn;
        attn += size[k];
    }
    for (int k = LIN_QKV; k < N_LINEARS; k++) {
        at[k] = delta;
        delta += size[k];
    }
    int64_t sum = max_i64(attn, delta);
    for (int k = LIN_GATE; k <= LIN_DOWN; k++) {
        at[k] = sum;
        sum += size[k];
    }
    return sum;
}

int64_t netmodel_norm_values(const struct model *m)
{
    int64_t sum = m->hp.d;

    for (int64_t i = 0; i < m->hp.n_layers; i++)
        for (int k = 0; k < N_NORMS; k++)
            sum += netmodel_norm(m, i, k) ? netmodel_norm_len(&m->hp, k) : 0;
    return sum;
}

static bool can_train(const struct weight *w)
{
    struct codes c;

    return codes_of(&c, w->type) && c.ternary &&
           !(dtype_info(w->type)->flags & DTF_APART);
}

/* Those of attention and feed-forward blocks come first, of all layers: whatever kinds
 * there are, their latents start at the same places. */
static uint64_t seed_of(const struct model *m, uint64_t seed, int64_t i, int k)
{
    const int64_t item = k < LIN_QKV ? i * LIN_QKV + k
                                     : m->hp.n_layers * LIN_QKV +
                                           i * (N_LINEARS - LIN_QKV) + k - LIN_QKV;

    return seed + (uint64_t)item * 1000003u;
}

/* How matrix k of layer i is trained; false: it is not. */
static bool kind_of(struct latent_how *out, const struct model *m,
                    const struct netmodel_how *how, int64_t i, int k)
{
    char name[64];

    *out = (struct latent_how){.kind = LATENT_ALL, .seed = seed_of(m, how->seed, i, k)};
    if (netmodel_weight(m, i, k)->rows == 0)
        return false;
    if (how->kind)
        how->kind(how->ctx_of_kind, netmodel_linear_name(name, i, k), out);
    return out->kind == LATENT_FREE || can_train(netmodel_weight(m, i, k));
}

uint64_t netmodel_bytes(const struct model *m, const struct netmodel_how *how)
{
    const bool trained = how->teacher != NULL;
    int64_t at[N_LINEARS];
    const uint64_t reals = (uint64_t)turn_reals(m, how->ctx) +
                           (uint64_t)lay_out(m, at) * (trained ? 2 : 1) +
                           (trained ? 4 * (uint64_t)netmodel_norm_values(m) : 0);

    return reals * sizeof(float);
}

struct netmodel_share netmodel_share(const struct model *m,
                                     const struct netmodel_how *how, int64_t layer)
{
    struct netmodel_share out = {0};
    struct latent_how kind;

    for (int k = 0; k < N_LINEARS; k++) {
        const struct weight *w = netmodel_weight(m, layer, k);
        if (!kind_of(&kind, m, how, layer, k))
            continue;
        const uint64_t bytes = latent_bytes(w, &kind);
        out.latents += bytes;
        out.largest = bytes > out.largest ? bytes : out.largest;
        out.packed += latent_packed_size(w, &kind);
        out.saved += latent_saved_bytes(w, &kind);
        out.n_values += w->rows * w->cols;
        out.n_latents++;
    }
    return out;
}

/* The first layer of the kind of layer i. */
static int64_t first_alike(const struct model *m, int64_t i)
{
    int64_t first = 0;

    while (!m->layers[first].delta != !m->layers[i].delta)
        first++;
    return first;
}

enum b2_status netmodel_check(const struct model *m, struct b2_err *err)
{
    const struct arch *a = m->hp.arch;

    if (a->sub_norms || a->fused || a->longrope)
        return err_set(err, B2_EUNSUP,
                       "%s: architecture `%s` cannot be distilled yet (llama, qwen2, "
                       "qwen3, qwen35, gemma3 can)",
                       modelfile_path(m->mf), a->name);
    for (int64_t i = 0; i < m->hp.n_layers; i++) {
        const int64_t first = first_alike(m, i);
        for (int k = 0; k < N_LINEARS; k++) {
            const struct weight *w = netmodel_weight(m, i, k);
            const struct weight *like = netmodel_weight(m, first, k);
            if (w->rows != like->rows || w->cols != like->cols)
                return err_set(err, B2_EUNSUP, "%s: layers of different shapes",
                               w->name);
        }
    }
    return B2_OK;
}

static enum b2_status make_buffers(struct netmodel *n, struct b2_err *err)
{
    const struct hparams *hp = &n->m->hp;
    const bool grads = n->latent || n->look.fn;
    const int64_t half = n->ctx * (hp->n_rot / 2);
    int64_t at[N_LINEARS];
    const size_t values = (size_t)lay_out(n->m, at);

    n->turns = mem_calloc((size_t)turn_reals(n->m, n->ctx), sizeof *n->turns);
    n->weights = mem_aligned(64, values, sizeof *n->weights);
    if (grads)
        n->grads = mem_aligned(64, values, sizeof *n->grads);
    if (!n->turns || !n->weights || (grads && !n->grads))
        return err_set(err, B2_ENOMEM, "out of memory for a layer");
    for (int k = 0; k < N_LINEARS; k++) {
        n->w[k] = n->weights + at[k];
        n->dw[k] = grads ? n->grads + at[k] : NULL;
    }
    const struct rope_table *all = model_rope(n->m, false, n->ctx);
    rope_fill(n->turns, n->turns + half, all->freq, all->mscale, n->ctx, hp->n_rot);
    const struct rope_table *local = model_rope(n->m, true, n->ctx);
    rope_fill(n->turns + 2 * half, n->turns + 3 * half, local->freq, local->mscale,
              n->ctx, hp->n_rot);
    return B2_OK;
}

struct copy_norms {
    struct netmodel *n;
    bool all_f32;
};

static void see_norm(void *ctx, const char *name, int64_t at, int64_t len)
{
    struct copy_norms *c = ctx;
    const int64_t i = modelfile_find(c->n->m->mf, name);

    (void)at;
    (void)len;
    if (i < 0 || modelfile_tensor(c->n->m->mf, i)->type != DT_F32)
        c->all_f32 = false;
}

/* Norms are trained when they are stored as they are computed. */
static enum b2_status make_norms(struct netmodel *n, struct b2_err *err)
{
    struct copy_norms c = {n, true};
    const struct hparams *hp = &n->m->hp;
    const int64_t len = netmodel_norm_values(n->m);
    int64_t at = 0;

    netmodel_each_norm(n, see_norm, &c);
    if (!c.all_f32)
        return B2_OK;
    float *p = mem_calloc((size_t)(4 * len), sizeof *p);
    if (!p)
        return err_set(err, B2_ENOMEM, "out of memory for the norms");
    n->norms = (struct param){p, p + len, p + 2 * len, p + 3 * len, len, 1.0f};
    for (int64_t i = 0; i < hp->n_layers; i++)
        for (int k = 0; k < N_NORMS; k++) {
            const float *gain = netmodel_norm(n->m, i, k);
            if (!gain)
                continue;
            memcpy(p + at, gain, (size_t)netmodel_norm_len(hp, k) * sizeof *p);
            at += netmodel_norm_len(hp, k);
        }
    memcpy(p + at, n->m->out_norm, (size_t)hp->d * sizeof *p);
    n->net.out_norm.gain = p + at;
    return B2_OK;
}

static enum b2_status make_latents(struct netmodel *n, const struct netmodel_how *how,
                                   struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < n->m->hp.n_layers && !rc; i++) {
        for (int k = 0; k < N_LINEARS && !rc; k++) {
            const struct weight *w = netmodel_weight(n->m, i, k);
            struct latent_how kind;
            if (!kind_of(&kind, n->m, how, i, k))
                continue;
            netmodel_decode(netmodel_weight(how->teacher, i, k), n->w[k], n->pool);
            kind.teacher = n->w[k];
            if (how->space && i >= how->resident) {
                kind.place = file_space_take(how->space, latent_bytes(w, &kind));
                if (!kind.place)
                    return err_set(err, B2_ENOMEM, "the latents' space is too small");
            }
            rc = latent_new(&n->latent[i * N_LINEARS + k], w, &kind, n->pool, err);
            netmodel_rest(n, i * N_LINEARS + k);
            n->n_latents++;
            n->n_free += kind.kind == LATENT_FREE;
            n->n_trained += w->rows * w->cols;
        }
    }
    if (!rc && n->n_latents == 0)
        rc = err_set(err, B2_EUNSUP,
                     "%s: no ternary matrix that could be trained; make one with "
                     "`bonsai2 compress`",
                     modelfile_path(n->m->mf));
    return rc;
}

static bool same_deltas(const struct hparams *a, const struct hparams *b)
{
    for (int64_t i = 0; i < a->n_layers; i++)
        if (hparams_recurrent(a, i) != hparams_recurrent(b, i))
            return false;
    return a->conv_taps == b->conv_taps && a->k_heads == b->k_heads &&
           a->v_heads == b->v_heads && a->k_dim == b->k_dim && a->v_dim == b->v_dim;
}

enum b2_status netmodel_check_pair(const struct model *s, const struct model *t,
                                   struct b2_err *err)
{
    enum b2_status rc = netmodel_check(s, err);

    if (rc)
        return rc;
    if (s->hp.n_layers != t->hp.n_layers || s->hp.vocab != t->hp.vocab ||
        s->hp.d != t->hp.d || s->hp.f != t->hp.f || s->hp.arch != t->hp.arch ||
        s->hp.n_heads != t->hp.n_heads || s->hp.n_kv_heads != t->hp.n_kv_heads ||
        s->hp.head_dim != t->hp.head_dim || !same_deltas(&s->hp, &t->hp))
        return err_set(err, B2_EUNSUP,
                       "%s and its teacher %s have different shapes: give the model "
                       "that the student was made from",
                       modelfile_path(s->mf), modelfile_path(t->mf));
    return netmodel_check(t, err);
}

enum b2_status netmodel_check_teacher(const struct model *s, const struct model *t,
                                      struct b2_err *err)
{
    if (s->hp.vocab != t->hp.vocab || s->hp.d != t->hp.d)
        return err_set(err, B2_EUNSUP,
                       "%s cannot learn from %s: their vocabulary or width differs",
                       modelfile_path(s->mf), modelfile_path(t->mf));
    return netmodel_check(t, err);
}

/* Which norms there are, in whatever layer, decides sizes of buffers. */
static void show_norms(struct netmodel *n)
{
    for (int64_t i = 0; i < n->m->hp.n_layers; i++)
        for (int k = 0; k < N_NORMS; k++)
            if (netmodel_norm(n->m, i, k))
                n->layer.norm[k].gain = netmodel_norm(n->m, i, k);
}

enum b2_status netmodel_new(struct netmodel *out, const struct model *m,
                            const struct netmodel_how *how, struct b2_err *err)
{
    const struct hparams *hp = &m->hp;
    enum b2_status rc = netmodel_check(m, err);

    *out = (struct netmodel){.m = m,
                             .pool = how->pool,
                             .env = how->env,
                             .current = -1,
                             .ctx = how->ctx,
                             .space = how->space};
    out->look = how->look;
    if (!rc && how->teacher)
        rc = netmodel_check_pair(m, how->teacher, err);
    if (rc)
        return rc;
    out->layer =
        (struct layer){.d = hp->d,
                       .f = hp->f,
                       .n_heads = hp->n_heads,
                       .n_kv_heads = hp->n_kv_heads,
                       .head_dim = hp->head_dim,
                       .attn_scale = hp->attn_scale,
                       .glu = hp->arch->glu,
                       .attn_gate = hp->arch->attn_gate,
                       .delta = {.taps = hp->conv_taps,
                                 .k_heads = hp->k_heads,
                                 .v_heads = hp->v_heads,
                                 .k_dim = hp->k_dim,
                                 .v_dim = hp->v_dim,
                                 .eps = hp->norm_eps},
                       .rope = {hp->arch->rope, hp->head_dim, hp->n_rot, NULL, NULL}};
    out->net = (struct net){.n_layers = hp->n_layers,
                            .d = hp->d,
                            .out_norm = {m->out_norm, hp->d, hp->norm_eps},
                            .ctx = out,
                            .layer = get_layer,
                            .grad = get_grad,
                            .done = take_grad};
    if (how->teacher) {
        out->latent =
            mem_calloc((size_t)(hp->n_layers * N_LINEARS), sizeof *out->latent);
        if (!out->latent)
            rc = err_set(err, B2_ENOMEM, "out of memory");
    }
    if (!rc)
        rc = make_buffers(out, err);
    if (!rc && how->teacher)
        rc = make_latents(out, how, err);
    if (!rc && how->teacher)
        rc = make_norms(out, err);
    show_norms(out);
    if (rc)
        netmodel_free(out);
    return rc;
}

void netmodel_free(struct netmodel *n)
{
    mem_free(n->weights);
    mem_free(n->grads);
    for (int64_t i = 0; n->latent && i < n->m->hp.n_layers * N_LINEARS; i++)
        latent_free(&n->latent[i]);
    mem_free(n->latent);
    mem_free(n->norms.p);
    mem_free(n->turns);
    *n = (struct netmodel){0};
}
