/*
 * dot_ref.c - quantising activations, and the two dot products. Scalar; defines the bits.
 */
#include "kernel/variants.h"
#include "tensor/f16.h"

#include <math.h>

/* 1.5 * 2^23: adding and subtracting it rounds |x| < 2^22 to nearest, ties to even. */
static const float ROUND = 12582912.0f;
static const float TINY = 0x1p-100f;

/* The bits of the largest |x|. As integers, so that a NaN is the largest. */
static uint32_t max_bits(const float *x, int64_t n)
{
    uint32_t max = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = f32_bits(x[i]) & 0x7fffffffu;
        max = bits > max ? bits : max;
    }
    return max;
}

/* Everything that follows from q and e of group g. */
static void derive(const struct kq_act *a, int64_t t, int64_t g, int e)
{
    const int8_t *q = a->q + t * a->n + g * KQ_GROUP;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g;
    int total = 0;

    for (int i = 0; i < KQ_GROUP; i++) {
        int64_t c = g * KQ_GROUP + i, first = c / KQ_PLANE * KQ_PLANE;
        int64_t m = a->n - first < KQ_PLANE ? a->n - first : KQ_PLANE;
        a->p[t * a->n + first + (c - first) / 4 + c % 4 * (m / 4)] = q[i];
        a->e[(t * a->n + c) / 2] = (int16_t)e;
        total += q[i];
    }
    a->ep[t * a->n / 8 + 2 * g] = a->ep[t * a->n / 8 + 2 * g + 1] = (int16_t)e;
    sum[1] = (int32_t)((uint32_t)sum[0] + (uint32_t)(e * total)); /* modulo 2^32 */
    a->s[t * a->n / KQ_GROUP + g] = (float)(e * total);
}

void kernel_act_quant_c(const struct kq_act *a, int64_t t, const float *x)
{
    float max = f32_from_bits(max_bits(x, a->n));
    bool empty = !(max >= TINY) || isinf(max); /* or infinite, or NaN */
    float d = max / (127.0f * KQ_MAX_E), part = KQ_MAX_E / max;

    a->sum[t * (a->n / KQ_GROUP + 1)] = 0;
    a->d[t] = !empty ? d : max < TINY ? 0.0f : NAN;
    for (int64_t g = 0; g < a->n / KQ_GROUP; g++, x += KQ_GROUP) {
        int8_t *q = a->q + t * a->n + g * KQ_GROUP;
        int e = empty ? 1 : 1 + (int)(f32_from_bits(max_bits(x, KQ_GROUP)) * part);
        e = e > KQ_MAX_E ? KQ_MAX_E : e;
        float inv = 1.0f / (d * (float)e); /* |x| * inv < 127.5 by the choice of e */
        for (int i = 0; i < KQ_GROUP; i++)
            q[i] = empty ? 0 : (int8_t)((x[i] * inv + ROUND) - ROUND);
        derive(a, t, g, e);
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

/* One element of the 8-bit product. */
static float qdot_one(const struct kq_mat *w, int64_t r, const struct kq_act *x,
                      int64_t t)
{
    const int8_t *code = w->code + r * w->code_step, *q = x->q + t * x->n;
    const int16_t *e = x->e + t * x->n / 2;
    const float *scale = w->scale + r * w->group_step;
    const float *min = w->min ? w->min + r * w->group_step : NULL;
    float acc = 0.0f;

    for (int64_t c = 0; c < x->n; c += w->block) {
        int64_t end = min_i64(c + w->block, x->n), g = c / KQ_GROUP;
        int dot = 0, total = 0; /* of e * code * q, of e * q */
        for (int64_t i = c; i < end; i++) {
            dot += e[i / 2] * code[i] * q[i];
            total += e[i / 2] * q[i];
        }
        float term = scale[g] * (float)dot;
        acc += min ? term - min[g] * (float)total : term;
    }
    return x->d[t] * acc;
}

void kernel_qdot_c(float *y, int64_t y_step, const struct kq_mat *w,
                   const struct kq_act *x)
{
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t t = 0; t < x->rows; t++)
            y[t * y_step + r] = qdot_one(w, r, x, t);
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
