/*
 * mm.c - the tiles of a product.
 */
#include "train/mm.h"

#include "base/pool.h"
#include "train/mm_cut.h"

struct job {
    const struct env *e;
    real *c;
    int64_t ldc;
    struct mm_size size;
    struct mat a, b;
    struct mm_how how;
    struct mm_cut cut;
};

static const struct mm_tiling tiling = {512, 512, 64, 64, 1, 1};

static void run_tiles(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t r = i / j->cut.across * j->cut.m, c = i % j->cut.across * j->cut.n;
        struct mm_size size = {min_i64(j->cut.m, j->size.m - r),
                               min_i64(j->cut.n, j->size.n - c), j->size.k};
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
    j.cut = mm_cut(size.m, size.n, &tiling);
    pool_run(e->pool, run_tiles, &j, j.cut.all, 1);
}
