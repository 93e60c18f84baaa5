/*
 * mm_bf16.c - products of numbers rounded to BF16.
 *
 * Operands are rounded once, by all threads, into room that is the same for every size:
 * blocks of at most DNN_BLOCK rows, columns and terms of the sums. Then the block's tiles
 * are multiplied by oneDNN, one thread each.
 */
#include "base/pool.h"
#include "kernel/kernel.h"
#include "train/dnn.h"
#include "train/mm.h"
#include "train/mm_cut.h"

static const struct mm_tiling tiling = {512, 576, 64, 96, 16, 48};

enum {
    ROWS = 32,
    LINE = 32
}; /* rows of a piece of rounding; numbers of a cache line */

/* Rows as they lie in memory, transposed or not. */
struct operand {
    struct mat from;
    int64_t rows, cols;
    uint16_t *to;
    int64_t ld;
};

struct job {
    const struct env *e;
    real *c;
    int64_t ldc;
    struct mm_size size; /* of the block */
    struct operand a, b;
    struct mm_how how;
    struct mm_cut cut;
};

/* Of the matrix m its part [rows, cols] from (r, c) on. */
static struct operand part(const struct mat *m, int64_t r, int64_t c, int64_t rows,
                           int64_t cols, uint16_t *room)
{
    struct operand o = {*m, m->t ? cols : rows, m->t ? rows : cols, room, 0};

    o.from.p += m->t ? c * m->ld + r : r * m->ld + c;
    o.ld = (int64_t)align_up_u64((uint64_t)o.cols, LINE);
    return o;
}

/* Rows of a, then of b. */
static void round_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const bool first = i < j->a.rows;
        const struct operand *o = first ? &j->a : &j->b;
        const int64_t r = first ? i : i - j->a.rows;
        j->e->k->bf16_from_f32(o->to + r * o->ld, o->from.p + r * o->from.ld, o->cols);
    }
}

static void run_tiles(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t r = i / j->cut.across * j->cut.m,
                      c = i % j->cut.across * j->cut.n;
        const struct blas_size size = {min_i64(j->cut.m, j->size.m - r),
                                       min_i64(j->cut.n, j->size.n - c), j->size.k};
        const struct operand *a = &j->a, *b = &j->b;
        dnn_gemm(
            j->e->dnn, j->c + r * j->ldc + c, j->ldc, size,
            (struct dnn_mat){a->to + (a->from.t ? r : r * a->ld), a->ld, a->from.t},
            (struct dnn_mat){b->to + (b->from.t ? c * b->ld : c), b->ld, b->from.t},
            j->how.alpha, j->how.add);
    }
}

/* The block at (m, n) of the product, its sums from k on. */
static void run_block(const struct job *whole, int64_t m, int64_t n, int64_t k,
                      int64_t n_k)
{
    const struct dnn *dnn = whole->e->dnn;
    const int64_t n_m = min_i64(DNN_BLOCK, whole->size.m - m);
    const int64_t n_n = min_i64(DNN_BLOCK, whole->size.n - n);
    struct job j = *whole;

    j.c += m * j.ldc + n;
    j.size = (struct mm_size){n_m, n_n, n_k};
    j.a = part(&whole->a.from, m, k, n_m, n_k, dnn_room(dnn, 0));
    j.b = part(&whole->b.from, k, n, n_k, n_n, dnn_room(dnn, 1));
    j.how.add = whole->how.add || k > 0;
    j.cut = mm_cut(n_m, n_n, &tiling);
    pool_run(j.e->pool, round_rows, &j, j.a.rows + j.b.rows, ROWS);
    pool_run(j.e->pool, run_tiles, &j, j.cut.all, 1);
}

void mm_bf16(const struct env *e, real *c, int64_t ldc, struct mm_size size,
             struct mat a, struct mat b, struct mm_how how)
{
    const struct job whole = {.e = e,
                              .c = c,
                              .ldc = ldc,
                              .size = size,
                              .a = {.from = a},
                              .b = {.from = b},
                              .how = how};
    const int64_t parts = max_i64(mm_tiles(size.k, DNN_BLOCK), 1);
    const int64_t n_k = (int64_t)align_up_u64((uint64_t)mm_tiles(size.k, parts), LINE);

    if (!e->dnn) {
        mm(e, c, ldc, size, a, b, how);
        return;
    }
    for (int64_t i = 0; i < parts; i++)
        for (int64_t m = 0; m < size.m; m += DNN_BLOCK)
            for (int64_t n = 0; n < size.n; n += DNN_BLOCK)
                run_block(&whole, m, n, i * n_k, min_i64(n_k, size.k - i * n_k));
}
