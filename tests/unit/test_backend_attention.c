/*
 * test_backend_attention.c - attention, cache, rope and the small operations of the CPU
 * backend, and that none of them allocates.
 */
#include "unit/backend_fixture.h"

enum { H = 6, K = 2, CAP = 150, MAX_T = 70 };

/* One attention problem: T tokens after pos0 cached ones. */
struct problem {
    int64_t hd;
    float *q, *k, *v; /* [CAP, heads, hd] for all positions */
    struct kv_layer kv;
    struct attn_args args;
};

static struct problem make_problem(struct rng *r, int64_t hd, int64_t window,
                                   float softcap)
{
    struct problem p = {.hd = hd,
                        .q = random_floats(r, CAP * H * hd),
                        .k = random_floats(r, CAP * K * hd),
                        .v = random_floats(r, CAP * K * hd)};

    p.kv = (struct kv_layer){.type = DT_F16, .cap = CAP};
    void *mem = mem_calloc((size_t)backend_kv_bytes(DT_F16, K, hd, CAP), 1);
    assert_non_null(mem);
    backend_kv_place(&p.kv, mem, K, hd);
    p.args = (struct attn_args){.n_heads = H,
                                .n_kv_heads = K,
                                .head_dim = hd,
                                .window = window,
                                .scale = 1.0f / sqrtf((float)hd),
                                .softcap = softcap};
    return p;
}

static void free_problem(struct problem *p)
{
    mem_free(p->q);
    mem_free(p->k);
    mem_free(p->v);
    mem_free(p->kv.k); /* the start of the cache */
}

/* out of position pos, head h, in double from the rounded cache values. */
static void naive(double *out, const struct problem *p, int64_t pos, int64_t h)
{
    int64_t hd = p->hd, kh = h / (H / K);
    int64_t lo = p->args.window ? max_i64(0, pos - p->args.window + 1) : 0;
    double w[CAP], max = -1e300, sum = 0;

    for (int64_t j = lo; j <= pos; j++) {
        double dot = 0;
        for (int64_t i = 0; i < hd; i++)
            dot += (double)p->q[(pos * H + h) * hd + i] *
                   (double)f32_from_f16(f16_from_f32(p->k[(j * K + kh) * hd + i]));
        dot *= (double)p->args.scale;
        if (p->args.softcap > 0)
            dot = (double)p->args.softcap * tanh(dot / (double)p->args.softcap);
        w[j] = dot;
        max = fmax(max, dot);
    }
    for (int64_t j = lo; j <= pos; j++)
        sum += w[j] = exp(w[j] - max);
    for (int64_t i = 0; i < hd; i++) {
        out[i] = 0;
        for (int64_t j = lo; j <= pos; j++)
            out[i] += w[j] / sum *
                      (double)f32_from_f16(f16_from_f32(p->v[(j * K + kh) * hd + i]));
    }
}

/* Runs n positions in pieces of at most step tokens. */
static void run_pieces(struct fixture *f, struct problem *p, float *out, int64_t n,
                       int64_t step)
{
    for (int64_t pos = 0; pos < n; pos += step) {
        int64_t T = min_i64(step, n - pos);
        backend_kv_store(f->be, &p->kv, p->k + pos * K * p->hd, p->v + pos * K * p->hd,
                         T, K, p->hd, pos);
        p->args.pos0 = pos;
        backend_attention(f->be, out + pos * H * p->hd, p->q + pos * H * p->hd, &p->kv,
                          T, &p->args);
    }
}

static void check_attention(struct rng *r, int64_t hd, int64_t window, float softcap)
{
    static const int64_t steps[] = {1, 5, 16, MAX_T};
    struct problem p = make_problem(r, hd, window, softcap);
    int64_t n = CAP - 3;
    size_t bytes = (size_t)(n * H * hd) * sizeof(float);
    float *want = mem_calloc(1, bytes), *out = mem_calloc(1, bytes);

    assert_true(want && out);
    for (size_t v = 0; v < countof(variants); v++) {
        for (size_t s = 0; s < countof(steps); s++) {
            struct fixture f = fixture_open(variants[v], false, 1, 16);
            assert_int_equal(
                backend_reserve(f.be, &(struct attn_limits){H, hd, CAP}, NULL), B2_OK);
            run_pieces(&f, &p, v + s ? out : want, n, steps[s]);
            if (v + s && memcmp(out, want, bytes) != 0)
                fail_msg("bits: head_dim %lld, steps of %lld, avx2 %d, %d threads",
                         (long long)hd, (long long)steps[s], variants[v].avx2,
                         variants[v].threads);
            fixture_close(&f);
        }
    }
    for (int64_t pos = 0; pos < n; pos++) {
        for (int64_t h = 0; h < H; h++) {
            double exact[128];
            naive(exact, &p, pos, h);
            for (int64_t i = 0; i < hd; i++)
                if (!(fabs(exact[i] - (double)want[(pos * H + h) * hd + i]) < 5e-6))
                    fail_msg("head_dim %lld pos %lld: %g not %g", (long long)hd,
                             (long long)pos, (double)want[(pos * H + h) * hd + i],
                             exact[i]);
        }
    }
    mem_free(want);
    mem_free(out);
    free_problem(&p);
}

static void test_attention(void **state)
{
    static const struct {
        int64_t hd, window;
        float softcap;
    } cases[] = {{64, 0, 0},  {8, 0, 0},  {43, 0, 0},
                 {64, 20, 0}, {16, 1, 0}, {32, 33, 3}};
    struct rng r = rng_make(8);

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        check_attention(&r, cases[i].hd, cases[i].window, cases[i].softcap);
}

static void test_rope(void **state)
{
    enum { T = 9, HD = 20, ROT = 14, POS = 1000 };
    struct rng r = rng_make(9);
    float freq[ROT / 2], *x = random_floats(&r, T * H * HD);
    float *y = random_floats(&r, T * H * HD), *first = random_floats(&r, T * H * HD);

    (void)state;
    for (int i = 0; i < ROT / 2; i++)
        freq[i] = powf(10000.0f, -2.0f * (float)i / ROT);
    for (int kind = ROPE_NORM; kind <= ROPE_NEOX; kind++) {
        struct rope_args args = {(enum rope_kind)kind, HD, ROT, freq, 1.5f, 0};
        for (size_t v = 0; v < countof(variants); v++) {
            struct fixture f = fixture_open(variants[v], false, 1, 16);
            memcpy(y, x, sizeof(float) * T * H * HD);
            if (v == 1) /* token by token */
                for (int t = 0; t < T; t++)
                    backend_rope(f.be, y + t * H * HD, 1, H, POS + t, &args);
            else
                backend_rope(f.be, y, T, H, POS, &args);
            if (v == 0)
                memcpy(first, y, sizeof(float) * T * H * HD);
            assert_memory_equal(first, y, sizeof(float) * T * H * HD);
            fixture_close(&f);
        }
        for (int i = 0; i < T * H * HD; i++) {
            int in_head = i % HD, t = i / (H * HD);
            int pair = kind == ROPE_NORM ? in_head / 2 : in_head % (ROT / 2);
            bool second = kind == ROPE_NORM ? in_head & 1 : in_head >= ROT / 2;
            double want = (double)x[i];
            if (in_head < ROT) {
                int other = kind == ROPE_NORM ? i ^ 1
                            : second          ? i - ROT / 2
                                              : i + ROT / 2;
                double a = (double)(POS + t) * (double)freq[pair];
                want = want * cos(a) + (second ? 1 : -1) * (double)x[other] * sin(a);
                want *= 1.5;
            }
            assert_true(fabs(want - (double)y[i]) < 2e-6);
        }
    }
    mem_free(x);
    mem_free(y);
    mem_free(first);
}

/* Pieces of work change no bit of the elementwise operations; embed decodes rows. */
static void test_small_operations(void **state)
{
    enum { N = 40000, D = 160, ROWS = N / D };
    struct rng r = rng_make(10);
    float *x = random_floats(&r, N), *g = random_floats(&r, N);
    float *y = random_floats(&r, N), *first = random_floats(&r, N);
    struct weight w = random_weight(&r, DT_Q4_0, 30, D);
    int32_t ids[ROWS];

    (void)state;
    for (int i = 0; i < ROWS; i++)
        ids[i] = (int32_t)rng_below(&r, 30);
    for (int op = 0; op < 9; op++) {
        for (size_t v = 0; v < countof(variants); v++) {
            struct fixture f = fixture_open(variants[v], false, 1, 16);
            memcpy(y, g, sizeof(float) * N);
            if (op == 0)
                backend_rmsnorm(f.be, y, x, g, ROWS, D, 1e-5f);
            else if (op <= 3)
                backend_glu(f.be, (enum glu_kind)(op - 1), y, x, g, N);
            else if (op == 4)
                backend_add(f.be, y, x, N);
            else if (op == 5)
                backend_add_bias(f.be, y, x, ROWS, D);
            else if (op == 6)
                backend_scale(f.be, y, N, 3.0f);
            else if (op == 7)
                backend_softcap(f.be, y, N, 2.0f);
            else
                backend_embed(f.be, y, &w, ids, ROWS);
            for (int i = 0; op == 5 && i < N; i++)
                assert_true(y[i] == g[i] + x[i % D]);
            if (v == 0)
                memcpy(first, y, sizeof(float) * N);
            assert_memory_equal(first, y, sizeof(float) * N);
            fixture_close(&f);
        }
    }
    for (int i = 0; i < ROWS; i++) { /* y still has the embedding */
        quant_decode_row(DT_Q4_0, x, w.data + (uint64_t)ids[i] * w.row_bytes, D);
        assert_memory_equal(x, y + i * D, sizeof(float) * D);
    }
    free_weight(&w);
    mem_free(x);
    mem_free(g);
    mem_free(y);
    mem_free(first);
}

/* The linker sends every allocation here (tests/kernels/kernels.cmake). */
static int n_allocations;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    n_allocations++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    n_allocations++;
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    n_allocations++;
    return __real_aligned_alloc(align, n);
}

/* Everything a decode step does, many threads, after the buffers exist. */
static void test_nothing_allocates(void **state)
{
    enum { COLS = 384, ROWS = 96, HD = 64 };
    struct rng r = rng_make(11);
    struct problem p = make_problem(&r, HD, 0, 0);
    struct fixture f = fixture_open((struct variant){true, 2}, false, MAX_T, COLS);
    struct rotation rot = {.width = COLS, .block = 128};
    struct weight w = random_weight(&r, DT_PTQ1_0, ROWS, COLS);
    float *y = random_floats(&r, (int64_t)CAP * H * HD), freq[HD / 2] = {0};
    struct rope_args rope = {ROPE_NORM, HD, HD, freq, 1.0f, 0};
    const int32_t id = 5;

    (void)state;
    w.rot = &rot;
    assert_int_equal(backend_reserve(f.be, &(struct attn_limits){H, HD, CAP}, NULL),
                     B2_OK);
    n_allocations = 0;
    mem_free(mem_calloc(1, 1)); /* the counter counts */
    assert_int_equal(n_allocations, 1);
    n_allocations = 0;
    for (int step = 0; step < 3; step++) {
        backend_embed(f.be, y, &w, &id, 1);
        backend_rmsnorm(f.be, f.a->x, y, p.q, 1, COLS, 1e-5f);
        act_changed(f.a, 1, COLS);
        backend_matmul(f.be, y, &w, f.a);
        backend_rope(f.be, p.q, 1, H, step, &rope);
        run_pieces(&f, &p, y, 40, step ? 1 : 40);
        backend_glu(f.be, GLU_SILU, y, y, p.q, COLS);
        backend_add(f.be, y, p.q, COLS);
        backend_add_bias(f.be, y, p.q, 1, COLS);
        backend_scale(f.be, y, COLS, 2.0f);
        backend_softcap(f.be, y, COLS, 30.0f);
    }
    assert_int_equal(n_allocations, 0);
    mem_free(y);
    free_weight(&w);
    fixture_close(&f);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_small_operations),
        cmocka_unit_test(test_nothing_allocates),
    };

    return cmocka_run_group_tests_name("backend attention", tests, NULL, NULL);
}
