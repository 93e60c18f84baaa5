/*
 * act_neon.c - activations to 8 bits, in every order, in NEON.
 *
 * Same bits as ref/act_ref.c. Orders move quads, each a register; act_units.h does the
 * rest.
 */
#include "kernel/act_units.h"
#include "kernel/arm/neon.h"
#include "kernel/variants.h"

/* Magnitudes as integers, so that a NaN is the largest. */
static ALWAYS_INLINE uint32x4_t magnitude(float32x4_t x)
{
    return vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7fffffff));
}

static ALWAYS_INLINE float largest(uint32x4_t m)
{
    uint32_t bits = vmaxvq_u32(m);
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* 16 numbers times inv, rounded to nearest, ties to even. */
static ALWAYS_INLINE int8x16_t round_group(const float32x4_t *x, float inv)
{
    int16x4_t v[4];

    for (int i = 0; i < 4; i++)
        v[i] = vmovn_s32(vcvtnq_s32_f32(vmulq_f32(x[i], vdupq_n_f32(inv))));
    return vcombine_s8(vmovn_s16(vcombine_s16(v[0], v[1])),
                       vmovn_s16(vcombine_s16(v[2], v[3])));
}

/* Group g of token t from four quads; gives its factor and codes. */
static ALWAYS_INLINE int8x16_t quantise(const struct kq_act *a, int64_t t, int64_t g,
                                        const float32x4_t *x,
                                        const struct act_scale *by, int16_t *e)
{
    int64_t at = t * a->n + g * KQ_GROUP;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g;
    int8x16_t q = vdupq_n_s8(0);
    int factor = 1;

    if (!by->empty) {
        float top = largest(vmaxq_u32(vmaxq_u32(magnitude(x[0]), magnitude(x[1])),
                                      vmaxq_u32(magnitude(x[2]), magnitude(x[3]))));
        factor += (int)(top * by->part);
        factor = factor > KQ_MAX_E ? KQ_MAX_E : factor;
        q = round_group(x, 1.0f / (by->d * (float)factor));
    }
    int total = factor * vaddlvq_s8(q);
    vst1q_s8(a->q + at, q);
    vst1q_s16(a->e + at / 2, vdupq_n_s16((int16_t)factor));
    sum[1] = (int32_t)((uint32_t)sum[0] + (uint32_t)total);
    a->s[at / KQ_GROUP] = (float)total;
    *e = (int16_t)factor;
    return q;
}

static void quantise_flat(const struct kq_act *a, int64_t t, const float *x,
                          const struct act_scale *by)
{
    static const uint8_t quads[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                      2, 6, 10, 14, 3, 7, 11, 15};
    int16_t *ep = a->ep + t * a->n / 8;

    for (int64_t g = 0; g < a->n / KQ_GROUP; g++) {
        int64_t c = g * KQ_GROUP, first = c / KQ_PLANE * KQ_PLANE;
        int64_t width = a->n - first < KQ_PLANE ? a->n - first : KQ_PLANE;
        int8_t plane[KQ_GROUP], *p = a->p + t * a->n + first + (c - first) / 4;
        int16_t e;
        const float32x4_t v[4] = {vld1q_f32(x + c), vld1q_f32(x + c + 4),
                                  vld1q_f32(x + c + 8), vld1q_f32(x + c + 12)};
        int8x16_t q = quantise(a, t, g, v, by, &e);
        vst1q_s8(plane, vqtbl1q_s8(q, vld1q_u8(quads)));
        for (int k = 0; k < 4; k++)
            memcpy(p + k * (width / 4), plane + 4 * k, 4);
        ep[2 * g] = ep[2 * g + 1] = e;
    }
}

/* Groups as act_place_row() wants them. */
static inline void groups(const struct kq_act *a, int64_t t, int64_t g, int64_t n,
                          const float *x, const uint8_t *quad,
                          const struct act_scale *by, int16_t *e)
{
    for (int64_t i = 0; i < n; i++, quad += 4) {
        const float32x4_t v[4] = {
            vld1q_f32(x + 4 * quad[0]), vld1q_f32(x + 4 * quad[1]),
            vld1q_f32(x + 4 * quad[2]), vld1q_f32(x + 4 * quad[3])};
        quantise(a, t, g + i, v, by, &e[i]);
    }
}

void kernel_act_quant_neon(const struct kq_act *a, int64_t t, const float *x)
{
    uint32x4_t m = vdupq_n_u32(0);

    for (int64_t i = 0; i < a->n; i += 4)
        m = vmaxq_u32(m, magnitude(vld1q_f32(x + i)));
    struct act_scale by = act_scale_row(a, t, largest(m));
    if (a->order == KQ_FLAT)
        quantise_flat(a, t, x, &by);
    else
        act_place_row(a, t, x, &by, groups);
}
