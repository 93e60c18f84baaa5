/*
 * delta_neon.c - the gated delta net in NEON. Same bits as ref/delta_ref.c.
 *
 * The recurrence takes 16 columns of the state at a time: their rows of 64 bytes stay in
 * L1 between the two passes, and four sums in flight hide the latency of the additions.
 */
#include "kernel/arm/float4.h"
#include "kernel/variants.h"

#include <math.h>

/* 1 + exp(-z) */
static ALWAYS_INLINE float32x4_t one_and_exp(float32x4_t z)
{
    return vaddq_f32(vdupq_n_f32(1.0f), exp4(vnegq_f32(z)));
}

void kernel_conv_silu_neon(float *y, const float *const *x, const float *w,
                           int64_t w_step, int64_t taps, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t acc = vmulq_f32(vld1q_f32(x[0] + i), vld1q_f32(w + i));
        for (int64_t j = 1; j < taps; j++)
            acc = vaddq_f32(
                acc, vmulq_f32(vld1q_f32(x[j] + i), vld1q_f32(w + j * w_step + i)));
        vst1q_f32(y + i, vdivq_f32(acc, one_and_exp(acc)));
    }
    for (; i < n; i++) { /* one column at a time */
        float acc = x[0][i] * w[i], e;
        for (int64_t j = 1; j < taps; j++)
            acc += x[j][i] * w[j * w_step + i];
        e = -acc;
        kernel_exp_c(&e, &e, 1);
        y[i] = acc / (1.0f + e);
    }
}

void kernel_l2norm_neon(float *y, const float *x, int64_t n, float eps)
{
    float size = sqrtf((float)sum_squares(x, n));
    float r = 1.0f / (eps > size ? eps : size); /* NaN stays */
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_f32(vld1q_f32(x + i), vdupq_n_f32(r)));
    for (; i < n; i++)
        y[i] = x[i] * r;
}

void kernel_sigmoid_mul_neon(float *y, const float *gate, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t e = one_and_exp(vld1q_f32(gate + i));
        vst1q_f32(y + i, vmulq_f32(vdivq_f32(vdupq_n_f32(1.0f), e), vld1q_f32(x + i)));
    }
    kernel_sigmoid_mul_c(y + i, gate + i, x + i, n - i);
}

/* 4 n_r columns from column i on. */
static ALWAYS_INLINE void delta_columns(float *out, float *state,
                                        const struct kd_step *d, int64_t i, int n_r)
{
    const float32x4_t decay = vdupq_n_f32(d->decay);
    float32x4_t acc[4], delta[4];

    for (int r = 0; r < n_r; r++)
        acc[r] = vdupq_n_f32(0.0f);
    for (int64_t j = 0; j < d->n_keys; j++) {
        const float *s = state + j * d->n_values + i;
        float32x4_t k = vdupq_n_f32(d->k[j]);
        for (int r = 0; r < n_r; r++) {
            float32x4_t v = vmulq_f32(vmulq_f32(vld1q_f32(s + 4 * r), decay), k);
            acc[r] = vaddq_f32(acc[r], v);
        }
    }
    for (int r = 0; r < n_r; r++) {
        float32x4_t v = vsubq_f32(vld1q_f32(d->v + i + 4 * r), acc[r]);
        delta[r] = vmulq_f32(vdupq_n_f32(d->beta), v);
        acc[r] = vdupq_n_f32(0.0f);
    }
    for (int64_t j = 0; j < d->n_keys; j++) {
        float *s = state + j * d->n_values + i;
        float32x4_t k = vdupq_n_f32(d->k[j]), q = vdupq_n_f32(d->q[j]);
        for (int r = 0; r < n_r; r++) {
            float32x4_t v = vaddq_f32(vmulq_f32(vld1q_f32(s + 4 * r), decay),
                                      vmulq_f32(k, delta[r]));
            vst1q_f32(s + 4 * r, v);
            acc[r] = vaddq_f32(acc[r], vmulq_f32(v, q));
        }
    }
    for (int r = 0; r < n_r; r++)
        vst1q_f32(out + i + 4 * r, vmulq_f32(acc[r], vdupq_n_f32(d->scale)));
}

static void delta_column(float *out, float *state, const struct kd_step *d, int64_t i)
{
    float *s = state + i, acc = 0.0f, o = 0.0f;

    for (int64_t j = 0; j < d->n_keys; j++)
        acc += s[j * d->n_values] * d->decay * d->k[j];
    float delta = d->beta * (d->v[i] - acc);
    for (int64_t j = 0; j < d->n_keys; j++) {
        float v = s[j * d->n_values] * d->decay + d->k[j] * delta;
        s[j * d->n_values] = v;
        o += v * d->q[j];
    }
    out[i] = o * d->scale;
}

void kernel_delta_step_neon(float *out, float *state, const struct kd_step *d)
{
    int64_t i = 0;

    for (; i + 16 <= d->n_values; i += 16)
        delta_columns(out, state, d, i, 4);
    for (; i + 4 <= d->n_values; i += 4)
        delta_columns(out, state, d, i, 1);
    for (; i < d->n_values; i++)
        delta_column(out, state, d, i);
}
