/*
 * delta_ref.c - the gated delta net: convolution over time, norms of heads, gates, the
 * recurrence. Scalar; defines the bits.
 *
 * One head's state S is [K][V], V values for each of K keys (arXiv:2412.06464, equation
 * 10, transposed so that what belongs to one key lies together). Per token:
 *     S <- decay S;  d = beta (v - k S);  S <- S + k^T d;  out = scale (q S)
 * Differences from the paper: the decay and beta are given, q and k come normalised. All
 * sums over keys run from the first key to the last, so that columns of S are
 * independent of each other and a variant may take as many at a time as it likes.
 */
#include "kernel/ref/exp_ref.h"
#include "kernel/variants.h"

#include <math.h>

enum { NORM_LANES = 8 };

void kernel_conv_silu_c(float *y, const float *const *x, const float *w, int64_t w_step,
                        int64_t taps, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float acc = x[0][i] * w[i];
        for (int64_t j = 1; j < taps; j++)
            acc += x[j][i] * w[j * w_step + i];
        y[i] = acc / (1.0f + exp_one(-acc));
    }
}

void kernel_l2norm_c(float *y, const float *x, int64_t n, float eps)
{
    double lane[NORM_LANES] = {0};

    for (int64_t i = 0; i < n; i++)
        lane[i % NORM_LANES] += (double)(x[i] * x[i]);
    for (int h = NORM_LANES / 2; h; h /= 2)
        for (int i = 0; i < h; i++)
            lane[i] += lane[i + h];
    float size = sqrtf((float)lane[0]);
    float r = 1.0f / (eps > size ? eps : size); /* NaN stays */
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * r;
}

void kernel_sigmoid_mul_c(float *y, const float *gate, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 1.0f / (1.0f + exp_one(-gate[i])) * x[i];
}

void kernel_delta_step_c(float *out, float *state, const struct kd_step *d)
{
    for (int64_t i = 0; i < d->n_values; i++) {
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
}
