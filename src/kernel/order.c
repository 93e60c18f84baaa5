/*
 * order.c - the orders in which activations meet packed ternary weights (kernel.h).
 *
 * An order moves quads, four neighbouring columns, within its block. Compiled for the
 * baseline processor.
 */
#include "kernel/kernel.h"

#include <string.h>

enum { MAX_BLOCK = 256 };

enum kq_order kernel_order(enum dtype t)
{
    switch (t) {
    case DT_TQ2_0:
    case DT_I2_S:
        return KQ_PLANES;
    case DT_B2_T64:
        return KQ_TRITS64;
    case DT_PTQ1_0:
        return KQ_TRITS128;
    case DT_TQ1_0:
        return KQ_TRITS256;
    case DT_Q1_0:
        return KQ_BITS;
    default:
        return KQ_FLAT;
    }
}

int kq_order_block(enum kq_order o)
{
    switch (o) {
    case KQ_TRITS256:
        return 256;
    case KQ_PLANES:
    case KQ_TRITS128:
    case KQ_BITS:
        return 128;
    case KQ_TRITS64:
        return 64;
    default:
        return KQ_STEP;
    }
}

/* Whole units of 128 columns: what is missing of the last one counts too. */
static int64_t units_of(int64_t n)
{
    return (n + KQ_PLANE - 1) / KQ_PLANE;
}

int64_t kq_p_step(enum kq_order o, int64_t n)
{
    if (o == KQ_TRITS64)
        return 160 * units_of(n);
    return o == KQ_TRITS128 || o == KQ_TRITS256 ? n / 4 * 5 : n;
}

int64_t kq_ep_step(enum kq_order o, int64_t n)
{
    if (o == KQ_BITS)
        return n / 16;
    if (o == KQ_TRITS64)
        return 32 * units_of(n);
    return o == KQ_TRITS128 || o == KQ_TRITS256 ? n / 4 : n / 8;
}

/* Quad u of a rectangle of 4 planes, `row` quads each, read plane by plane in each quad of
 * a plane: groups of 16 are what stands at one place in all four. */
static int across(int u, int row)
{
    return u % 4 * row + u / 4;
}

int kq_quad(enum kq_order o, int u)
{
    switch (o) {
    case KQ_PLANES:
        return across(u, 8);
    case KQ_TRITS64: /* bytes 0-11, their fifth digits and the last byte */
        return u < 12 ? across(u, 3) : u;
    case KQ_TRITS128: /* bytes 0-15 and their fifth digit, bytes 16-23, the rest */
        return u < 16 ? across(u, 4) : u < 20 ? u : u < 28 ? 20 + across(u - 20, 2) : u;
    case KQ_TRITS256: /* bytes 0-31 and their fifth digit, bytes 32-47, the rest */
        return u < 32 ? across(u, 8) : u < 40 ? u : u < 56 ? 40 + across(u - 40, 4) : u;
    default:
        return u;
    }
}

/* The quads of a rectangle, see across(): one loop for each width, so that the compiler
 * knows it. */
static inline void turn(uint32_t *to, const uint32_t *from, int row)
{
    for (int g = 0; g < row; g++)
        for (int k = 0; k < 4; k++)
            to[4 * g + k] = from[row * k + g];
}

/* The usual size is one that the compiler knows. */
static inline void copy_block(void *to, const void *from, int block)
{
    if (block == MAX_BLOCK / 2)
        memcpy(to, from, MAX_BLOCK / 2);
    else
        memcpy(to, from, (size_t)block);
}

void kernel_place(enum kq_order o, int8_t *code, int64_t n)
{
    int block = kq_order_block(o);
    uint32_t was[MAX_BLOCK / 4], now[MAX_BLOCK / 4];

    if (o == KQ_FLAT || o == KQ_BITS)
        return;
    for (int64_t i = 0; i + block <= n; i += block) {
        copy_block(was, code + i, block);
        memcpy(now, was, sizeof now);
        if (o == KQ_PLANES) {
            turn(now, was, 8);
        } else if (o == KQ_TRITS64) {
            turn(now, was, 3);
        } else if (o == KQ_TRITS128) {
            turn(now, was, 4);
            turn(now + 20, was + 20, 2);
        } else {
            turn(now, was, 8);
            turn(now + 40, was + 40, 4);
        }
        copy_block(code + i, now, block);
    }
}
