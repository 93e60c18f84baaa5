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

/* Quad i of a unit is quad j of q. Copied one by one to where they stay: a wide copy of
 * what narrow ones have just written would wait for them. */
static inline void put_quad(int8_t *p, int i, const int8_t *q, int j)
{
    memcpy(p + 4 * i, q + 4 * j, 4);
}

/* Factors 2 i and 2 i + 1 of ep, both e. */
static inline void put_pair(int16_t *ep, int i, int16_t e)
{
    ep[2 * i] = ep[2 * i + 1] = e;
}

/* 32 quads of one unit of KQ_PLANES, and its 8 factors. */
static inline void planes_unit(int8_t *p, int16_t *ep, const int8_t *q,
                               const int16_t *e)
{
    for (int g = 0; g < 8; g++) {
        put_pair(ep, g, e[g]);
        for (int k = 0; k < 4; k++)
            put_quad(p, 8 * k + g, q, 4 * g + k);
    }
}

/* One or two blocks of 64, side by side. */
static inline void trits64_unit(int8_t *p, int16_t *ep, const int8_t *q,
                                const int16_t *e, int blocks)
{
    if (blocks < 2) {
        memset(p, 0, 160);
        memset(ep, 0, 32 * sizeof *ep);
    }
    for (int h = 0; h < blocks; h++, p += 16, ep += 8, q += 64, e += 4) {
        for (int k = 0; k < 4; k++) {
            const int8_t last[4] = {q[60 + k]};
            put_pair(ep, k, e[k]);
            put_pair(ep, 8 + k, e[3]);
            for (int g = 0; g < 3; g++)
                put_quad(p, 8 * k + g, q, 4 * g + k);
            put_quad(p, 8 * k + 3, last, 0);
        }
        memcpy(p + 128, q + 48, 12);
        memset(p + 140, 0, 4);
    }
}

static inline void trits128_unit(int8_t *p, int16_t *ep, const int8_t *q,
                                 const int16_t *e)
{
    for (int k = 0; k < 4; k++) {
        for (int g = 0; g < 4; g++)
            put_quad(p, 8 * k + g, q, 4 * g + k);
        put_quad(p, 8 * k + 4, q, 20 + k);
        put_quad(p, 8 * k + 5, q, 24 + k);
        memset(p + 32 * k + 24, 0, 8);
        memcpy(p + 32 * k + 24, q + 120 + 2 * k, 2);
        put_quad(p, 32 + k, q, 16 + k);
        put_pair(ep, k, e[k]);
        put_pair(ep, 8 + k, e[4]);
    }
    memcpy(p + 144, q + 112, 8);
    memset(p + 152, 0, 8);
    put_pair(ep, 4, e[5]);
    put_pair(ep, 5, e[6]);
    put_pair(ep, 6, e[7]);
    put_pair(ep, 7, 0);
    put_pair(ep, 12, e[7]);
    put_pair(ep, 13, e[7]);
    put_pair(ep, 14, 0);
    put_pair(ep, 15, 0);
}

static inline void trits256_unit(int8_t *p, int16_t *ep, const int8_t *q,
                                 const int16_t *e)
{
    memset(p + 160, 0, 160);
    memset(ep + 32, 0, 32 * sizeof *ep);
    for (int g = 0; g < 8; g++) {
        put_pair(ep, g, e[g]);
        put_pair(ep, 8 + g, e[8 + g / 4]);
        put_quad(p, 32 + g, q, 32 + g);
        for (int k = 0; k < 4; k++)
            put_quad(p, 8 * k + g, q, 4 * g + k);
    }
    for (int j = 0; j < 4; j++) {
        put_pair(ep, 16 + j, e[10 + j]);
        put_pair(ep, 24 + j, e[14]);
        put_quad(p, 72 + j, q, 56 + j);
        put_quad(p, 40 + 8 * j + 4, q, 60 + j);
        for (int k = 0; k < 4; k++)
            put_quad(p, 40 + 8 * k + j, q, 40 + 4 * j + k);
    }
    put_pair(ep, 20, e[15]);
}

/* One unit's codes and factors as the packed kernels load them. */
static inline void act_store_unit(const struct kq_act *a, int64_t t, int64_t c,
                                  int64_t width, const int16_t *e)
{
    int8_t *p = a->p + t * kq_p_step(a->order, a->n) + kq_p_step(a->order, c);
    int16_t *ep = a->ep + t * kq_ep_step(a->order, a->n) + kq_ep_step(a->order, c);
    const int8_t *q = a->q + t * a->n + c;

    switch (a->order) {
    case KQ_BITS:
        for (int64_t j = 0; j < width / 8; j++)
            for (int k = 0; k < 8; k++)
                p[j + k * (width / 8)] = q[8 * j + k];
        memcpy(ep, e, (size_t)(width / KQ_GROUP) * sizeof *e);
        return;
    case KQ_PLANES:
        planes_unit(p, ep, q, e);
        return;
    case KQ_TRITS64:
        trits64_unit(p, ep, q, e, (int)width / 64);
        return;
    case KQ_TRITS128:
        trits128_unit(p, ep, q, e);
        return;
    default:
        trits256_unit(p, ep, q, e);
    }
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

/* Groups [g, g + n) of token t; gives their factors. The four values of quad u of the first
 * are those at x + 4 * quad[u], and so on. */
typedef void act_groups(const struct kq_act *a, int64_t t, int64_t g, int64_t n,
                        const float *x, const uint8_t *quad, const struct act_scale *by,
                        int16_t *e);

/* A row of any order but KQ_FLAT, a unit at a time. The groups' function is a constant
 * in each caller, which becomes a part of it. */
static inline void act_place_row(const struct kq_act *a, int64_t t, const float *x,
                                 const struct act_scale *by, act_groups *groups)
{
    const int64_t unit = act_unit(a->order);
    int16_t e[ACT_UNIT / KQ_GROUP] = {0};
    uint8_t quad[ACT_QUADS];

    act_unit_quads(quad, a->order);
    for (int64_t c = 0; c < a->n; c += unit) {
        int64_t width = a->n - c < unit ? a->n - c : unit;
        groups(a, t, c / KQ_GROUP, width / KQ_GROUP, x + c, quad, by, e);
        act_store_unit(a, t, c, width, e);
    }
}

#endif
