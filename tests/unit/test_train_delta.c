/*
 * test_train_delta.c - gradients of what a gated delta net and gated attention are made of
 * against central differences in F64; the rule by chunks against itself token by token.
 */
#include "train/layer.h"
#include "unit/grad.h"

#include "base/pool.h"

static struct env env;

/* ---- the rule ---- */

enum { SEQS = 2, CTX = 132, KH = 2, VH = 4, KD = 3, VD = 5, N = SEQS * CTX };
enum { WIDTH = 2 * KH * KD + VH * VD, OUT = VH * VD };

struct delta_case {
    struct delta d;
    double *qkv, *decay, *beta, *rate, *bias, *y, *c;
};

static double delta_loss(void *ctx)
{
    struct delta_case *t = ctx;

    delta_forward(&env, t->y, &t->d, &(struct delta_in){t->qkv, t->decay, t->beta});
    return dot(t->y, t->c, N * OUT);
}

static void make_delta(struct delta_case *t, const int32_t *first)
{
    *t = (struct delta_case){.qkv = randoms(N * WIDTH, 1, 1),
                             .decay = randoms(N * VH, 1, 2),
                             .beta = randoms(N * VH, 1, 3),
                             .rate = randoms(VH, 1, 4),
                             .bias = randoms(VH, 1, 5),
                             .y = zeros(N * OUT),
                             .c = randoms(N * OUT, 1, 6)};
    for (int h = 0; h < VH; h++)
        t->rate[h] = -0.03 - 0.2 * fabs(t->rate[h]);
    t->d =
        (struct delta){KH, VH, KD, VD, 1e-6, t->rate, t->bias, SEQS, CTX, first, NULL};
    t->d.scratch = zeros(2 * delta_scratch(&t->d));
}

static void free_delta(struct delta_case *t)
{
    mem_free(t->qkv);
    mem_free(t->decay);
    mem_free(t->beta);
    mem_free(t->rate);
    mem_free(t->bias);
    mem_free(t->y);
    mem_free(t->c);
    mem_free(t->d.scratch);
}

/* One token of a head: S [KD, VD] moves on, out [VD]. The formula of delta.h. */
static void one_token(const struct delta_case *t, double *s, double *out, int at, int h)
{
    const double *row = t->qkv + at * WIDTH, *v = row + 2 * KH * KD + h * VD;
    const double *q = row + h % KH * KD, *k = q + KH * KD;
    const double ql = sqrt(dot(q, q, KD)), kl = sqrt(dot(k, k, KD));
    const double x = t->decay[at * VH + h] + t->bias[h];
    const double a = exp(t->rate[h] * log1p(exp(x)));
    const double b = 1 / (1 + exp(-t->beta[at * VH + h]));

    for (int j = 0; j < VD; j++) {
        double was = 0;
        for (int i = 0; i < KD; i++)
            was += a * s[i * VD + j] * k[i] / kl;
        out[j] = 0;
        for (int i = 0; i < KD; i++) {
            s[i * VD + j] = a * s[i * VD + j] + b * (v[j] - was) * k[i] / kl;
            out[j] += s[i * VD + j] * q[i] / ql / sqrt(KD);
        }
    }
}

static void compare_tokens(const struct delta_case *t)
{
    for (int seq = 0; seq < SEQS; seq++)
        for (int h = 0; h < VH; h++) {
            double s[KD * VD] = {0}, out[VD];
            for (int i = 0; i < CTX; i++) {
                const int at = seq * CTX + i;
                if (t->d.first && t->d.first[at] == i)
                    memset(s, 0, sizeof s);
                one_token(t, s, out, at, h);
                for (int j = 0; j < VD; j++)
                    ROW_CHECK(at, fabs(out[j] - t->y[at * OUT + h * VD + j]) < 1e-12);
            }
        }
}

static void run_delta(const int32_t *first)
{
    struct delta_case t;
    double *rate = zeros(VH), *bias = zeros(VH);
    const struct delta_grad g = {randoms(N * WIDTH, 1, 7), zeros(N * VH), zeros(N * VH),
                                 rate, bias};

    make_delta(&t, first);
    delta_loss(&t);
    compare_tokens(&t);
    delta_backward(&env, &g, &t.d, &(struct delta_in){t.qkv, t.decay, t.beta}, t.c);
    check("delta qkv", delta_loss, &t, t.qkv, g.qkv, N * WIDTH);
    check("delta decay", delta_loss, &t, t.decay, g.decay, N * VH);
    check("delta beta", delta_loss, &t, t.beta, g.beta, N * VH);
    check("delta rate", delta_loss, &t, t.rate, rate, VH);
    check("delta bias", delta_loss, &t, t.bias, bias, VH);
    free_delta(&t);
    mem_free(g.qkv);
    mem_free(g.decay);
    mem_free(g.beta);
    mem_free(rate);
    mem_free(bias);
}

/* Documents that end inside chunks, at their ends, one of a single token. */
static void fill_first(int32_t *first, int ctx)
{
    static const int starts[] = {0, 20, 21, 85, 100};

    for (int seq = 0; seq < SEQS; seq++)
        for (int i = 0; i < ctx; i++)
            for (size_t k = 0; k < countof(starts) && starts[k] <= i; k++)
                first[seq * ctx + i] = seq == 0 && k > 2 ? 21 : starts[k];
}

static void test_delta(void **state)
{
    int32_t first[N] = {0};

    (void)state;
    fill_first(first, CTX);
    run_delta(NULL);
    run_delta(first);
}

/* A key shorter than eps is divided by eps. */
static void test_delta_short(void **state)
{
    struct delta_case t;
    struct delta_grad g = {zeros(N * WIDTH), zeros(N * VH), zeros(N * VH), NULL, NULL};

    (void)state;
    make_delta(&t, NULL);
    t.d.eps = 1.6; /* about the middle of the lengths */
    delta_backward(&env, &g, &t.d, &(struct delta_in){t.qkv, t.decay, t.beta}, t.c);
    check("delta short", delta_loss, &t, t.qkv, g.qkv, N * WIDTH);
    free_delta(&t);
    mem_free(g.qkv);
    mem_free(g.decay);
    mem_free(g.beta);
}

/* ---- convolution ---- */

struct conv_case {
    struct conv c;
    double *w, *u, *y, *to;
};

static double conv_loss(void *ctx)
{
    struct conv_case *t = ctx;

    conv_forward(&env, t->y, &t->c, t->u);
    return dot(t->y, t->to, t->c.n_seqs * t->c.ctx * t->c.channels);
}

static void test_conv(void **state)
{
    enum { C = 300, T = 12, TAPS = 4, ALL = SEQS * T * C };
    static const int32_t first[SEQS * T] = {0, 0, 0, 3, 3, 3, 3, 3, 3, 9, 10, 10};

    (void)state;
    for (int docs = 0; docs < 2; docs++) {
        struct conv_case t = {.w = randoms(TAPS * C, 1, 1),
                              .u = randoms(ALL, 1, 2),
                              .y = zeros(ALL),
                              .to = randoms(ALL, 1, 3)};
        double *dy = mem_dup(t.to, ALL * sizeof *dy);
        const struct conv_grad g = {zeros(ALL), zeros(TAPS * C)};
        t.c = (struct conv){t.w, TAPS, C, SEQS, T, docs ? first : NULL};
        conv_backward(&env, &g, &t.c, dy, t.u);
        check("conv u", conv_loss, &t, t.u, g.du, ALL);
        check("conv w", conv_loss, &t, t.w, g.dw, TAPS * C);
        mem_free(t.w);
        mem_free(t.u);
        mem_free(t.y);
        mem_free(t.to);
        mem_free(dy);
        mem_free(g.du);
        mem_free(g.dw);
    }
}

/* ---- gates ---- */

struct gate_case {
    double *x, *gate, *y, *c;
    int64_t n;
};

static double gate_loss(void *ctx)
{
    struct gate_case *t = ctx;

    gate_forward(&env, t->y, t->x, t->gate, t->n);
    return dot(t->y, t->c, t->n);
}

static void test_gate(void **state)
{
    enum { D = 5, HEADS = 70, ALL = D * HEADS };
    struct gate_case t = {randoms(ALL, 1, 1), randoms(ALL, 2, 2), zeros(ALL),
                          randoms(ALL, 1, 3), ALL};
    double *dgate = zeros(ALL), *dx = mem_dup(t.c, ALL * sizeof *dx);
    double *joined = zeros(2 * ALL);

    (void)state;
    gate_backward(&env, dgate, dx, t.x, t.gate, ALL);
    check("gate x", gate_loss, &t, t.x, dx, ALL);
    check("gate", gate_loss, &t, t.gate, dgate, ALL);
    gate_join(&env, joined, t.x, t.gate, HEADS, D);
    assert_true(joined[2 * D] == t.x[D] && joined[3 * D] == t.gate[D]);
    gate_split(&env, dx, dgate, joined, HEADS, D);
    assert_memory_equal(dx, t.x, ALL * sizeof *dx);
    assert_memory_equal(dgate, t.gate, ALL * sizeof *dx);
    mem_free(t.x);
    mem_free(t.gate);
    mem_free(t.y);
    mem_free(t.c);
    mem_free(dgate);
    mem_free(dx);
    mem_free(joined);
}

/* ---- layers ---- */

enum { LD = 12, LF = 10, LS = 2, LC = 9, LN = LS * LC, H = 4, K = 2, HD = 6, TAPS = 4 };
enum { CHANNELS = WIDTH };

struct layer_case {
    struct layer l;
    struct layer_grad g;
    struct layer_work *work;
    struct layer_batch b;
    double *x, *y, *c;
};

static double layer_loss(void *ctx)
{
    struct layer_case *t = ctx;

    layer_forward(&env, t->work, &t->l, &t->b, t->y, t->x, NULL);
    return dot(t->y, t->c, LN * LD);
}

static const struct {
    int64_t rows, cols;
} shapes[N_LINEARS] = {
    [LIN_Q] = {2 * H * HD, LD}, [LIN_K] = {K * HD, LD},  [LIN_V] = {K * HD, LD},
    [LIN_O] = {LD, H *HD},      [LIN_GATE] = {LF, LD},   [LIN_UP] = {LF, LD},
    [LIN_DOWN] = {LD, LF},      [LIN_QKV] = {WIDTH, LD}, [LIN_Z] = {VH * VD, LD},
    [LIN_ALPHA] = {VH, LD},     [LIN_BETA] = {VH, LD},   [LIN_OUT] = {LD, VH *VD},
};
static const int64_t gains[N_NORMS] = {
    [NORM_ATTN] = LD, [NORM_Q] = HD, [NORM_K] = HD, [NORM_FFN] = LD, [NORM_DELTA] = VD};

static bool has_linear(bool delta, int i)
{
    return (i >= LIN_GATE && i <= LIN_DOWN) || (i >= LIN_QKV) == delta;
}

static bool has_norm(bool delta, int i)
{
    return i == NORM_ATTN || i == NORM_FFN || (i == NORM_DELTA && delta) ||
           ((i == NORM_Q || i == NORM_K) && !delta);
}

static void fill_layer(struct layer_case *t, bool delta)
{
    struct layer *l = &t->l;
    double *rate = randoms(VH, 1, 7);

    for (int h = 0; h < VH; h++)
        rate[h] = -0.1 - fabs(rate[h]);
    l->is_delta = delta;
    for (int i = 0; i < N_LINEARS; i++) {
        const int64_t n = has_linear(delta, i) ? shapes[i].rows * shapes[i].cols : 0;
        l->lin[i] = (struct linear){0};
        t->g.lin[i].w = NULL;
        if (n == 0)
            continue;
        l->lin[i] = (struct linear){randoms(n, 0.4, 10 + (uint64_t)i), NULL,
                                    shapes[i].rows, shapes[i].cols};
        t->g.lin[i].w = zeros(n);
    }
    for (int i = 0; i < N_NORMS; i++) {
        const bool has = has_norm(delta, i);
        l->norm[i] = (struct norm){has ? randoms(gains[i], 1, 30 + (uint64_t)i) : NULL,
                                   gains[i], 1e-3};
        t->g.norm[i] = has ? zeros(gains[i]) : NULL;
    }
    l->delta = (struct layer_delta){TAPS,
                                    KH,
                                    VH,
                                    KD,
                                    VD,
                                    1e-6,
                                    randoms(TAPS * CHANNELS, 0.5, 8),
                                    rate,
                                    randoms(VH, 1, 9)};
    t->g.conv = zeros(TAPS * CHANNELS);
    t->g.rate = zeros(VH);
    t->g.bias = zeros(VH);
}

/* The weights are const for the layer; the test owns them. */
static double *own(const double *p)
{
    return (double *)(uintptr_t)p;
}

static void free_layer(struct layer_case *t)
{
    for (int i = 0; i < N_LINEARS; i++) {
        mem_free(own(t->l.lin[i].w));
        mem_free(t->g.lin[i].w);
    }
    for (int i = 0; i < N_NORMS; i++) {
        mem_free(own(t->l.norm[i].gain));
        mem_free(t->g.norm[i]);
    }
    mem_free(own(t->l.delta.conv));
    mem_free(own(t->l.delta.rate));
    mem_free(own(t->l.delta.bias));
    mem_free(t->g.conv);
    mem_free(t->g.rate);
    mem_free(t->g.bias);
}

static void check_layer(struct layer_case *t, const double *dx)
{
    char what[32];

    check("layer x", layer_loss, t, t->x, dx, LN * LD);
    for (int i = 0; i < N_LINEARS; i++) {
        snprintf(what, sizeof what, "layer weight %d", i);
        if (t->g.lin[i].w)
            check(what, layer_loss, t, own(t->l.lin[i].w), t->g.lin[i].w,
                  shapes[i].rows * shapes[i].cols);
    }
    for (int i = 0; i < N_NORMS; i++) {
        snprintf(what, sizeof what, "layer norm %d", i);
        if (t->g.norm[i])
            check(what, layer_loss, t, own(t->l.norm[i].gain), t->g.norm[i], gains[i]);
    }
    if (!t->l.is_delta)
        return;
    check("layer conv", layer_loss, t, own(t->l.delta.conv), t->g.conv,
          TAPS * CHANNELS);
    check("layer rate", layer_loss, t, own(t->l.delta.rate), t->g.rate, VH);
    check("layer bias", layer_loss, t, own(t->l.delta.bias), t->g.bias, VH);
}

/* Buffers of the other kind's size serve both: of a net with both. */
static void run_layer(bool delta, bool keep)
{
    static const float freq[2] = {1.0f, 0.1f};
    static const int32_t first[LN] = {0, 0, 0, 0, 4, 4, 4, 4, 4};
    double cos_sin[2][LC * 2];
    int32_t pos[LN];
    struct layer_case t = {.l = {.d = LD,
                                 .f = LF,
                                 .n_heads = H,
                                 .n_kv_heads = K,
                                 .head_dim = HD,
                                 .attn_scale = 0.5,
                                 .glu = GLU_SILU,
                                 .attn_gate = true,
                                 .rope = {ROPE_NEOX, HD, 4, cos_sin[0], cos_sin[1]}},
                           .b = {LS, LC, pos, first},
                           .x = randoms(LN * LD, 1, 1),
                           .y = zeros(LN * LD),
                           .c = randoms(LN * LD, 1, 2)};
    double *dx = mem_dup(t.c, LN * LD * sizeof *dx), *kept = NULL;

    for (int i = 0; i < LN; i++)
        pos[i] = i % LC;
    rope_fill(cos_sin[0], cos_sin[1], freq, 1.0f, LC, 4);
    fill_layer(&t, delta);
    t.work = layer_work_new(&t.l, &t.b, 2);
    assert_non_null(t.work);
    if (keep) {
        kept = zeros(layer_kept(&t.l, &t.b));
        layer_forward(&env, t.work, &t.l, &t.b, t.y, t.x, kept);
    }
    layer_backward(&env, t.work, &t.l, &t.b, &t.g, &(struct layer_back){dx, t.x, kept});
    check_layer(&t, dx);
    layer_work_free(t.work);
    free_layer(&t);
    mem_free(kept);
    mem_free(dx);
    mem_free(t.x);
    mem_free(t.y);
    mem_free(t.c);
}

static void test_layers(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        run_layer(i % 2, i / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delta),  cmocka_unit_test(test_delta_short),
        cmocka_unit_test(test_conv),   cmocka_unit_test(test_gate),
        cmocka_unit_test(test_layers),
    };

    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    env.pool = pool_new(2);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(env.pool);
    return rc;
}
