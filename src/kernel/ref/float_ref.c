/*
 * float_ref.c - norms, activation functions, softmax, rope, Hadamard. Scalar; defines
 * the bits.
 */
#include "base/reader.h"
#include "kernel/ref/exp_ref.h"
#include "kernel/variants.h"
#include "tensor/f16.h"

#include <math.h>

enum { NORM_LANES = 8, SUM_LANES = 16 };

void kernel_f32_from_f16_c(float *dst, const void *src, int64_t n)
{
    const uint8_t *p = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = f32_from_f16(le_get16(p + 2 * i));
}

void kernel_f32_from_bf16_c(float *dst, const void *src, int64_t n)
{
    const uint8_t *p = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = f32_from_bf16(le_get16(p + 2 * i));
}

void kernel_f16_from_f32_c(uint16_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = f16_from_f32(src[i]);
}

void kernel_bf16_from_f32_c(uint16_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = f32_bits(src[i]);
        dst[i] = bits & 0x7f800000u ? bf16_from_f32(src[i])
                                    : (uint16_t)(bits >> 16 & 0x8000u);
    }
}

void kernel_rmsnorm_c(float *y, const float *x, const float *gain, int64_t n, float eps)
{
    double lane[NORM_LANES] = {0};

    for (int64_t i = 0; i < n; i++)
        lane[i % NORM_LANES] += (double)(x[i] * x[i]);
    for (int h = NORM_LANES / 2; h; h /= 2)
        for (int i = 0; i < h; i++)
            lane[i] += lane[i + h];
    float r = 1.0f / sqrtf((float)(lane[0] / (double)n) + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * r * gain[i];
}

void kernel_exp_c(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = exp_one(x[i]);
}

void kernel_silu_mul_c(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + exp_one(-gate[i])) * up[i];
}

void kernel_gelu_mul_c(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float g = gate[i], z = g * g * g * GELU_CUBE + g;
        y[i] = g / (1.0f + exp_one(z * GELU_MINUS_2C)) * up[i];
    }
}

void kernel_relu2_mul_c(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float r = gate[i] > 0.0f ? gate[i] : 0.0f;
        y[i] = r * r * up[i];
    }
}

void kernel_scale_c(float *y, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= by;
}

void kernel_add_c(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void kernel_mul_c(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void kernel_softcap_c(float *p, int64_t n, float cap)
{
    for (int64_t i = 0; i < n; i++) {
        float z = p[i] / cap;
        p[i] = cap * (1.0f - 2.0f / (exp_one(z + z) + 1.0f));
    }
}

float kernel_softmax_c(float *p, int64_t n, float scale, float *max_out)
{
    float lane[SUM_LANES] = {0}, max = -INFINITY;

    for (int64_t i = 0; i < n; i++) {
        p[i] *= scale;
        max = p[i] > max ? p[i] : max;
    }
    *max_out = max + 0.0f; /* one zero for both signs */
    for (int64_t i = 0; i < n; i++) {
        p[i] = exp_one(p[i] - max);
        lane[i % SUM_LANES] += p[i];
    }
    for (int h = SUM_LANES / 2; h; h /= 2)
        for (int i = 0; i < h; i++)
            lane[i] += lane[i + h];
    return lane[0];
}

void kernel_weighted_sum_c(float *out, const float *p, const float *v, int64_t v_step,
                           int64_t n_pos, int64_t dim)
{
    for (int64_t j = 0; j < n_pos; j++)
        for (int64_t i = 0; i < dim; i++)
            out[i] += p[j] * v[j * v_step + i];
}

void kernel_rope_norm_c(float *x, const float *c, const float *s, int64_t n_pairs)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c[i] - b * s[i];
        x[2 * i + 1] = b * c[i] + a * s[i];
    }
}

void kernel_rope_neox_c(float *x, const float *c, const float *s, int64_t n_pairs)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        float a = x[i], b = x[n_pairs + i];
        x[i] = a * c[i] - b * s[i];
        x[n_pairs + i] = b * c[i] + a * s[i];
    }
}
