/*
 * mm.c - the tiles of a product.
 */
#include "train/mm.h"

#include "base/pool.h"

struct job {
    const struct env *e;
    real *c;
    int64_t ldc;
    struct mm_size size;
    struct mat a, b;
    struct mm_how how;
    int64_t tile_m, tile_n, across;
};

/* Enough tiles for many threads, none so small that packing its operands shows. */
enum { TILE_M = 512, TILE_N = 512, TILE_MIN = 64, WANTED_TILES = 16 };

static int64_t tiles(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

static void cut(struct job *j)
{
    j->tile_m = TILE_M;
    j->tile_n = TILE_N;
    while (tiles(j->size.m, j->tile_m) * tiles(j->size.n, j->tile_n) < WANTED_TILES) {
        int64_t m = min_i64(j->tile_m, j->size.m), n = min_i64(j->tile_n, j->size.n);
        if (m <= TILE_MIN && n <= TILE_MIN)
            break;
        if (m > n)
            j->tile_m = (m + 1) / 2;
        else
            j->tile_n = (n + 1) / 2;
    }
    j->across = tiles(j->size.n, j->tile_n);
}

static void run_tiles(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t r = i / j->across * j->tile_m, c = i % j->across * j->tile_n;
        struct mm_size size = {min_i64(j->tile_m, j->size.m - r),
                               min_i64(j->tile_n, j->size.n - c), j->size.k};
        struct mat a = j->a, b = j->b;
        a.p += a.t ? r : r * a.ld;
        b.p += b.t ? c * b.ld : c;
        mm_one(j->e, j->c + r * j->ldc + c, j->ldc, size, a, b, j->how);
    }
}

void mm(const struct env *e, real *c, int64_t ldc, struct mm_size size, struct mat a,
        struct mat b, struct mm_how how)
{
    struct job j = {
        .e = e, .c = c, .ldc = ldc, .size = size, .a = a, .b = b, .how = how};

    if (size.m < 1 || size.n < 1)
        return;
    cut(&j);
    pool_run(e->pool, run_tiles, &j, tiles(size.m, j.tile_m) * j.across, 1);
}
