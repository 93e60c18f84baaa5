/*
 * dot_ref.c - the two dot products. Scalar; defines the bits.
 */
#include "kernel/variants.h"

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
