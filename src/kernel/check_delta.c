/*
 * check_delta.c - the kernels of the gated delta net.
 *
 * Against the scalar reference bit for bit; the reference against the definitions in
 * double.
 */
#include "kernel/check.h"

#include <math.h>
#include <string.h>

static const int64_t lengths[] = {1,  2,  7,  8,  9,  15,  16, 17,
                                  31, 32, 33, 40, 64, 100, 128};

static float *filled(struct kcheck *t, int64_t n, enum kcheck_fill fill)
{
    float *x = kcheck_buffer(t, (size_t)n * sizeof *x);

    kcheck_floats(t, x, n, fill);
    return x;
}

static float *empty(struct kcheck *t, int64_t n)
{
    float *x = kcheck_buffer(t, (size_t)n * sizeof *x);

    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}

static void same(struct kcheck *t, const char *what, const float *y, const float *want,
                 int64_t n, int fill)
{
    int64_t at = kcheck_diff(y, want, n);

    if (at >= 0)
        kcheck_fail(t, what, "n=%lld fill=%d at %lld: %a not %a", (long long)n, fill,
                    (long long)at, (double)y[at], (double)want[at]);
}

static void check_rows(struct kcheck *t)
{
    for (size_t l = 0; l < countof(lengths); l++) {
        for (int fill = 0; fill < KC_N_FILLS; fill++) {
            int64_t n = lengths[l];
            float *a = filled(t, n, (enum kcheck_fill)fill);
            float *b = filled(t, n, (enum kcheck_fill)fill);
            float *y = empty(t, n), *want = empty(t, n);
            t->k.sigmoid_mul(y, a, b, n);
            t->ref.sigmoid_mul(want, a, b, n);
            same(t, "sigmoid_mul", y, want, n, fill);
            t->k.l2norm(y, a, n, 1e-6f);
            t->ref.l2norm(want, a, n, 1e-6f);
            same(t, "l2norm", y, want, n, fill);
            for (int64_t taps = 1; taps <= 4; taps++) {
                float *w = filled(t, taps * (n + 3), KC_NORMAL);
                const float *x[] = {a, b, b, a};
                t->k.conv_silu(y, x, w, n + 3, taps, n);
                t->ref.conv_silu(want, x, w, n + 3, taps, n);
                same(t, "conv_silu", y, want, n, (int)taps);
            }
            kcheck_reset(t);
        }
    }
}

/* A few tokens in a row, so that the state written is the state read. */
static void check_step(struct kcheck *t)
{
    static const int64_t keys[] = {1, 3, 16, 64};

    for (size_t l = 0; l < countof(lengths); l++) {
        for (size_t m = 0; m < countof(keys); m++) {
            int64_t n = lengths[l], K = keys[m];
            float *s = filled(t, K * n, KC_NORMAL), *s_ref = empty(t, K * n);
            float *y = empty(t, n), *want = empty(t, n);
            memcpy(s_ref, s, (size_t)(K * n) * sizeof *s);
            for (int i = 0; i < 3; i++) {
                struct kd_step d = {filled(t, K, KC_NORMAL),
                                    filled(t, K, KC_NORMAL),
                                    filled(t, n, KC_MIXED),
                                    0.9f,
                                    0.3f + 0.2f * (float)i,
                                    0.25f,
                                    K,
                                    n};
                t->k.delta_step(y, s, &d);
                t->ref.delta_step(want, s_ref, &d);
                same(t, "delta_step", y, want, n, (int)K);
                same(t, "delta_step state", s, s_ref, K * n, (int)K);
            }
            kcheck_reset(t);
        }
    }
}

/* The recurrence as matrices in double: S <- a S (I - b k k^T) + b v k^T, o = S q, with
 * S as [values][keys]. */
static void check_step_values(struct kcheck *t)
{
    enum { K = 8, N = 6, TOKENS = 20 };
    float state[K * N] = {0}, out[N], q[K], k[K], v[N];
    double s[N][K] = {{0}};

    for (int step = 0; step < TOKENS; step++) {
        kcheck_floats(t, q, K, KC_NORMAL);
        kcheck_floats(t, k, K, KC_NORMAL);
        kcheck_floats(t, v, N, KC_NORMAL);
        t->ref.l2norm(k, k, K, 1e-6f);
        struct kd_step d = {q, k, v, 0.8f, 0.6f, 0.5f, K, N};
        t->ref.delta_step(out, state, &d);
        for (int i = 0; i < N; i++) {
            double along = 0, o = 0;
            for (int j = 0; j < K; j++)
                along += s[i][j] * (double)k[j];
            for (int j = 0; j < K; j++) {
                s[i][j] = (double)d.decay *
                              (s[i][j] - (double)d.beta * along * (double)k[j]) +
                          (double)d.beta * (double)v[i] * (double)k[j];
                o += s[i][j] * (double)q[j];
            }
            if (!(fabs(o * (double)d.scale - (double)out[i]) < 1e-5))
                kcheck_fail(t, "delta_step value", "token %d column %d: %g not %g",
                            step, i, (double)out[i], o * (double)d.scale);
        }
    }
}

static void check_values(struct kcheck *t)
{
    enum { N = 50 };
    float x[N], g[N], y[N], w[4 * N];
    double sum = 0;

    kcheck_floats(t, x, N, KC_NORMAL);
    kcheck_floats(t, g, N, KC_NORMAL);
    kcheck_floats(t, w, 4 * N, KC_NORMAL);
    t->ref.sigmoid_mul(y, x, g, N);
    for (int i = 0; i < N; i++) {
        double want = (double)g[i] / (1 + exp(-(double)x[i]));
        if (!(fabs((double)y[i] - want) <= 4e-7 * fabs(want)))
            kcheck_fail(t, "sigmoid value", "%g not %g", (double)y[i], want);
        sum += (double)x[i] * (double)x[i];
    }
    t->ref.l2norm(y, x, N, 1e-6f);
    for (int i = 0; i < N; i++)
        if (!(fabs((double)y[i] - (double)x[i] / sqrt(sum)) <= 3e-7))
            kcheck_fail(t, "l2norm value", "%g", (double)y[i]);
    const float *rows[] = {x, g, y, x};
    float out[N];
    t->ref.conv_silu(out, rows, w, N, 4, N);
    for (int i = 0; i < N; i++) {
        double z = 0;
        for (int j = 0; j < 4; j++)
            z += (double)rows[j][i] * (double)w[j * N + i];
        if (!(fabs((double)out[i] - z / (1 + exp(-z))) <= 2e-6))
            kcheck_fail(t, "conv value", "%g", (double)out[i]);
    }
}

static void check_softplus(struct kcheck *t)
{
    for (int i = 0; i < 20000; i++) {
        float x = (float)(-40 + 70 * rng_f64(&t->rng)), e;
        t->ref.exp(&e, &x, 1);
        double want = x > 20.0f ? (double)x : log1p((double)e);
        if (!(fabs((double)kernel_softplus(x, e) - want) <= 7e-8 * want))
            kcheck_fail(t, "softplus value", "%g gives %.9g not %.9g", (double)x,
                        (double)kernel_softplus(x, e), want);
    }
    if (!isnan(kernel_softplus(NAN, NAN)) || kernel_softplus(-INFINITY, 0.0f) != 0.0f)
        kcheck_fail(t, "softplus edges", "wrong value");
}

const struct kcheck_item kcheck_delta[] = {
    {"delta rows", check_rows},
    {"delta step", check_step},
    {"delta step values", check_step_values},
    {"delta values", check_values},
    {"softplus", check_softplus},
    {NULL, NULL},
};
