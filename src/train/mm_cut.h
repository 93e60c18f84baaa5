/*
 * mm_cut.h - tiles of a product: by its sizes alone.
 */
#ifndef TRAIN_MM_CUT_H
#define TRAIN_MM_CUT_H

#include "base/util.h"

/* Largest and smallest tile; sizes between them are multiples of unit. Small ones show
 * what packing operands costs. */
struct mm_tiling {
    int64_t max_m, max_n, min_m, min_n, unit_m, unit_n;
};

struct mm_cut {
    int64_t m, n;        /* of a tile */
    int64_t across, all; /* tiles side by side; in all */
};

enum { WANTED_TILES = 16 }; /* enough for many threads */

static inline int64_t mm_tiles(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

static inline int64_t mm_half(int64_t n, int64_t unit)
{
    return mm_tiles((n + 1) / 2, unit) * unit;
}

/* Of c [m, n], none of them 0. */
static inline struct mm_cut mm_cut(int64_t m, int64_t n, const struct mm_tiling *t)
{
    struct mm_cut c = {.m = t->max_m, .n = t->max_n};

    while (mm_tiles(m, c.m) * mm_tiles(n, c.n) < WANTED_TILES) {
        const int64_t now_m = min_i64(c.m, m), now_n = min_i64(c.n, n);
        if (now_m <= t->min_m && now_n <= t->min_n)
            break;
        if (now_n <= t->min_n || (now_m > t->min_m && now_m > now_n))
            c.m = mm_half(now_m, t->unit_m);
        else
            c.n = mm_half(now_n, t->unit_n);
    }
    c.across = mm_tiles(n, c.n);
    c.all = mm_tiles(m, c.m) * c.across;
    return c;
}

#endif
