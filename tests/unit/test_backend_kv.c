/*
 * test_backend_kv.c - caches of every type, whole and as rings with sinks: attention
 * against sums in double over values that are rounded here by the written rules, and the
 * same bits for every way to cut the batch, number of threads and kernel level.
 */
#include "unit/backend_fixture.h"

enum { H = 6, K = 2, HD = 64, N = 700, BLOCK = 32 };

struct problem {
    enum dtype type;
    int64_t window, sinks, batch, cap;
    float *q, *q_sinks, *k, *v; /* [N, heads, HD] */
};

/* One head's row as the cache keeps it: F16; max/127 as F16, codes to nearest; the value
 * of largest magnitude / -8 as F16, codes -8..7. Queries (wide) have 16 bits. */
static void rounded(double *out, const float *x, enum dtype type, bool wide)
{
    for (int b = 0; b < HD; b += BLOCK) {
        double most = 0, scale;
        for (int i = b; i < b + BLOCK; i++)
            if (fabs((double)x[i]) > fabs(most))
                most = (double)x[i];
        scale = wide              ? fabs(most) / 32767
                : type == DT_Q8_0 ? fabs(most) / 127
                                  : most / -8;
        scale = wide ? (double)(float)scale
                     : (double)f32_from_f16(f16_from_f32((float)scale));
        for (int i = b; i < b + BLOCK; i++) {
            double hi = wide ? 32767 : type == DT_Q8_0 ? 127 : 7;
            double lo = type == DT_Q8_0 ? -hi : -8;
            out[i] = type == DT_F16
                         ? (double)f32_from_f16(f16_from_f32(x[i]))
                         : scale * fmin(fmax(rint((double)x[i] / scale), lo), hi);
        }
    }
}

/* The output of the token at pos for head h, in double. */
static void naive(double *out, const struct problem *p, int64_t pos, int64_t h)
{
    static double w[N];
    int64_t kh = h / (H / K), lo = p->window ? max_i64(0, pos - p->window + 1) : 0;
    double max = -1e300, sum = 0, q[HD], qs[HD], row[HD];

    for (int i = 0; i < HD; i++) {
        q[i] = (double)p->q[(pos * H + h) * HD + i];
        qs[i] = (double)p->q_sinks[(pos * H + h) * HD + i];
        out[i] = 0;
    }
    if (p->type != DT_F16) {
        rounded(q, p->q + (pos * H + h) * HD, DT_Q8_0, true);
        rounded(qs, p->q_sinks + (pos * H + h) * HD, DT_Q8_0, true);
    }
    for (int64_t j = 0; j <= pos; j++) {
        if (j < lo && j >= p->sinks)
            continue;
        const double *from = j < lo ? qs : q;
        w[j] = 0;
        rounded(row, p->k + (j * K + kh) * HD, p->type, false);
        for (int i = 0; i < HD; i++)
            w[j] += from[i] * row[i] / 8;
        max = fmax(max, w[j]);
    }
    for (int64_t j = 0; j <= pos; j++)
        if (j >= lo || j < p->sinks)
            sum += w[j] = exp(w[j] - max);
    for (int64_t j = 0; j <= pos; j++) {
        if (j < lo && j >= p->sinks)
            continue;
        rounded(row, p->v + (j * K + kh) * HD, p->type, false);
        for (int i = 0; i < HD; i++)
            out[i] += w[j] / sum * row[i];
    }
}

/* All positions in pieces of at most step tokens. */
static void run(float *out, const struct problem *p, struct variant v, int64_t step)
{
    struct fixture f = fixture_open(v, false, 1, 16);
    struct kv_layer kv = {.type = p->type, .cap = p->cap, .sinks = p->sinks};
    void *mem = mem_aligned(64, (size_t)backend_kv_bytes(p->type, K, HD, p->cap), 1);

    assert_non_null(mem);
    backend_kv_place(&kv, mem, K, HD);
    assert_int_equal(backend_reserve(f.be, &(struct attn_limits){H, HD, N}, NULL),
                     B2_OK);
    for (int64_t pos = 0; pos < N; pos += step) {
        int64_t n = min_i64(step, N - pos);
        const struct attn_args a = {
            .n_heads = H,
            .n_kv_heads = K,
            .head_dim = HD,
            .pos0 = pos,
            .window = p->window,
            .scale = 1.0f / 8,
            .sinks = p->sinks,
            .q_sinks = p->sinks ? p->q_sinks + pos * H * HD : NULL,
        };
        backend_kv_store(f.be, &kv, p->k + pos * K * HD, p->v + pos * K * HD, n, K, HD,
                         pos);
        backend_attention(f.be, out + pos * H * HD, p->q + pos * H * HD, &kv, n, &a);
    }
    mem_free(mem);
    fixture_close(&f);
}

static void check(struct problem p)
{
    static const int64_t steps[] = {1, 3, 40};
    size_t bytes = sizeof(float) * N * H * HD;
    struct rng r = rng_make(21);
    float *want = mem_calloc(1, bytes), *out = mem_calloc(1, bytes);
    double exact[HD];

    assert_true(want && out);
    p.q = random_floats(&r, N * H * HD);
    p.q_sinks = random_floats(&r, N * H * HD);
    p.k = random_floats(&r, N * K * HD);
    p.v = random_floats(&r, N * K * HD);
    run(want, &p, variants[1], 7);
    for (size_t v = 0; v < countof(variants); v++)
        for (size_t s = 0; s < countof(steps); s++) {
            if (steps[s] > p.batch || (!variants[v].avx2 && s < 2))
                continue; /* the scalar kernels once */
            run(out, &p, variants[v], steps[s]);
            if (memcmp(out, want, bytes) != 0)
                fail_msg("bits: type %d window %lld steps of %lld avx2 %d threads %d",
                         (int)p.type, (long long)p.window, (long long)steps[s],
                         variants[v].avx2, variants[v].threads);
        }
    for (int64_t pos = 0; pos < N; pos += 23)
        for (int64_t h = 0; h < H; h++) {
            naive(exact, &p, pos, h);
            for (int64_t i = 0; i < HD; i++)
                if (!(fabs(exact[i] - (double)want[(pos * H + h) * HD + i]) < 1e-5))
                    fail_msg("type %d window %lld pos %lld: %g not %g", (int)p.type,
                             (long long)p.window, (long long)pos,
                             (double)want[(pos * H + h) * HD + i], exact[i]);
        }
    mem_free(p.q);
    mem_free(p.q_sinks);
    mem_free(p.k);
    mem_free(p.v);
    mem_free(want);
    mem_free(out);
}

static void test_types_and_rings(void **state)
{
    static const enum dtype types[] = {DT_F16, DT_Q8_0, DT_Q4_0};
    static const struct {
        int64_t window, sinks, batch, cap;
    } shapes[] = {
        {0, 0, 40, N},             /* everything */
        {60, 0, 40, 60 + 40 - 1},  /* a ring that is just large enough */
        {300, 4, 40, 4 + 300 + 39} /* sinks, more than one segment */
    };

    (void)state;
    for (size_t t = 0; t < countof(types); t++)
        for (size_t s = 0; s < countof(shapes); s++)
            check((struct problem){types[t], shapes[s].window, shapes[s].sinks,
                                   shapes[s].batch, shapes[s].cap, NULL, NULL, NULL,
                                   NULL});
}

static void test_kinds_are_refused(void **state)
{
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(backend_kv_check(DT_F16, 43, &err), B2_OK);
    assert_int_equal(backend_kv_check(DT_Q8_0, 96, &err), B2_OK);
    assert_int_equal(backend_kv_check(DT_Q8_0, 80, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "80"));
    assert_non_null(strstr(err.msg, "--cache f16"));
    assert_int_equal(backend_kv_check(DT_Q4_0, 16, &err), B2_EUNSUP);
    assert_int_equal(backend_kv_check(DT_Q4_1, 64, &err), B2_EARG);
}

/* Bytes as the types say: 16, 8.5 and 4.5 bits a value. */
static void test_bytes(void **state)
{
    (void)state;
    assert_int_equal(backend_kv_bytes(DT_F16, 8, 128, 4096), 2LL * 8 * 4096 * 256);
    assert_int_equal(backend_kv_bytes(DT_Q8_0, 8, 128, 4096), 2LL * 8 * 4096 * 136);
    assert_int_equal(backend_kv_bytes(DT_Q4_0, 8, 128, 4096), 2LL * 8 * 4096 * 72);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_rings),
        cmocka_unit_test(test_kinds_are_refused),
        cmocka_unit_test(test_bytes),
    };

    return cmocka_run_group_tests_name("backend caches", tests, NULL, NULL);
}
