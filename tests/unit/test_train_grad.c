/*
 * test_train_grad.c - every backward pass against central differences, in F64.
 *
 * The loss of a step with outputs y is sum c_i y_i with random c, so that the gradient
 * that goes in is c. Built with TRAIN_F64.
 */
#include "base/pool.h"
#include "train/embed.h"
#include "train/head.h"
#include "train/hidden.h"
#include "train/net.h"
#include "unit/grad.h"

static struct env env;

/* ---- linear ---- */

struct linear_case {
    struct linear l;
    double *w, *b, *x, *y, *c;
    int64_t n;
};

static double linear_loss(void *ctx)
{
    struct linear_case *t = ctx;

    linear_forward(&env, t->y, &t->l, t->x, t->n);
    return dot(t->y, t->c, t->n * t->l.rows);
}

static void test_linear(void **state)
{
    enum { N = 5, COLS = 7, ROWS = 9 };
    struct linear_case t = {.w = randoms(ROWS * COLS, 1, 1),
                            .b = randoms(ROWS, 1, 2),
                            .x = randoms(N * COLS, 1, 3),
                            .y = zeros(N * ROWS),
                            .c = randoms(N * ROWS, 1, 4),
                            .n = N};
    const struct linear_grad g = {zeros(ROWS * COLS), zeros(ROWS)};
    double *dx = zeros(N * COLS);

    (void)state;
    t.l = (struct linear){t.w, t.b, ROWS, COLS};
    linear_backward_x(&env, dx, &t.l, t.c, N, false);
    linear_backward_w(&env, &g, &t.l, t.c, t.x, N);
    check("linear x", linear_loss, &t, t.x, dx, N * COLS);
    check("linear w", linear_loss, &t, t.w, g.w, ROWS * COLS);
    check("linear b", linear_loss, &t, t.b, g.b, ROWS);
    double first = dx[0];
    linear_backward_x(&env, dx, &t.l, t.c, N, true);
    assert_true(fabs(dx[0] - 2 * first) < 1e-12);
    mem_free(t.w);
    mem_free(t.b);
    mem_free(t.x);
    mem_free(t.y);
    mem_free(t.c);
    mem_free(g.w);
    mem_free(g.b);
    mem_free(dx);
}

/* ---- norm ---- */

struct norm_case {
    struct norm w;
    double *gain, *x, *y, *c;
    int64_t n;
};

static double norm_loss(void *ctx)
{
    struct norm_case *t = ctx;

    norm_forward(&env, t->y, &t->w, t->x, t->n);
    return dot(t->y, t->c, t->n * t->w.d);
}

static void test_norm(void **state)
{
    enum { N = 6, D = 37 };
    struct norm_case t = {.gain = randoms(D, 1, 1),
                          .x = randoms(N * D, 1, 2),
                          .y = zeros(N * D),
                          .c = randoms(N * D, 1, 3),
                          .n = N};
    const struct norm_grad g = {zeros(N * D), zeros(D), zeros(N)};

    (void)state;
    t.w = (struct norm){t.gain, D, 1e-3};
    norm_backward(&env, &g, &t.w, t.c, t.x, N);
    check("norm x", norm_loss, &t, t.x, g.dx, N * D);
    check("norm gain", norm_loss, &t, t.gain, g.dgain, D);
    mem_free(t.gain);
    mem_free(t.x);
    mem_free(t.y);
    mem_free(t.c);
    mem_free(g.dx);
    mem_free(g.dgain);
    mem_free(g.inv);
}

/* ---- glu ---- */

struct glu_case {
    enum glu_kind kind;
    double *gate, *up, *y, *c;
    int64_t n;
};

static double glu_loss(void *ctx)
{
    struct glu_case *t = ctx;

    glu_forward(&env, t->kind, t->y, t->gate, t->up, t->n);
    return dot(t->y, t->c, t->n);
}

static void test_glu(void **state)
{
    static const enum glu_kind kinds[] = {GLU_SILU, GLU_GELU, GLU_RELU2};
    enum { N = 50 };

    (void)state;
    for (size_t i = 0; i < countof(kinds); i++) {
        struct glu_case t = {kinds[i], randoms(N, 2, 1), randoms(N, 1, 2),
                             zeros(N), randoms(N, 1, 3), N};
        double *gate = mem_dup(t.gate, N * sizeof *gate);
        double *up = mem_dup(t.up, N * sizeof *up);
        glu_backward(&env, kinds[i], gate, up, t.c, N);
        check("glu gate", glu_loss, &t, t.gate, gate, N);
        check("glu up", glu_loss, &t, t.up, up, N);
        mem_free(t.gate);
        mem_free(t.up);
        mem_free(t.y);
        mem_free(t.c);
        mem_free(gate);
        mem_free(up);
    }
}

/* ---- attention ---- */

enum { SEQS = 2, CTX = 70, HEADS = 4, KV = 2, HD = 6, TOKENS = SEQS * CTX };

struct attn_case {
    struct attn a;
    double *q, *k, *v, *y, *c;
};

static double attn_loss(void *ctx)
{
    struct attn_case *t = ctx;

    attn_forward(&env, t->y, &t->a, &(struct attn_in){t->q, t->k, t->v});
    return dot(t->y, t->c, TOKENS * HEADS * HD);
}

static void run_attention(int64_t window, double softcap, const int32_t *first)
{
    enum { Q = TOKENS * HEADS * HD, K = TOKENS * KV * HD };
    struct attn_case t = {.q = randoms(Q, 1, 1),
                          .k = randoms(K, 1, 2),
                          .v = randoms(K, 1, 3),
                          .y = zeros(Q),
                          .c = randoms(Q, 1, 4)};
    const struct attn_grad g = {zeros(Q), zeros(K), zeros(K)};

    t.a = (struct attn){HEADS,   KV,   HD,  window, 0.4,
                        softcap, SEQS, CTX, first,  zeros(2 * attn_scratch(CTX))};
    attn_backward(&env, &g, &t.a, &(struct attn_in){t.q, t.k, t.v}, t.c);
    check("attention q", attn_loss, &t, t.q, g.q, Q);
    check("attention k", attn_loss, &t, t.k, g.k, K);
    check("attention v", attn_loss, &t, t.v, g.v, K);
    mem_free(t.q);
    mem_free(t.k);
    mem_free(t.v);
    mem_free(t.y);
    mem_free(t.c);
    mem_free(t.a.scratch);
    mem_free(g.q);
    mem_free(g.k);
    mem_free(g.v);
}

static void test_attention(void **state)
{
    int32_t first[TOKENS] = {0};

    (void)state;
    for (int s = 0; s < SEQS; s++)
        for (int t = 20; t < CTX; t++)
            first[s * CTX + t] = t < 65 ? 20 : 65;
    run_attention(0, 0, NULL);
    run_attention(9, 0, NULL);
    run_attention(0, 1.5, NULL);
    run_attention(30, 2.0, first);
}

/* ---- embedding ---- */

struct embed_case {
    struct embed w;
    double *table, *y, *c;
    const int32_t *ids;
    int64_t n;
};

static double embed_loss(void *ctx)
{
    struct embed_case *t = ctx;

    embed_forward(&env, t->y, &t->w, t->ids, t->n);
    return dot(t->y, t->c, t->n * t->w.d);
}

static void test_embed(void **state)
{
    enum { N = 6, V = 5, D = 8 };
    static const int32_t ids[N] = {3, 0, 3, 4, 1, 3};
    struct embed_case t = {.table = randoms(V * D, 1, 1),
                           .y = zeros(N * D),
                           .c = randoms(N * D, 1, 2),
                           .ids = ids,
                           .n = N};
    double *g = zeros(V * D);

    (void)state;
    t.w = (struct embed){t.table, D, 2.5};
    embed_backward(&env, g, &t.w, t.c, ids, N);
    check("embedding", embed_loss, &t, t.table, g, V * D);
    mem_free(t.table);
    mem_free(t.y);
    mem_free(t.c);
    mem_free(g);
}

/* ---- head ---- */

struct head_case {
    struct head_loss l;
    struct head_io io;
    double *hs, *ht, *w, *wt;
    int64_t n;
};

static double head_total(void *ctx)
{
    struct head_case *t = ctx;
    struct head_io io = t->io;
    struct head_sums s = {0};
    double temp = t->l.temperature;

    io.dhs = NULL;
    io.dw = NULL;
    head_run(&env, &s, &t->l, &io, t->n);
    return t->io.weight * (t->l.kl * temp * temp * s.kl + t->l.ce * s.ce);
}

static void run_head(double temperature, double softcap, bool shared, bool skip)
{
    enum { N = 140, D = 6, V = 51 };
    int32_t target[N];
    uint8_t skips[N] = {0, 1, 1};
    struct head_case t = {.hs = randoms(N * D, 1, 1),
                          .ht = randoms(N * D, 1, 2),
                          .w = randoms(V * D, 1, 3),
                          .wt = randoms(V * D, 1, 4),
                          .n = N};
    double *dhs = randoms(N * D, 1, 9), *dw = zeros(V * D);

    for (int i = 0; i < N; i++)
        target[i] = i % 10 == 9 ? -1 : (i * 11) % V; /* none follows */
    t.l =
        (struct head_loss){.student = {V, D, t.w, NULL, NULL, softcap},
                           .teacher = {V, D, shared ? t.w : t.wt, NULL, NULL, softcap},
                           .shared = shared,
                           .kl = 0.8,
                           .ce = 0.3,
                           .temperature = temperature,
                           .threads = 2};
    t.l.scratch = zeros(head_scratch(&t.l, 2));
    t.io = (struct head_io){.hs = t.hs,
                            .ht = t.ht,
                            .target = target,
                            .skip = skip ? skips : NULL,
                            .weight = 0.01,
                            .dhs = dhs,
                            .dw = dw};
    struct head_sums s = {0};
    head_run(&env, &s, &t.l, &t.io, N);
    assert_int_equal(s.n, skip ? N - 2 : N);
    assert_int_equal(s.n_ce, s.n - N / 10);
    check("head hidden", head_total, &t, t.hs, dhs, N * D);
    if (!shared) /* else the teacher moves with it */
        check("head weight", head_total, &t, t.w, dw, V * D);
    mem_free(t.hs);
    mem_free(t.ht);
    mem_free(t.w);
    mem_free(t.wt);
    mem_free(t.l.scratch);
    mem_free(dhs);
    mem_free(dw);
}

static void test_head(void **state)
{
    (void)state;
    run_head(1, 0, false, false);
    run_head(2, 0, true, false);
    run_head(1.5, 3, false, true);
}

/* ---- a layer ---- */

struct layer_case {
    struct layer l;
    struct layer_work *work;
    struct layer_batch b;
    double *x, *y, *c;
};

static double layer_loss(void *ctx)
{
    struct layer_case *t = ctx;

    layer_forward(&env, t->work, &t->l, &t->b, t->y, t->x, NULL);
    return dot(t->y, t->c, t->b.n_seqs * t->b.ctx * t->l.d);
}

enum { LD = 12, LF = 10 };

enum { MY_LINEARS = LIN_DOWN + 1, MY_NORMS = NORM_FFN_POST + 1 };
static const int64_t lin_rows[] = {HEADS * HD, KV *HD, KV *HD, LD, LF, LF, LD};
static const int64_t lin_cols[] = {LD, LD, LD, HEADS *HD, LD, LD, LF};
static const int64_t norm_d[] = {LD, HD, HD, LD, LD, LD};

static void fill_layer(struct layer *l, struct layer_grad *g, bool all)
{
    for (int i = 0; i < MY_LINEARS; i++) {
        int64_t n = lin_rows[i] * lin_cols[i];
        bool bias = all && i <= LIN_V;
        l->lin[i] =
            (struct linear){randoms(n, 0.3, 10 + (uint64_t)i),
                            bias ? randoms(lin_rows[i], 0.3, 20 + (uint64_t)i) : NULL,
                            lin_rows[i], lin_cols[i]};
        g->lin[i] = (struct linear_grad){zeros(n), bias ? zeros(lin_rows[i]) : NULL};
    }
    for (int i = 0; i < MY_NORMS; i++) {
        bool there = all || i == NORM_ATTN || i == NORM_FFN;
        l->norm[i] = (struct norm){
            there ? randoms(norm_d[i], 1, 30 + (uint64_t)i) : NULL, norm_d[i], 1e-3};
        g->norm[i] = there ? zeros(norm_d[i]) : NULL;
    }
}

static void free_layer(struct layer *l, struct layer_grad *g)
{
    for (int i = 0; i < MY_LINEARS; i++) {
        mem_free((void *)(uintptr_t)l->lin[i].w);
        mem_free((void *)(uintptr_t)l->lin[i].b);
        mem_free(g->lin[i].w);
        mem_free(g->lin[i].b);
    }
    for (int i = 0; i < MY_NORMS; i++) {
        mem_free((void *)(uintptr_t)l->norm[i].gain);
        mem_free(g->norm[i]);
    }
}

/* The weights are const for the layer; the test owns them. */
static double *movable(const double *p)
{
    return (double *)(uintptr_t)p;
}

static void check_layer(struct layer_case *t, const struct layer_grad *g)
{
    char what[32];

    for (int i = 0; i < MY_LINEARS; i++) {
        snprintf(what, sizeof what, "layer weight %d", i);
        check(what, layer_loss, t, movable(t->l.lin[i].w), g->lin[i].w,
              lin_rows[i] * lin_cols[i]);
        /* a shift of all keys changes no softmax, so the key's bias has none to speak of
         * unless heads are normed or turned, which they are here */
        snprintf(what, sizeof what, "layer bias %d", i);
        if (g->lin[i].b)
            check(what, layer_loss, t, movable(t->l.lin[i].b), g->lin[i].b,
                  lin_rows[i]);
    }
    for (int i = 0; i < MY_NORMS; i++) {
        snprintf(what, sizeof what, "layer norm %d", i);
        if (g->norm[i])
            check(what, layer_loss, t, movable(t->l.norm[i].gain), g->norm[i],
                  norm_d[i]);
    }
}

static void run_layer(bool all, enum rope_kind kind, enum glu_kind glu, int64_t window)
{
    enum { S = 2, C = 9, N = S * C };
    static const float freq[2] = {1.0f, 0.1f};
    double cos_sin[2][C * 2];
    int32_t pos[N];
    struct layer_case t = {.l = {.d = LD,
                                 .f = LF,
                                 .n_heads = HEADS,
                                 .n_kv_heads = KV,
                                 .head_dim = HD,
                                 .window = window,
                                 .attn_scale = 0.5,
                                 .glu = glu,
                                 .rope = {kind, HD, 4, cos_sin[0], cos_sin[1]}},
                           .b = {S, C, pos, NULL},
                           .x = randoms(N * LD, 1, 1),
                           .y = zeros(N * LD),
                           .c = randoms(N * LD, 1, 2)};
    struct layer_grad g = {0};
    double *dx = mem_dup(t.c, N * LD * sizeof *dx);

    for (int i = 0; i < N; i++)
        pos[i] = i % C;
    rope_fill(cos_sin[0], cos_sin[1], freq, 1.1f, C, 4);
    fill_layer(&t.l, &g, all);
    t.work = layer_work_new(&t.l, &t.b, 2);
    assert_non_null(t.work);
    double *kept = all ? NULL : zeros(layer_kept(&t.l, &t.b));
    if (kept)
        layer_forward(&env, t.work, &t.l, &t.b, t.y, t.x, kept);
    layer_backward(&env, t.work, &t.l, &t.b, &g, &(struct layer_back){dx, t.x, kept});
    mem_free(kept);
    check("layer x", layer_loss, &t, t.x, dx, N * LD);
    check_layer(&t, &g);
    layer_work_free(t.work);
    free_layer(&t.l, &g);
    mem_free(t.x);
    mem_free(t.y);
    mem_free(t.c);
    mem_free(dx);
}

static void test_layer(void **state)
{
    (void)state;
    run_layer(false, ROPE_NORM, GLU_SILU, 0);
    run_layer(true, ROPE_NEOX, GLU_GELU, 4);
}

/* ---- layers with something that sees them ---- */

enum { NET_S = 2, NET_C = 5, NET_N = NET_S * NET_C };

struct net_case {
    struct net net;
    struct net_tap tap;
    struct net_work *work;
    struct layer_batch b;
    struct layer layer[2];
    struct layer_grad grad[2];
    double *x, *c, *t; /* embeddings; gradient of the last states; states of layer 0 */
    double tapped;
};

static const struct layer *net_layer(void *ctx, int64_t i)
{
    return &((struct net_case *)ctx)->layer[i];
}

static const struct layer_grad *net_grad(void *ctx, int64_t i)
{
    return &((struct net_case *)ctx)->grad[i];
}

static void tap_made(void *ctx, int64_t i, const double *y, int64_t tokens)
{
    struct net_case *t = ctx;
    const struct hidden_io io = {y, t->t, tokens, LD, 0, NULL};

    if (i == 0)
        t->tapped = hidden_run(&env, &io);
}

static void tap_back(void *ctx, int64_t i, double *dy, int64_t tokens)
{
    struct net_case *t = ctx;
    /* the output of layer 0 is kept as the input of layer 1, behind the embeddings */
    const struct hidden_io io = {
        net_input(t->work) + tokens * LD, t->t, tokens, LD, 0.4, dy};

    if (i == 0)
        hidden_run(&env, &io);
}

static double net_loss(void *ctx)
{
    struct net_case *t = ctx;

    memcpy(net_input(t->work), t->x, NET_N * LD * sizeof *t->x);
    const double *h = net_forward(&env, t->work, &t->net, &t->b);
    return dot(h, t->c, NET_N * LD) + 0.4 * t->tapped;
}

/* The gradient of a loss on the way reaches what lies before it, and nothing else. */
static void test_net_tap(void **state)
{
    static const float freq[2] = {1.0f, 0.1f};
    double cos_sin[2][NET_C * 2];
    int32_t pos[NET_N];
    struct net_case t = {.b = {NET_S, NET_C, pos, NULL},
                         .x = randoms(NET_N * LD, 1, 1),
                         .c = randoms(NET_N * LD, 1, 2),
                         .t = randoms(NET_N * LD, 1, 3)};
    double *gain = randoms(LD, 1, 4);
    double *dh = mem_dup(t.c, NET_N * LD * sizeof *dh);

    (void)state;
    for (int i = 0; i < NET_N; i++)
        pos[i] = i % NET_C;
    rope_fill(cos_sin[0], cos_sin[1], freq, 1.0f, NET_C, 4);
    for (int i = 0; i < 2; i++) {
        t.layer[i] = (struct layer){.d = LD,
                                    .f = LF,
                                    .n_heads = HEADS,
                                    .n_kv_heads = KV,
                                    .head_dim = HD,
                                    .attn_scale = 0.5,
                                    .glu = GLU_SILU,
                                    .rope = {ROPE_NEOX, HD, 4, cos_sin[0], cos_sin[1]}};
        fill_layer(&t.layer[i], &t.grad[i], false);
    }
    t.tap = (struct net_tap){&t, tap_made, tap_back};
    t.net = (struct net){.n_layers = 2,
                         .d = LD,
                         .out_norm = {gain, LD, 1e-3},
                         .ctx = &t,
                         .layer = net_layer,
                         .grad = net_grad,
                         .tap = &t.tap};
    t.work = net_work_new(&t.net, &t.layer[0], &t.b, 2, NET_ALL);
    assert_non_null(t.work);
    net_loss(&t);
    net_backward(&env, t.work, &t.net, &t.b, dh, NULL);
    check("net x", net_loss, &t, t.x, dh, NET_N * LD);
    for (int i = 0; i < 2; i++)
        check("net down", net_loss, &t, movable(t.layer[i].lin[LIN_DOWN].w),
              t.grad[i].lin[LIN_DOWN].w, LD * LF);
    net_work_free(t.work);
    for (int i = 0; i < 2; i++)
        free_layer(&t.layer[i], &t.grad[i]);
    mem_free(gain);
    mem_free(dh);
    mem_free(t.x);
    mem_free(t.c);
    mem_free(t.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),  cmocka_unit_test(test_norm),
        cmocka_unit_test(test_glu),     cmocka_unit_test(test_attention),
        cmocka_unit_test(test_embed),   cmocka_unit_test(test_head),
        cmocka_unit_test(test_layer),

        cmocka_unit_test(test_net_tap),
    };

    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    env.pool = pool_new(2);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(env.pool);
    return rc;
}
