/*
 * act_units.h - the codes of an activation as packed kernels load them, unit by unit.
 *
 * Codes of base-3 types move as quads, four bytes at a time. Plain C for the variants of
 * act_quant, whose instruction sets differ; the definition is in ref/act_ref.c.
 */
#ifndef KERNEL_ACT_UNITS_H
#define KERNEL_ACT_UNITS_H

#include "kernel/kernel.h"

#include <math.h>
#include <string.h>

enum { ACT_UNIT = 256, ACT_QUADS = ACT_UNIT / 4 }; /* the widest unit of kq_act.p */

/* Columns of a unit: whole blocks of the order. */
static inline int64_t act_unit(enum kq_order o)
{
    return o == KQ_BITS || o == KQ_TRITS256 ? ACT_UNIT : KQ_PLANE;
}

/* The quad of columns that stands at each place of a unit. */
static inline void act_unit_quads(uint8_t *quad, enum kq_order o)
{
    int quads = kq_order_block(o) / 4;

    for (int u = 0; u < act_unit(o) / 4; u++)
        quad[u] = (uint8_t)(u - u % quads + kq_quad(o, u % quads));
}

/* Two neighbouring factors of ep from one. */
static inline int32_t pair_of(int16_t e)
{
    return (int32_t)((uint32_t)(uint16_t)e * 0x10001u);
}

/* 32 quads of one unit of KQ_PLANES, and its 8 factors. */
static inline void planes_unit(int32_t *p, int32_t *ep, const int32_t *q,
                               const int16_t *e)
{
    for (int g = 0; g < 8; g++) {
        ep[g] = pair_of(e[g]);
        for (int k = 0; k < 4; k++)
            p[8 * k + g] = q[4 * g + k];
    }
}

/* One or two blocks of 64, side by side. */
static inline void trits64_unit(int32_t *p, int32_t *ep, const int32_t *q,
                                const int16_t *e, int blocks)
{
    memset(p, 0, 40 * sizeof *p);
    memset(ep, 0, 16 * sizeof *ep);
    for (int h = 0; h < blocks; h++, p += 4, ep += 4, q += 16, e += 4) {
        for (int k = 0; k < 4; k++) {
            ep[k] = pair_of(e[k]);
            ep[8 + k] = pair_of(e[3]);
            for (int g = 0; g < 3; g++)
                p[8 * k + g] = q[4 * g + k];
            p[8 * k + 3] = (int32_t)((uint32_t)q[15] >> 8 * k & 255);
        }
        memcpy(p + 32, q + 12, 3 * sizeof *p);
    }
}

static inline void trits128_unit(int32_t *p, int32_t *ep, const int32_t *q,
                                 const int16_t *e)
{
    for (int k = 0; k < 4; k++) {
        uint32_t two = (uint32_t)q[30 + k / 2] >> 16 * (k % 2) & 0xffffu;
        for (int g = 0; g < 4; g++)
            p[8 * k + g] = q[4 * g + k];
        p[8 * k + 4] = q[20 + k];
        p[8 * k + 5] = q[24 + k];
        p[8 * k + 6] = (int32_t)two; /* columns 120 + 2 k and the next */
        p[8 * k + 7] = 0;
        p[32 + k] = q[16 + k];
        ep[k] = pair_of(e[k]);
        ep[8 + k] = pair_of(e[4]);
    }
    p[36] = q[28];
    p[37] = q[29];
    p[38] = p[39] = 0;
    ep[4] = pair_of(e[5]);
    ep[5] = pair_of(e[6]);
    ep[6] = ep[12] = ep[13] = pair_of(e[7]);
    ep[7] = ep[14] = ep[15] = 0;
}

static inline void trits256_unit(int32_t *p, int32_t *ep, const int32_t *q,
                                 const int16_t *e)
{
    memset(p, 0, 80 * sizeof *p);
    memset(ep, 0, 32 * sizeof *ep);
    for (int g = 0; g < 8; g++) {
        ep[g] = pair_of(e[g]);
        ep[8 + g] = pair_of(e[8 + g / 4]);
        p[32 + g] = q[32 + g];
        for (int k = 0; k < 4; k++)
            p[8 * k + g] = q[4 * g + k];
    }
    for (int j = 0; j < 4; j++) {
        ep[16 + j] = pair_of(e[10 + j]);
        ep[24 + j] = pair_of(e[14]);
        p[72 + j] = q[56 + j];
        p[40 + 8 * j + 4] = q[60 + j];
        for (int k = 0; k < 4; k++)
            p[40 + 8 * k + j] = q[40 + 4 * j + k];
    }
    ep[20] = pair_of(e[15]);
}

/* One unit's codes and factors as the packed kernels load them. */
static inline void act_store_unit(const struct kq_act *a, int64_t t, int64_t c,
                                  int64_t width, const int16_t *e)
{
    int32_t q[ACT_QUADS], p[ACT_QUADS / 4 * 5], ep[ACT_QUADS / 2];
    int8_t *to = a->p + t * kq_p_step(a->order, a->n) + kq_p_step(a->order, c);
    int16_t *to_e = a->ep + t * kq_ep_step(a->order, a->n) + kq_ep_step(a->order, c);
    const int8_t *codes = a->q + t * a->n + c;

    if (a->order == KQ_BITS) {
        for (int64_t j = 0; j < width / 8; j++)
            for (int k = 0; k < 8; k++)
                to[j + k * (width / 8)] = codes[8 * j + k];
        memcpy(to_e, e, (size_t)(width / KQ_GROUP) * sizeof *e);
        return;
    }
    memcpy(q, codes, (size_t)width);
    if (a->order == KQ_PLANES) {
        planes_unit(p, ep, q, e);
    } else if (a->order == KQ_TRITS64) {
        trits64_unit(p, ep, q, e, (int)width / 64);
    } else if (a->order == KQ_TRITS128) {
        trits128_unit(p, ep, q, e);
    } else {
        trits256_unit(p, ep, q, e);
    }
    memcpy(to, p, (size_t)kq_p_step(a->order, width));
    memcpy(to_e, ep, (size_t)kq_ep_step(a->order, width) * sizeof *to_e);
}

/* What all groups of a row share. */
struct act_scale {
    float d, part;
    bool empty;
};

/* The scale of token t, whose largest magnitude is max (a NaN is the largest); starts its
 * sums. */
static inline struct act_scale act_scale_row(const struct kq_act *a, int64_t t,
                                             float max)
{
    struct act_scale by = {max / (127.0f * KQ_MAX_E), KQ_MAX_E / max,
                           !(max >= 0x1p-100f) || isinf(max)};

    a->d[t] = !by.empty ? by.d : max < 0x1p-100f ? 0.0f : NAN;
    a->sum[t * (a->n / KQ_GROUP + 1)] = 0;
    return by;
}

/* Group g of token t from the 16 values of x; gives its factor. */
typedef void act_group(const struct kq_act *a, int64_t t, int64_t g, const float *x,
                       const struct act_scale *by, int16_t *e);

/* A row of any order but KQ_FLAT, a unit at a time. The groups' function is a constant
 * in each caller, which becomes a part of it. */
static inline void act_place_row(const struct kq_act *a, int64_t t, const float *x,
                                 const struct act_scale *by, act_group *group)
{
    const int64_t unit = act_unit(a->order);
    float placed[ACT_UNIT];
    int16_t e[ACT_UNIT / KQ_GROUP] = {0};
    uint8_t quad[ACT_QUADS];

    act_unit_quads(quad, a->order);
    for (int64_t c = 0; c < a->n; c += unit) {
        int64_t width = a->n - c < unit ? a->n - c : unit;
        for (int64_t u = 0; u < width / 4; u++)
            memcpy(placed + 4 * u, x + c + 4 * quad[u], 4 * sizeof *placed);
        for (int64_t g = 0; g < width / KQ_GROUP; g++)
            group(a, t, c / KQ_GROUP + g, placed + g * KQ_GROUP, by, &e[g]);
        act_store_unit(a, t, c, width, e);
    }
}

#endif
