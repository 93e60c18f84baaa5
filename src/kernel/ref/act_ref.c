/*
 * act_ref.c - activations to 8 bits, in every order. Scalar; defines the bits.
 */
#include "kernel/variants.h"
#include "tensor/f16.h"

#include <assert.h>
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

/* The position whose code stands at lane l of plane k of a base-3 byte sequence that
 * begins with `wide` bytes at position at, whose digits 0-3 are read across; -1: none. */
static int trit(int at, int wide, int k, int l)
{
    return k < 4 ? at + 16 * (l / 4) + 4 * k + l % 4 : at + 4 * wide + l;
}

/* The position of byte i of a unit of kq_act.p, or -1 for a zero; the unit has m columns
 * (fewer than others only at the end of a row). */
static int p_source(enum kq_order o, int i, int m)
{
    int k = i / 32 % 5, l = i % 32, half = l / 16 * 64;

    assert(m >= KQ_STEP);
    switch (o) {
    case KQ_FLAT:
        return i % (m / 4) * 4 + i / (m / 4);
    case KQ_PLANES:
        return 16 * (l / 4) + 4 * (i / 32) + l % 4;
    case KQ_BITS:
        return i % (m / 8) * 8 + i / (m / 8);
    case KQ_TRITS64:
        l %= 16;
        if (half >= m || l > 12 || (l == 12 && k == 4))
            return -1;
        return half + (l == 12 ? 60 + k : trit(0, 12, k, l));
    case KQ_TRITS128:
        if (l >= 24)
            return l < 26 && k < 4 ? 120 + 2 * k + l - 24 : -1;
        return l < 16 ? trit(0, 16, k, l) : trit(80, 8, k, l - 16);
    case KQ_TRITS256:
        if (i < 160)
            return trit(0, 32, k, l);
        if (l >= 16)
            return l < 20 && k < 4 ? 240 + 4 * k + l - 16 : -1;
        return trit(160, 16, k, l);
    default:
        return -1;
    }
}

/* The group whose factor is number i of a unit of kq_act.ep, or -1 for a zero. */
static int ep_source(enum kq_order o, int i, int m)
{
    int quad = i % 16 / 2;
    bool fifth = i / 16 % 2;

    switch (o) {
    case KQ_FLAT:
    case KQ_PLANES:
        return i / 2;
    case KQ_BITS:
        return i;
    case KQ_TRITS64: /* quads of two blocks side by side, four groups each */
        if (quad / 4 * 64 >= m)
            return -1;
        return fifth ? quad / 4 * 4 + 3 : quad;
    case KQ_TRITS128:
        if (fifth)
            return quad < 4 ? 4 : quad < 6 ? 7 : -1;
        return quad < 4 ? quad : quad < 7 ? quad + 1 : -1;
    case KQ_TRITS256:
        if (i < 32)
            return fifth ? 8 + quad / 4 : quad;
        if (fifth)
            return quad < 4 ? 14 : -1;
        return quad < 4 ? 10 + quad : quad == 4 ? 15 : -1;
    default:
        return -1;
    }
}

/* p and ep from q and the factors of token t. */
static void derive_planes(const struct kq_act *a, int64_t t)
{
    int unit = a->order == KQ_BITS || a->order == KQ_TRITS256 ? 256 : KQ_PLANE;
    int8_t *p = a->p + t * kq_p_step(a->order, a->n);
    int16_t *ep = a->ep + t * kq_ep_step(a->order, a->n);

    for (int64_t c = 0; c < a->n; c += unit) {
        int m = a->n - c < unit ? (int)(a->n - c) : unit;
        const int8_t *q = a->q + t * a->n + c;
        const int16_t *e = a->e + (t * a->n + c) / 2;
        int n_p = (int)kq_p_step(a->order, m), n_ep = (int)kq_ep_step(a->order, m);
        for (int i = 0; i < n_p; i++) {
            int from = p_source(a->order, i, m);
            *p++ = from < 0 ? 0 : q[from];
        }
        for (int i = 0; i < n_ep; i++) {
            int g = ep_source(a->order, i, m);
            *ep++ = g < 0 ? 0 : e[g * KQ_GROUP / 2];
        }
    }
}

/* The sums that follow from q and e of group g. */
static void derive_sums(const struct kq_act *a, int64_t t, int64_t g, int e)
{
    const int8_t *q = a->q + t * a->n + g * KQ_GROUP;
    int32_t *sum = a->sum + t * (a->n / KQ_GROUP + 1) + g;
    int total = 0;

    for (int i = 0; i < KQ_GROUP; i++) {
        a->e[(t * a->n + g * KQ_GROUP + i) / 2] = (int16_t)e;
        total += q[i];
    }
    sum[1] = (int32_t)((uint32_t)sum[0] + (uint32_t)(e * total)); /* modulo 2^32 */
    a->s[t * a->n / KQ_GROUP + g] = (float)(e * total);
}

void kernel_act_quant_c(const struct kq_act *a, int64_t t, const float *x)
{
    float max = f32_from_bits(max_bits(x, a->n));
    bool empty = !(max >= TINY) || isinf(max); /* or infinite, or NaN */
    float d = max / (127.0f * KQ_MAX_E), part = KQ_MAX_E / max;
    int quads = kq_order_block(a->order) / 4;

    a->sum[t * (a->n / KQ_GROUP + 1)] = 0;
    a->d[t] = !empty ? d : max < TINY ? 0.0f : NAN;
    for (int64_t g = 0; g < a->n / KQ_GROUP; g++) {
        int8_t *q = a->q + t * a->n + g * KQ_GROUP;
        float v[KQ_GROUP];
        for (int i = 0; i < KQ_GROUP; i++) {
            int64_t u = 4 * g + i / 4;
            v[i] = x[4 * (u - u % quads + kq_quad(a->order, (int)(u % quads))) + i % 4];
        }
        int e = empty ? 1 : 1 + (int)(f32_from_bits(max_bits(v, KQ_GROUP)) * part);
        e = e > KQ_MAX_E ? KQ_MAX_E : e;
        float inv = 1.0f / (d * (float)e); /* |x| * inv < 127.5 by the choice of e */
        for (int i = 0; i < KQ_GROUP; i++)
            q[i] = empty ? 0 : (int8_t)((v[i] * inv + ROUND) - ROUND);
        derive_sums(a, t, g, e);
    }
    derive_planes(a, t);
}
