/*
 * float_neon.c - conversions, norms, activation functions, softmax, rope, Hadamard, in
 * NEON.
 *
 * Same bits as ref/float_ref.c; where elements do not depend on each other, the last few
 * go through the reference itself. A product and a sum stay two instructions: the files
 * are built without contraction.
 */
#include "kernel/arm/float4.h"
#include "kernel/variants.h"
#include "tensor/hadamard.h"

#include <math.h>
#include <string.h>

void kernel_f32_from_f16_neon(float *dst, const void *src, int64_t n)
{
    const uint8_t *p = src;
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 2 * i))));
    kernel_f32_from_f16_c(dst + i, p + 2 * i, n - i);
}

void kernel_f32_from_bf16_neon(float *dst, const void *src, int64_t n)
{
    const uint8_t *p = src;
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        uint16x4_t v = vreinterpret_u16_u8(vld1_u8(p + 2 * i));
        vst1q_f32(dst + i, vreinterpretq_f32_u32(vshll_n_u16(v, 16)));
    }
    kernel_f32_from_bf16_c(dst + i, p + 2 * i, n - i);
}

void kernel_f16_from_f32_neon(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src + i))));
    kernel_f16_from_f32_c(dst + i, src + i, n - i);
}

void kernel_rmsnorm_neon(float *y, const float *x, const float *gain, int64_t n,
                         float eps)
{
    double sum = sum_squares(x, n);
    float r = 1.0f / sqrtf((float)(sum / (double)n) + eps);
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_f32(vmulq_f32(vld1q_f32(x + i), vdupq_n_f32(r)),
                                   vld1q_f32(gain + i)));
    for (; i < n; i++)
        y[i] = x[i] * r * gain[i];
}

void kernel_exp_neon(float *y, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, exp4(vld1q_f32(x + i)));
    kernel_exp_c(y + i, x + i, n - i);
}

/* gate / (1 + exp(z)) * up */
static ALWAYS_INLINE float32x4_t gated(float32x4_t gate, float32x4_t z, float32x4_t up)
{
    float32x4_t e = vaddq_f32(vdupq_n_f32(1.0f), exp4(z));

    return vmulq_f32(vdivq_f32(gate, e), up);
}

void kernel_silu_mul_neon(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        vst1q_f32(y + i, gated(g, vnegq_f32(g), vld1q_f32(up + i)));
    }
    kernel_silu_mul_c(y + i, gate + i, up + i, n - i);
}

void kernel_gelu_mul_neon(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        float32x4_t cube = vmulq_f32(vmulq_f32(g, g), g);
        float32x4_t z = vaddq_f32(vmulq_f32(cube, vdupq_n_f32(GELU_CUBE)), g);
        z = vmulq_f32(z, vdupq_n_f32(GELU_MINUS_2C));
        vst1q_f32(y + i, gated(g, z, vld1q_f32(up + i)));
    }
    kernel_gelu_mul_c(y + i, gate + i, up + i, n - i);
}

/* fmaxnm gives the number when the other operand is NaN, as the reference does. */
void kernel_relu2_mul_neon(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t r = vmaxnmq_f32(vld1q_f32(gate + i), vdupq_n_f32(0.0f));
        vst1q_f32(y + i, vmulq_f32(vmulq_f32(r, r), vld1q_f32(up + i)));
    }
    kernel_relu2_mul_c(y + i, gate + i, up + i, n - i);
}

void kernel_scale_neon(float *y, int64_t n, float by)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_f32(vld1q_f32(y + i), vdupq_n_f32(by)));
    kernel_scale_c(y + i, n - i, by);
}

void kernel_add_neon(float *y, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
    kernel_add_c(y + i, x + i, n - i);
}

void kernel_mul_neon(float *y, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
    kernel_mul_c(y + i, a + i, b + i, n - i);
}

void kernel_softcap_neon(float *p, int64_t n, float cap)
{
    const float32x4_t one = vdupq_n_f32(1.0f), capv = vdupq_n_f32(cap);
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t z = vdivq_f32(vld1q_f32(p + i), capv);
        float32x4_t e = vaddq_f32(exp4(vaddq_f32(z, z)), one);
        float32x4_t t = vsubq_f32(one, vdivq_f32(vdupq_n_f32(2.0f), e));
        vst1q_f32(p + i, vmulq_f32(capv, t));
    }
    kernel_softcap_c(p + i, n - i, cap);
}

/* Multiplies p by scale and returns the largest product; NaN is passed over. */
static float scale_and_max(float *p, int64_t n, float scale)
{
    float32x4_t max = vdupq_n_f32(-INFINITY);
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vmulq_f32(vld1q_f32(p + i), vdupq_n_f32(scale));
        vst1q_f32(p + i, v);
        max = vmaxnmq_f32(max, v);
    }
    float m = vmaxnmvq_f32(max);
    for (; i < n; i++) {
        p[i] *= scale;
        m = p[i] > m ? p[i] : m;
    }
    return m;
}

float kernel_softmax_neon(float *p, int64_t n, float scale, float *max_out)
{
    float top = scale_and_max(p, n, scale);
    float32x4_t max = vdupq_n_f32(top);
    float32x4_t sum[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0),
                          vdupq_n_f32(0)};
    int64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float32x4_t e = exp4(vsubq_f32(vld1q_f32(p + i), max));
        vst1q_f32(p + i, e);
        sum[i / 4 % 4] = vaddq_f32(sum[i / 4 % 4], e);
    }
    if (i < n) { /* +0 to the other lanes changes nothing */
        float rest[4] = {0};
        memcpy(rest, p + i, (size_t)(n - i) * sizeof *rest);
        vst1q_f32(rest, exp4(vsubq_f32(vld1q_f32(rest), max)));
        memcpy(p + i, rest, (size_t)(n - i) * sizeof *rest);
        for (int64_t k = n - i; k < 4; k++)
            rest[k] = 0.0f;
        sum[i / 4 % 4] = vaddq_f32(sum[i / 4 % 4], vld1q_f32(rest));
    }
    *max_out = top + 0.0f; /* one zero for both signs */
    return fold_quads(sum, 4);
}

void kernel_weighted_sum_neon(float *out, const float *p, const float *v,
                              int64_t v_step, int64_t n_pos, int64_t dim)
{
    int64_t i = 0;

    for (; i + 16 <= dim; i += 16) {
        float32x4_t acc[4];
        for (int k = 0; k < 4; k++)
            acc[k] = vld1q_f32(out + i + 4 * k);
        for (int64_t j = 0; j < n_pos; j++)
            for (int k = 0; k < 4; k++)
                acc[k] =
                    vaddq_f32(acc[k], vmulq_f32(vdupq_n_f32(p[j]),
                                                vld1q_f32(v + j * v_step + i + 4 * k)));
        for (int k = 0; k < 4; k++)
            vst1q_f32(out + i + 4 * k, acc[k]);
    }
    if (i < dim)
        kernel_weighted_sum_c(out + i, p, v + i, v_step, n_pos, dim - i);
}

void kernel_rope_norm_neon(float *x, const float *c, const float *s, int64_t n_pairs)
{
    int64_t i = 0;

    for (; i + 4 <= n_pairs; i += 4) {
        float32x4x2_t v = vld2q_f32(x + 2 * i);
        float32x4_t cv = vld1q_f32(c + i), sv = vld1q_f32(s + i);
        float32x4_t a = v.val[0], b = v.val[1];
        v.val[0] = vsubq_f32(vmulq_f32(a, cv), vmulq_f32(b, sv));
        v.val[1] = vaddq_f32(vmulq_f32(b, cv), vmulq_f32(a, sv));
        vst2q_f32(x + 2 * i, v);
    }
    kernel_rope_norm_c(x + 2 * i, c + i, s + i, n_pairs - i);
}

void kernel_rope_neox_neon(float *x, const float *c, const float *s, int64_t n_pairs)
{
    int64_t i = 0;

    for (; i + 4 <= n_pairs; i += 4) {
        float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + n_pairs + i);
        float32x4_t cv = vld1q_f32(c + i), sv = vld1q_f32(s + i);
        vst1q_f32(x + i, vsubq_f32(vmulq_f32(a, cv), vmulq_f32(b, sv)));
        vst1q_f32(x + n_pairs + i, vaddq_f32(vmulq_f32(b, cv), vmulq_f32(a, sv)));
    }
    for (; i < n_pairs; i++) {
        float a = x[i], b = x[n_pairs + i];
        x[i] = a * c[i] - b * s[i];
        x[n_pairs + i] = b * c[i] + a * s[i];
    }
}

/* Scale and the butterflies of distance 1 and 2 on four neighbours. */
static ALWAYS_INLINE float32x4_t fwht4(float32x4_t x, float32x4_t scale)
{
    x = vmulq_f32(x, scale);
    float32x4_t y = vrev64q_f32(x); /* lanes 1 0 3 2 */
    x = vtrn1q_f32(vaddq_f32(x, y), vsubq_f32(x, y));
    y = vextq_f32(x, x, 2); /* lanes 2 3 0 1 */
    return vcombine_f32(vget_low_f32(vaddq_f32(x, y)), vget_low_f32(vsubq_f32(x, y)));
}

void kernel_fwht_neon(float *x, int64_t n, int64_t block)
{
    const int64_t pow2 = hadamard_pow2(block);

    if (pow2 < 4) {
        hadamard_apply(x, n, block);
        return;
    }
    float32x4_t scale = vdupq_n_f32(1.0f / sqrtf((float)block));
    for (int64_t i = 0; i < n; i += 4)
        vst1q_f32(x + i, fwht4(vld1q_f32(x + i), scale));
    for (int64_t len = 4; len < pow2; len *= 2) {
        for (int64_t i = 0; i < n; i += 2 * len) {
            for (int64_t j = i; j < i + len; j += 4) {
                float32x4_t u = vld1q_f32(x + j), v = vld1q_f32(x + j + len);
                vst1q_f32(x + j, vaddq_f32(u, v));
                vst1q_f32(x + j + len, vsubq_f32(u, v));
            }
        }
    }
    hadamard_rest(x, n, block);
}
