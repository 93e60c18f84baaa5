/*
 * check_float.c - conversions, norms, activation functions, softmax, rope, Hadamard.
 *
 * Against the scalar reference bit for bit; the reference against the C library in
 * double or the plain definition.
 */
#include "kernel/check.h"
#include "tensor/f16.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const int64_t lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,   9,   15,  16,
                                  17, 23, 24, 25, 31, 33, 48, 100, 172, 576, 577};

/* Three inputs and two outputs of n floats. */
struct fcase {
    int64_t n;
    float *a, *b, *c, *y, *y_ref;
};

static struct fcase make_fcase(struct kcheck *t, int64_t n, enum kcheck_fill fill)
{
    size_t bytes = (size_t)n * sizeof(float);
    struct fcase c = {n,
                      kcheck_buffer(t, bytes),
                      kcheck_buffer(t, bytes),
                      kcheck_buffer(t, bytes),
                      kcheck_buffer(t, bytes),
                      kcheck_buffer(t, bytes)};

    kcheck_floats(t, c.a, n, fill);
    kcheck_floats(t, c.b, n, fill);
    kcheck_floats(t, c.c, n, KC_NORMAL);
    memcpy(c.y, c.c, bytes);
    memcpy(c.y_ref, c.c, bytes);
    return c;
}

static void same(struct kcheck *t, const char *what, const struct fcase *c, int fill)
{
    int64_t at = kcheck_diff(c->y, c->y_ref, c->n);

    if (at >= 0)
        kcheck_fail(t, what, "n=%lld fill=%d at %lld: %a not %a", (long long)c->n, fill,
                    (long long)at, (double)c->y[at], (double)c->y_ref[at]);
}

static void check_elementwise(struct kcheck *t)
{
    for (size_t l = 0; l < countof(lengths); l++) {
        for (int fill = 0; fill < KC_N_FILLS; fill++) {
            struct fcase c = make_fcase(t, lengths[l], (enum kcheck_fill)fill);
            int64_t n = c.n;
            t->k.rmsnorm(c.y, c.a, c.b, n, 1e-5f);
            t->ref.rmsnorm(c.y_ref, c.a, c.b, n, 1e-5f);
            same(t, "rmsnorm", &c, fill);
            t->k.silu_mul(c.y, c.a, c.b, n);
            t->ref.silu_mul(c.y_ref, c.a, c.b, n);
            same(t, "silu_mul", &c, fill);
            t->k.gelu_mul(c.y, c.a, c.b, n);
            t->ref.gelu_mul(c.y_ref, c.a, c.b, n);
            same(t, "gelu_mul", &c, fill);
            t->k.relu2_mul(c.y, c.a, c.b, n);
            t->ref.relu2_mul(c.y_ref, c.a, c.b, n);
            same(t, "relu2_mul", &c, fill);
            t->k.scale(c.y, n, 25.298221f);
            t->ref.scale(c.y_ref, n, 25.298221f);
            same(t, "scale", &c, fill);
            t->k.add(c.y, c.a, n);
            t->ref.add(c.y_ref, c.a, n);
            same(t, "add", &c, fill);
            t->k.mul(c.y, c.a, c.b, n);
            t->ref.mul(c.y_ref, c.a, c.b, n);
            same(t, "mul", &c, fill);
            t->k.exp(c.y, c.a, n);
            t->ref.exp(c.y_ref, c.a, n);
            same(t, "exp", &c, fill);
            memcpy(c.y, c.a, (size_t)n * 4);
            memcpy(c.y_ref, c.a, (size_t)n * 4);
            t->k.softcap(c.y, n, 30.0f);
            t->ref.softcap(c.y_ref, n, 30.0f);
            same(t, "softcap", &c, fill);
            memcpy(c.y, c.a, (size_t)n * 4);
            memcpy(c.y_ref, c.a, (size_t)n * 4);
            float s[2], s_ref[2]; /* sum and maximum */
            s[0] = t->k.softmax(c.y, n, 0.125f, &s[1]);
            s_ref[0] = t->ref.softmax(c.y_ref, n, 0.125f, &s_ref[1]);
            same(t, "softmax", &c, fill);
            if (kcheck_diff(s, s_ref, 2) >= 0)
                kcheck_fail(t, "softmax sum", "n=%lld fill=%d", (long long)n, fill);
            kcheck_reset(t);
        }
    }
}

/* NaNs count too: every conversion keeps them alike. */
static bool same_bits(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (f32_bits(a[i]) != f32_bits(b[i]))
            return false;
    return true;
}

/* F16 both ways for every half, and around the ties between halves. */
static void check_f16(struct kcheck *t)
{
    enum { N = 1 << 16 };
    uint16_t *half = kcheck_buffer(t, N * sizeof *half);
    uint16_t *back = kcheck_buffer(t, N * sizeof *back);
    float *f = kcheck_buffer(t, N * sizeof *f), *want = kcheck_buffer(t, N * sizeof *f);

    for (int i = 0; i < N; i++) {
        half[i] = (uint16_t)i;
        want[i] = f32_from_f16(half[i]);
    }
    t->k.f32_from_f16(f, half, N);
    if (!same_bits(f, want, N))
        kcheck_fail(t, "f32_from_f16", "differs from f16.h");
    t->k.f32_from_bf16(f, half, N);
    for (int i = 0; i < N; i++)
        want[i] = f32_from_bf16(half[i]);
    if (!same_bits(f, want, N))
        kcheck_fail(t, "f32_from_bf16", "differs from f16.h");
    for (uint32_t part = 0; part < 64; part++) { /* a spread over all floats */
        for (uint32_t i = 0; i < N; i++) {
            uint32_t low = part < 3 ? 0xfff + part : (uint32_t)rng_u64(&t->rng);
            f[i] = f32_from_bits(i << 16 | (low & 0xffff));
        }
        t->k.bf16_from_f32(back, f, N);
        t->ref.bf16_from_f32(half, f, N);
        if (memcmp(back, half, N * sizeof *back) != 0)
            kcheck_fail(t, "bf16_from_f32", "differs from the reference");
        t->k.f16_from_f32(back, f, N);
        for (int i = 0; i < N; i++)
            if (back[i] != f16_from_f32(f[i])) {
                kcheck_fail(t, "f16_from_f32", "%a gives %04x not %04x", (double)f[i],
                            back[i], f16_from_f32(f[i]));
                return;
            }
    }
}

static void check_f16_tails(struct kcheck *t)
{
    for (int64_t n = 0; n < 40; n++) {
        uint16_t *h = kcheck_buffer(t, (size_t)n * 2),
                 *h2 = kcheck_buffer(t, (size_t)n * 2);
        float *f = kcheck_buffer(t, (size_t)n * 4),
              *f2 = kcheck_buffer(t, (size_t)n * 4);
        kcheck_bytes(t, h, (size_t)n * 2);
        t->k.f32_from_f16(f, h, n);
        t->ref.f32_from_f16(f2, h, n);
        int64_t at = kcheck_diff(f, f2, n);
        t->k.f16_from_f32(h2, f2, n);
        t->ref.f16_from_f32(h, f2, n);
        bool bad = at >= 0 || memcmp(h, h2, (size_t)n * 2) != 0;
        t->k.bf16_from_f32(h2, f2, n);
        t->ref.bf16_from_f32(h, f2, n);
        bad = bad || memcmp(h, h2, (size_t)n * 2) != 0;
        t->k.f32_from_bf16(f, h, n);
        t->ref.f32_from_bf16(f2, h, n);
        if (bad || kcheck_diff(f, f2, n) >= 0)
            kcheck_fail(t, "half tails", "n=%lld", (long long)n);
        kcheck_reset(t);
    }
}

/* Distance from the exact result, in units of the last place of a float. */
static double ulp_error(float got, double exact)
{
    int e;

    frexp(exact, &e);
    return fabs((double)got - exact) / ldexp(1.0, (e < -125 ? -125 : e) - 24);
}

/* exp against the C library's double, over the whole range of results. */
static void check_exp_accuracy(struct kcheck *t)
{
    enum { N = 1 << 16 };
    float *x = kcheck_buffer(t, N * sizeof *x), *y = kcheck_buffer(t, N * sizeof *y);
    double worst = 0;

    for (int i = 0; i < N; i++)
        x[i] = (float)(-87.3 + (87.3 + 88.7) * rng_f64(&t->rng));
    t->k.exp(y, x, N);
    for (int i = 0; i < N; i++)
        worst = fmax(worst, ulp_error(y[i], exp((double)x[i])));
    if (worst > 1.0)
        kcheck_fail(t, "exp accuracy", "%.3f ULP", worst);
    static const float edge[] = {0, -0.0f, 89, -104, 1000, -1000, INFINITY, -INFINITY};
    static const float want[] = {1, 1, INFINITY, 0, INFINITY, 0, INFINITY, 0};
    t->k.exp(y, edge, countof(edge));
    if (kcheck_diff(y, want, countof(edge)) >= 0)
        kcheck_fail(t, "exp edges", "wrong value");
    x[0] = NAN;
    t->k.exp(y, x, 1);
    if (!isnan(y[0]))
        kcheck_fail(t, "exp edges", "NaN is lost");
}

/* Both formulas in double; gelu with tanh, as it is defined. */
static void check_activation_values(struct kcheck *t)
{
    enum { N = 100 };
    float x[N], g[N], y[N];

    kcheck_floats(t, x, N, KC_NORMAL);
    kcheck_floats(t, g, N, KC_NORMAL);
    x[0] = 30.0f;
    x[1] = -30.0f; /* the exponential overflows: the result is -0 */
    x[2] = 0.0f;
    t->ref.gelu_mul(y, x, g, N);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], c = sqrt(2.0 / 3.14159265358979323846);
        double want =
            0.5 * v * (1 + tanh(c * (v + 0.044715 * v * v * v))) * (double)g[i];
        if (!(fabs((double)y[i] - want) <= 6e-7 * fabs(want) + 1e-7))
            kcheck_fail(t, "gelu value", "%g gives %g not %g", v, (double)y[i], want);
    }
    t->ref.relu2_mul(y, x, g, N);
    for (int i = 0; i < N; i++) {
        double want = x[i] > 0 ? (double)x[i] * (double)x[i] * (double)g[i] : 0;
        if (!(fabs((double)y[i] - want) <= 2e-7 * fabs(want)))
            kcheck_fail(t, "relu2 value", "%g not %g", (double)y[i], want);
    }
    memcpy(y, x, sizeof y);
    t->ref.scale(y, N, 3.0f);
    for (int i = 0; i < N; i++)
        if (y[i] != x[i] * 3.0f)
            kcheck_fail(t, "scale value", "%g", (double)y[i]);
}

/* The reference functions against their definitions in double. */
static void check_float_values(struct kcheck *t)
{
    enum { N = 100 };
    float x[N], g[N], y[N];
    double sum = 0;

    kcheck_floats(t, x, N, KC_NORMAL);
    kcheck_floats(t, g, N, KC_NORMAL);
    for (int i = 0; i < N; i++)
        sum += (double)x[i] * (double)x[i];
    t->ref.rmsnorm(y, x, g, N, 1e-5f);
    for (int i = 0; i < N; i++) {
        double want = (double)x[i] / sqrt(sum / N + 1e-5) * (double)g[i];
        if (fabs((double)y[i] - want) > 3e-7 * fabs(want))
            kcheck_fail(t, "rmsnorm value", "%g not %g", (double)y[i], want);
    }
    t->ref.silu_mul(y, x, g, N);
    for (int i = 0; i < N; i++) {
        double want = (double)x[i] / (1 + exp(-(double)x[i])) * (double)g[i];
        if (fabs((double)y[i] - want) > 4e-7 * fabs(want))
            kcheck_fail(t, "silu value", "%g not %g", (double)y[i], want);
    }
    memcpy(y, x, sizeof y);
    t->ref.softcap(y, N, 2.0f);
    for (int i = 0; i < N; i++)
        if (fabs((double)y[i] - 2 * tanh((double)x[i] / 2)) > 1e-6)
            kcheck_fail(t, "softcap value", "%g", (double)y[i]);
}

static void check_weighted_sum(struct kcheck *t)
{
    static const int64_t dims[] = {1, 4, 8, 12, 16, 31, 64, 80, 128, 130};

    for (size_t d = 0; d < countof(dims); d++) {
        for (int64_t n_pos = 0; n_pos < 12; n_pos++) {
            struct fcase c = make_fcase(t, dims[d], KC_MIXED);
            float *p = kcheck_buffer(t, (size_t)n_pos * 4);
            float *v = kcheck_buffer(t, (size_t)(n_pos * c.n) * 4);
            kcheck_floats(t, p, n_pos, KC_NORMAL);
            kcheck_floats(t, v, n_pos * c.n, KC_MIXED);
            t->k.weighted_sum(c.y, p, v, c.n, n_pos, c.n);
            t->ref.weighted_sum(c.y_ref, p, v, c.n, n_pos, c.n);
            same(t, "weighted_sum", &c, (int)n_pos);
            kcheck_reset(t);
        }
    }
}

static void check_rope(struct kcheck *t)
{
    for (int64_t n_pairs = 0; n_pairs < 40; n_pairs++) {
        struct fcase c = make_fcase(t, 2 * n_pairs, KC_NORMAL);
        float *cs = kcheck_buffer(t, (size_t)n_pairs * 4);
        float *sn = kcheck_buffer(t, (size_t)n_pairs * 4);
        kcheck_floats(t, cs, n_pairs, KC_NORMAL);
        kcheck_floats(t, sn, n_pairs, KC_NORMAL);
        t->k.rope_norm(c.y, cs, sn, n_pairs);
        t->ref.rope_norm(c.y_ref, cs, sn, n_pairs);
        same(t, "rope_norm", &c, 0);
        t->k.rope_neox(c.y, cs, sn, n_pairs);
        t->ref.rope_neox(c.y_ref, cs, sn, n_pairs);
        same(t, "rope_neox", &c, 0);
        kcheck_reset(t);
    }
}

static void check_sincos(struct kcheck *t)
{
    for (int i = 0; i < 20000; i++) {
        double angle = (rng_f64(&t->rng) - 0.5) * (i & 1 ? 20.0 : 2e6);
        float s, c;
        kernel_sincos(&s, &c, angle);
        if (s != (float)sin(angle) || c != (float)cos(angle)) {
            /* Both may round differently where the exact value is almost a tie. */
            if (ulp_error(s, sin(angle)) > 0.5000001 ||
                ulp_error(c, cos(angle)) > 0.5000001)
                kcheck_fail(t, "sincos", "angle %.17g", angle);
        }
    }
}

static void check_sincos_edges(struct kcheck *t)
{
    static const double out_of_range[] = {(double)NAN, HUGE_VAL, -HUGE_VAL, 1e300,
                                          -0x1p50};
    float s, c;

    kernel_sincos(&s, &c, 0.0);
    if (s != 0.0f || c != 1.0f)
        kcheck_fail(t, "sincos edges", "0 gives %g, %g", (double)s, (double)c);
    for (size_t i = 0; i < countof(out_of_range); i++) {
        kernel_sincos(&s, &c, out_of_range[i]);
        if (!isnan(s) || !isnan(c))
            kcheck_fail(t, "sincos edges", "%g gives a number", out_of_range[i]);
    }
}

static void check_fwht(struct kcheck *t)
{
    for (int64_t block = 1; block <= 4096; block *= 2) {
        for (int64_t n_blocks = 1; n_blocks <= 3; n_blocks += 2) {
            struct fcase c = make_fcase(t, block * n_blocks, KC_NORMAL);
            t->k.fwht(c.y, c.n, block);
            t->ref.fwht(c.y_ref, c.n, block);
            same(t, "fwht", &c, (int)block);
            kcheck_reset(t);
        }
    }
    static const int16_t other[] = {12, 20, 28, 48, 576, 640, 896, 1536, 3840};
    for (int i = 0; i < (int)countof(other); i++) {
        struct fcase c = make_fcase(t, 2 * other[i], KC_NORMAL);
        t->k.fwht(c.y, c.n, other[i]);
        t->ref.fwht(c.y_ref, c.n, other[i]);
        same(t, "fwht of other orders", &c, other[i]);
        kcheck_reset(t);
    }
}

/* The fast transform against the matrix in double: H[r][c] = (-1)^popcount(r & c)/sqrt n. */
static void check_fwht_values(struct kcheck *t)
{
    float x[4096], y[4096];

    for (int64_t n = 4; n <= 4096; n *= 2) {
        kcheck_floats(t, x, n, KC_NORMAL);
        memcpy(y, x, (size_t)n * 4);
        t->ref.fwht(y, n, n);
        for (int64_t r = 0; r < n; r += 1 + n / 64) {
            double sum = 0;
            for (int64_t c = 0; c < n; c++)
                sum += __builtin_popcountll((uint64_t)(r & c)) & 1 ? -(double)x[c]
                                                                   : (double)x[c];
            if (fabs(sum / sqrt((double)n) - (double)y[r]) > 1e-6 * 4)
                kcheck_fail(t, "fwht value", "n=%lld row %lld", (long long)n,
                            (long long)r);
        }
    }
}

const struct kcheck_item kcheck_float[] = {
    {"elementwise", check_elementwise},
    {"f16", check_f16},
    {"half tails", check_f16_tails},
    {"exp accuracy", check_exp_accuracy},
    {"float values", check_float_values},
    {"activation values", check_activation_values},
    {"weighted_sum", check_weighted_sum},
    {"rope", check_rope},
    {"sincos", check_sincos},
    {"sincos edges", check_sincos_edges},
    {"fwht", check_fwht},
    {"fwht values", check_fwht_values},
    {NULL, NULL},
};
