/*
 * test_train.c - losses and gradients of whole small models against PyTorch, and the same
 * bytes for any number of threads.
 */
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"
#include "format/safetensors.h"
#include "kernel/kernel.h"
#include "train/blas.h"
#include "train/embed.h"
#include "train/head.h"
#include "train/net.h"
#include "unit/unit.h"

static struct blas *blas;
static struct kernels kernels;

enum { LAYERS = 2, MAX_NAME = 64 };

/* Order of make.py's hp; from HP_TAPS on of qwen35 alone. */
enum { HP_ROPE, HP_GLU, HP_HEADS, HP_KV, HP_SIZE, HP_SCALE, HP_CAP, HP_FINAL, HP_EMBD };
enum { HP_TAPS = HP_EMBD + 1, HP_K_HEADS, HP_V_HEADS, HP_DIM };

struct fixture {
    char *file;
    struct safetensors s;
    struct layer layers[LAYERS];
    struct layer_grad grads[LAYERS];
    real *cos_sin[LAYERS];
    real *conv; /* of the first layer, channels in a row as the pass wants them */
    int32_t *pos, *ids, *target;
    struct layer_batch b;
    struct net net;
    real *dnorm, *dembd;
};

static const char *const lin_names[N_LINEARS] = {
    "attn_q",   "attn_k",   "attn_v",    "attn_output", "ffn_gate", "ffn_up",
    "ffn_down", "attn_qkv", "attn_gate", "ssm_alpha",   "ssm_beta", "ssm_out"};
static const char *const norm_names[N_NORMS] = {
    "attn_norm", "attn_q_norm",   "attn_k_norm", "post_attention_norm",
    "ffn_norm",  "post_ffw_norm", "ssm_norm"};

static const struct tensor *find(const struct fixture *f, const char *name)
{
    for (int64_t i = 0; i < f->s.n_tensors; i++)
        if (strcmp(f->s.tensors[i].name, name) == 0)
            return &f->s.tensors[i];
    return NULL;
}

/* The values of a tensor; the header's length keeps them aligned. */
static const float *values(const struct fixture *f, const char *name)
{
    const struct tensor *t = find(f, name);

    if (!t)
        fail_msg("no tensor %s", name);
    assert_int_equal((uintptr_t)t->data % sizeof(float), 0);
    return (const float *)(const void *)t->data;
}

static const float *in_layer(const struct fixture *f, int layer, const char *what,
                             const char *kind)
{
    char name[MAX_NAME];

    snprintf(name, sizeof name, "blk.%d.%s.%s", layer, what, kind);
    return find(f, name) ? values(f, name) : NULL;
}

static real *grad_like(const struct fixture *f, int layer, const char *what,
                       const char *kind)
{
    char name[MAX_NAME];

    snprintf(name, sizeof name, "blk.%d.%s.%s", layer, what, kind);
    const struct tensor *t = find(f, name);
    return t ? mem_calloc((size_t)tensor_count(t), sizeof(real)) : NULL;
}

/* The numbers of a gated delta net, which is the first layer. */
static void fill_delta(struct fixture *f, const float *hp)
{
    struct layer *l = &f->layers[0];
    const float *w = values(f, "blk.0.ssm_conv1d.weight");
    const int64_t taps = (int64_t)hp[HP_TAPS];
    const int64_t channels = find(f, "blk.0.ssm_conv1d.weight")->ne[1];
    const int64_t heads = (int64_t)hp[HP_V_HEADS], dim = (int64_t)hp[HP_DIM];

    f->conv = mem_calloc((size_t)(taps * channels), sizeof *f->conv);
    for (int64_t i = 0; i < taps * channels; i++)
        f->conv[i % taps * channels + i / taps] = w[i];
    l->is_delta = true;
    for (int i = 0; i < LAYERS; i++) {
        f->layers[i].attn_gate = true;
        f->layers[i].delta = (struct layer_delta){
            taps, (int64_t)hp[HP_K_HEADS], heads, dim, dim, 1e-5f, NULL, NULL, NULL};
    }
    l->delta.conv = f->conv;
    l->delta.rate = values(f, "blk.0.ssm_a");
    l->delta.bias = values(f, "blk.0.ssm_dt.bias");
    f->grads[0].conv = mem_calloc((size_t)(taps * channels), sizeof(real));
    f->grads[0].rate = mem_calloc((size_t)heads, sizeof(real));
    f->grads[0].bias = mem_calloc((size_t)heads, sizeof(real));
}

static int64_t norm_len(const struct fixture *f, const struct layer *l, int which)
{
    if (which == NORM_DELTA)
        return (int64_t)values(f, "hp")[HP_DIM];
    return which == NORM_Q || which == NORM_K ? l->head_dim : l->d;
}

static void fill_layer(struct fixture *f, int i, const float *hp)
{
    struct layer *l = &f->layers[i];
    const struct tensor *freq = find(f, "freq");
    const int64_t half = freq->ne[0];
    char name[MAX_NAME];

    *l = (struct layer){.d = find(f, "ht")->ne[0],
                        .n_heads = (int64_t)hp[HP_HEADS],
                        .n_kv_heads = (int64_t)hp[HP_KV],
                        .head_dim = (int64_t)hp[HP_SIZE],
                        .window = (int64_t)values(f, "window")[i],
                        .attn_scale = hp[HP_SCALE],
                        .attn_softcap = hp[HP_CAP],
                        .glu = hp[HP_GLU] > 0 ? GLU_GELU : GLU_SILU};
    f->cos_sin[i] = mem_calloc((size_t)(2 * f->b.ctx * half), sizeof(real));
    l->rope = (struct rope){hp[HP_ROPE] > 0 ? ROPE_NEOX : ROPE_NORM, l->head_dim,
                            2 * half, f->cos_sin[i], f->cos_sin[i] + f->b.ctx * half};
    rope_fill(f->cos_sin[i], f->cos_sin[i] + f->b.ctx * half,
              values(f, "freq") + i * half, 1.0f, f->b.ctx, 2 * half);
    for (int k = 0; k < N_LINEARS; k++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, lin_names[k]);
        const struct tensor *t = find(f, name);
        if (!t)
            continue;
        l->lin[k] = (struct linear){
            values(f, name), in_layer(f, i, lin_names[k], "bias"), t->ne[1], t->ne[0]};
        f->grads[i].lin[k].w = grad_like(f, i, lin_names[k], "weight");
        f->grads[i].lin[k].b = grad_like(f, i, lin_names[k], "bias");
    }
    l->f = l->lin[LIN_GATE].rows;
    for (int k = 0; k < N_NORMS; k++) {
        const float *gain = in_layer(f, i, norm_names[k], "weight");
        l->norm[k] = (struct norm){gain, gain ? norm_len(f, l, k) : 0, 1e-5f};
        f->grads[i].norm[k] = grad_like(f, i, norm_names[k], "weight");
    }
}

static const struct layer *layer_of(void *ctx, int64_t i)
{
    struct fixture *f = ctx;

    return &f->layers[i];
}

static const struct layer_grad *grad_of(void *ctx, int64_t i)
{
    struct fixture *f = ctx;

    return &f->grads[i];
}

static int32_t *ints(const struct fixture *f, const char *name, int64_t n)
{
    int32_t *out = mem_calloc((size_t)n, sizeof *out);

    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)values(f, name)[i];
    return out;
}

static void open_fixture(struct fixture *f, const char *arch)
{
    char path[512];
    size_t size;
    struct b2_err err;

    *f = (struct fixture){0};
    snprintf(path, sizeof path, "%s/train/%s.safetensors", B2_GOLDEN_DIR, arch);
    if (file_read_all(&f->file, &size, path, 1 << 22, &err) ||
        safetensors_parse(&f->s, f->file, size, &err))
        fail_msg("%s", err.msg);
    const struct tensor *ids = find(f, "ids");
    const int64_t n = ids->ne[0] * ids->ne[1];
    f->ids = ints(f, "ids", n);
    f->target = ints(f, "target", n);
    f->pos = mem_calloc((size_t)n, sizeof *f->pos);
    for (int64_t i = 0; i < n; i++)
        f->pos[i] = (int32_t)(i % ids->ne[0]);
    f->b = (struct layer_batch){ids->ne[1], ids->ne[0], f->pos, NULL};
    for (int i = 0; i < LAYERS; i++)
        fill_layer(f, i, values(f, "hp"));
    if (find(f, "blk.0.ssm_a"))
        fill_delta(f, values(f, "hp"));
    f->net = (struct net){
        .n_layers = LAYERS,
        .d = f->layers[0].d,
        .out_norm = {values(f, "output_norm.weight"), f->layers[0].d, 1e-5f},
        .ctx = f,
        .layer = layer_of,
        .grad = grad_of};
    f->dnorm = mem_calloc((size_t)f->net.d, sizeof(real));
    f->dembd =
        mem_calloc((size_t)tensor_count(find(f, "token_embd.weight")), sizeof(real));
}

static void close_fixture(struct fixture *f)
{
    for (int i = 0; i < LAYERS; i++) {
        mem_free(f->cos_sin[i]);
        for (int k = 0; k < N_LINEARS; k++) {
            mem_free(f->grads[i].lin[k].w);
            mem_free(f->grads[i].lin[k].b);
        }
        for (int k = 0; k < N_NORMS; k++)
            mem_free(f->grads[i].norm[k]);
        mem_free(f->grads[i].conv);
        mem_free(f->grads[i].rate);
        mem_free(f->grads[i].bias);
    }
    mem_free(f->conv);
    mem_free(f->pos);
    mem_free(f->ids);
    mem_free(f->target);
    mem_free(f->dnorm);
    mem_free(f->dembd);
    safetensors_close(&f->s);
    mem_free(f->file);
}

/* Forward and backward; sums of losses come back. */
static struct head_sums step(struct fixture *f, const struct env *e, int threads)
{
    const int64_t n = f->b.n_seqs * f->b.ctx, d = f->net.d;
    const float *hp = values(f, "hp"), *embd = values(f, "token_embd.weight");
    const struct embed in = {embd, d, hp[HP_EMBD]};
    const struct head head = {
        find(f, "token_embd.weight")->ne[1], d, embd, NULL, NULL, hp[HP_FINAL]};
    struct head_loss loss = {head, head, true, 1.0f, 0.25f, 1.0f, threads, NULL};
    struct head_sums sums = {0};
    struct layer shape = f->layers[0]; /* with the norms of both */
    real *dh = mem_calloc((size_t)(n * d), sizeof *dh);

    for (int k = 0; k < N_NORMS; k++)
        if (!shape.norm[k].gain)
            shape.norm[k].gain = f->layers[1].norm[k].gain;
    struct net_work *w = net_work_new(&f->net, &shape, &f->b, threads,
                                      threads == 2 ? NET_ALL : NET_INPUTS);
    assert_non_null(w);
    loss.scratch =
        mem_calloc((size_t)head_scratch(&loss, threads), sizeof *loss.scratch);
    embed_forward(e, net_input(w), &in, f->ids, n);
    const real *h = net_forward(e, w, &f->net, &f->b);
    const struct head_io io = {.hs = h,
                               .ht = values(f, "ht"),
                               .target = f->target,
                               .weight = 1.0f / (float)n,
                               .dhs = dh,
                               .dw = f->dembd};
    for (int64_t i = 0; i < n * d; i++)
        if (fabsf(net_last(w)[i] - values(f, "hidden")[i]) >
            1e-4f * (1.0f + fabsf(values(f, "hidden")[i])))
            fail_msg("hidden[%d]: %g, PyTorch %g", (int)i, (double)net_last(w)[i],
                     (double)values(f, "hidden")[i]);
    head_run(e, &sums, &loss, &io, n);
    net_backward(e, w, &f->net, &f->b, dh, f->dnorm);
    embed_backward(e, f->dembd, &in, dh, f->ids, n);
    mem_free(loss.scratch);
    mem_free(dh);
    net_work_free(w);
    return sums;
}

/* Each element within 1e-3 of the tensor's own size there: relative, or to its largest. */
static void compare(const struct fixture *f, const char *name, const real *got)
{
    char grad[MAX_NAME + 8];
    float largest = 0.0f;

    snprintf(grad, sizeof grad, "grad.%s", name);
    const float *want = values(f, grad);
    const int64_t n = tensor_count(find(f, grad));
    for (int64_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-3f * fabsf(want[i]) + 1e-5f * largest))
            fail_msg("%s[%d]: %.8g, PyTorch %.8g", grad, (int)i, (double)got[i],
                     (double)want[i]);
}

static void compare_layer(const struct fixture *f, int layer)
{
    char name[MAX_NAME];

    for (int k = 0; k < N_LINEARS; k++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, lin_names[k]);
        if (f->grads[layer].lin[k].w)
            compare(f, name, f->grads[layer].lin[k].w);
        snprintf(name, sizeof name, "blk.%d.%s.bias", layer, lin_names[k]);
        if (f->grads[layer].lin[k].b)
            compare(f, name, f->grads[layer].lin[k].b);
    }
    for (int k = 0; k < N_NORMS; k++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, norm_names[k]);
        if (f->grads[layer].norm[k])
            compare(f, name, f->grads[layer].norm[k]);
    }
}

static void compare_delta(const struct fixture *f)
{
    const struct layer_delta *l = &f->layers[0].delta;
    const int64_t channels = find(f, "blk.0.ssm_conv1d.weight")->ne[1];
    real *conv = mem_calloc((size_t)(l->taps * channels), sizeof *conv);

    for (int64_t i = 0; i < l->taps * channels; i++)
        conv[i] = f->grads[0].conv[i % l->taps * channels + i / l->taps];
    compare(f, "blk.0.ssm_conv1d.weight", conv);
    compare(f, "blk.0.ssm_a", f->grads[0].rate);
    compare(f, "blk.0.ssm_dt.bias", f->grads[0].bias);
    mem_free(conv);
}

static void check_arch(const char *arch)
{
    struct fixture f;
    const struct env e = {.pool = pool_new(2), .blas = blas, .k = &kernels};

    open_fixture(&f, arch);
    const struct head_sums sums = step(&f, &e, 2);
    const float *want = values(&f, "loss");
    assert_true(fabs(sums.kl / (double)sums.n - (double)want[0]) <
                1e-5 * (double)want[0]);
    assert_true(fabs(sums.ce / (double)sums.n - (double)want[1]) <
                1e-5 * (double)want[1]);
    for (int i = 0; i < LAYERS; i++)
        compare_layer(&f, i);
    if (f.conv)
        compare_delta(&f);
    compare(&f, "output_norm.weight", f.dnorm);
    compare(&f, "token_embd.weight", f.dembd);
    close_fixture(&f);
    pool_free(e.pool);
}

static void test_llama(void **state)
{
    (void)state;
    check_arch("llama");
}

static void test_qwen2(void **state)
{
    (void)state;
    check_arch("qwen2");
}

static void test_qwen3(void **state)
{
    (void)state;
    check_arch("qwen3");
}

static void test_gemma3(void **state)
{
    (void)state;
    check_arch("gemma3");
}

static void test_qwen35(void **state)
{
    (void)state;
    check_arch("qwen35");
}

/* Products and sums larger than one tile: 1, 2 and 3 threads; what is kept and what is
 * made again. */
static void check_threads(const char *arch)
{
    struct fixture f[3];

    for (int i = 0; i < 3; i++) {
        const struct env e = {.pool = pool_new(i + 1), .blas = blas, .k = &kernels};
        open_fixture(&f[i], arch);
        step(&f[i], &e, i + 1);
        pool_free(e.pool);
    }
    for (int i = 1; i < 3; i++) {
        size_t embd = (size_t)tensor_count(find(&f[i], "token_embd.weight"));
        assert_memory_equal(f[0].dembd, f[i].dembd, embd * sizeof(real));
        for (int k = 0; k < N_LINEARS; k++) {
            const struct linear *l = &f[0].layers[0].lin[k];
            if (l->w)
                assert_memory_equal(f[0].grads[0].lin[k].w, f[i].grads[0].lin[k].w,
                                    (size_t)(l->rows * l->cols) * sizeof(real));
        }
    }
    for (int i = 0; i < 3; i++)
        close_fixture(&f[i]);
}

static void test_threads(void **state)
{
    (void)state;
    check_threads("gemma3");
    check_threads("qwen35");
}

/* A product of several tiles in each direction, ragged, for any number of threads. */
static void test_tiles(void **state)
{
    enum { M = 700, N = 333, K = 65 };
    float *a = mem_calloc(M * K, sizeof *a), *b = mem_calloc(K * N, sizeof *b);
    float *c[3];

    (void)state;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i * 7 % 23 - 11);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i * 5 % 19 - 9);
    for (int i = 0; i < 3; i++) {
        const struct env e = {.pool = pool_new(i + 1), .blas = blas, .k = &kernels};
        c[i] = mem_calloc(M * N, sizeof *c[i]);
        mm(&e, c[i], N, (struct mm_size){M, N, K}, (struct mat){a, K, false},
           (struct mat){b, N, false}, (struct mm_how){0.5f, true});
        pool_free(e.pool);
    }
    assert_memory_equal(c[0], c[1], M * N * sizeof *c[0]);
    assert_memory_equal(c[0], c[2], M * N * sizeof *c[0]);
    for (int i = 0; i < M * N; i += 101) { /* small integers: sums are exact */
        float want = 0.0f;
        for (int k = 0; k < K; k++)
            want += a[i / N * K + k] * b[k * N + i % N];
        ROW_CHECK(i, c[0][i] == 0.5f * want);
    }
    for (int i = 0; i < 3; i++)
        mem_free(c[i]);
    mem_free(a);
    mem_free(b);
}

/* exp in F32: within two units of the last place, and its ends. */
static void test_exp(void **state)
{
    (void)state;
    for (float x = -87.0f; x < 88.0f; x += 0.37f) {
        double want = exp((double)x);
        assert_true(fabs((double)r_exp(x) - want) <= 2.4e-7 * want);
    }
    assert_true(r_exp(-1000.0f) < 1e-44f && r_exp(0.0f) == 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),    cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_llama),  cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_qwen3),  cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_qwen35), cmocka_unit_test(test_threads),
    };
    struct b2_err err = {0};

    kernels_init(&kernels, cpu_features());
    if (blas_open(&blas, &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    blas_close(blas);
    return rc;
}
