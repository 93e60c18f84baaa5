/*
 * dot_ref.c - quantising activations, and the two dot products. Scalar; defines the bits.
 */
#include "kernel/variants.h"
#include "tensor/f16.h"

#include <math.h>

enum { Q_LANES = 8, QUADS = KQ_STEP / Q_LANES };

/* 1.5 * 2^23: adding and subtracting it rounds |x| < 2^22 to nearest, ties to even. */
static const float ROUND = 12582912.0f;
static const float TINY = 0x1p-100f;

/* The bits of the largest |x| of a group. As integers, so that a NaN is the largest. */
static uint32_t group_max_bits(const float *x)
{
    uint32_t max = 0;

    for (int i = 0; i < KQ_GROUP; i++) {
        uint32_t bits = f32_bits(x[i]) & 0x7fffffffu;
        max = bits > max ? bits : max;
    }
    return max;
}

void kernel_act_quant_c(int8_t *q, float *d, float *s, const float *x, int64_t n)
{
    for (int64_t g = 0; g < n / KQ_GROUP; g++, q += KQ_GROUP, x += KQ_GROUP) {
        float max = f32_from_bits(group_max_bits(x));
        if (!(max >= TINY) || isinf(max)) { /* empty, infinite or NaN */
            for (int i = 0; i < KQ_GROUP; i++)
                q[i] = 0;
            d[g] = s[g] = max < TINY ? 0.0f : NAN;
            continue;
        }
        float inv = 127.0f / max;
        int sum = 0;
        for (int i = 0; i < KQ_GROUP; i++) {
            int code = (int)((x[i] * inv + ROUND) - ROUND);
            q[i] = (int8_t)code;
            sum += code;
        }
        d[g] = max / 127.0f;
        s[g] = d[g] * (float)sum;
    }
}

void kernel_dequant_c(float *dst, const int8_t *code, const float *scale,
                      const float *min, int64_t n)
{
    for (int64_t g = 0; g < n / KQ_GROUP; g++) {
        for (int64_t i = g * KQ_GROUP; i < (g + 1) * KQ_GROUP; i++) {
            float v = scale[g] * (float)code[i];
            dst[i] = min ? v - min[g] : v;
        }
    }
}

/* LANES: lane[i] += lane[i + h] for h = n/2, n/4, ... 1; the sum ends in lane[0]. */
static float fold(float *lane, int n)
{
    for (int h = n / 2; h; h /= 2)
        for (int i = 0; i < h; i++)
            lane[i] += lane[i + h];
    return lane[0];
}

/* One element of the 8-bit product. min may be NULL. */
static float qdot_one(const int8_t *code, const float *scale, const float *min,
                      const struct kq_act *x, int64_t t, int64_t n)
{
    const int8_t *q = x->q + t * x->q_step;
    const float *d = x->d + t * x->group_step, *s = x->s + t * x->group_step;
    float acc[Q_LANES] = {0}, sub[Q_LANES] = {0};

    for (int64_t b = 0; b < n / KQ_STEP; b++) {
        for (int l = 0; l < Q_LANES; l++) {
            int64_t i = b * KQ_STEP + l * QUADS, g = i / KQ_GROUP;
            int sum = code[i] * q[i] + code[i + 1] * q[i + 1] + code[i + 2] * q[i + 2] +
                      code[i + 3] * q[i + 3];
            acc[l] += scale[g] * d[g] * (float)sum;
        }
    }
    if (!min)
        return fold(acc, Q_LANES);
    for (int64_t g = 0; g < n / KQ_GROUP; g++)
        sub[g % Q_LANES] += min[g] * s[g];
    return fold(acc, Q_LANES) - fold(sub, Q_LANES);
}

void kernel_qdot_c(float *y, int64_t y_step, const struct kq_mat *w,
                   const struct kq_act *x, int64_t n)
{
    for (int64_t r = 0; r < w->rows; r++) {
        int64_t g = r * w->group_step;
        for (int64_t t = 0; t < x->rows; t++)
            y[t * y_step + r] = qdot_one(w->code + r * w->code_step, w->scale + g,
                                         w->min ? w->min + g : NULL, x, t, n);
    }
}

static float fdot_one(const float *w, const float *x, int64_t n)
{
    float acc[KF_LANES] = {0};
    int64_t i = 0;

    for (; i + KF_LANES <= n; i += KF_LANES)
        for (int l = 0; l < KF_LANES; l++)
            acc[l] += w[i + l] * x[i + l];
    for (; i < n; i++)
        acc[i % KF_LANES] += w[i] * x[i];
    return fold(acc, KF_LANES);
}

void kernel_fdot_c(float *y, int64_t y_step, const struct kf_mat *w,
                   const struct kf_mat *x, int64_t n)
{
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t t = 0; t < x->rows; t++)
            y[t * y_step + r] = fdot_one(w->v + r * w->step, x->v + t * x->step, n);
}
