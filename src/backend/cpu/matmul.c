/*
 * matmul.c - matrix products over the kernels: which rows, in which order, by whom.
 *
 * Work is cut into tiles of rows, for one token small ones that threads take several of at
 * a time. Where the type has a kernel for it, the packed rows meet the tokens as they are.
 * Else, for one token a tile's rows are unpacked a few at a time into L1 and multiplied at
 * once; for many tokens the tile is unpacked once and meets all
 * tokens, in blocks small enough for L1. Every element is one dot product of the kernel
 * contract, so none of these sizes changes a bit. Padded weights are multiplied in 8 bits
 * as they are stored, by an activation with zeros behind its columns.
 */
#include "backend/cpu/cpu_int.h"
#include "base/pool.h"
#include "kernel/sets.h"

#include <assert.h>
#include <string.h>

enum {
    MAX_JOBS = 8,       /* weights in one join of threads */
    TILE_ROWS_VEC = 32, /* most rows of a piece, one token; multiples of ROWS_STEP */
    TILE_BYTES_VEC = 24 * 1024, /* of such a piece: one or two microseconds */
    ROWS_STEP = 16,             /* rows that packed kernels take together, at most */
    TILE_ROWS_MAT = 64,         /* rows of a piece, many tokens */
    TILE_ROWS_TALL = 128,       /* the same, of a matrix that has TALL or more */
    TILE_ROWS_FEW = 256, /* the same, up to FEW_TOKENS, whose layout costs as much */
    FEW_TOKENS = 8,
    TALL = 2048,
    TILES_AT_ONCE = 8,     /* one token: a stream that is worth prefetching */
    VEC_BYTES = 24 * 1024, /* unpacked rows at a time, one token: within L1 */
    MAT_BYTES =
        480 * 1024, /* the same, many tokens: more rows share the tokens' layout */
    ACT_BYTES = 20 * 1024, /* activations that a tile meets at a time: within L1 */
    QUANT_ROWS = 16,       /* rows that qdot takes together */
    FLOAT_ROWS = 4,        /* rows that fdot takes together */
    FLOAT_TOKENS = 6,      /* a multiple of those that fdot takes together */
};

struct matmul_job {
    const struct weight *w;
    float *y;
    int64_t y_step; /* from token to token: w->rows, or those of the whole table */
    const struct act_form *f;
    int64_t first_tile; /* index of its first tile among all tiles of the call */
    int64_t tile_rows;
};

struct matmul_ctx {
    struct backend *be;
    int64_t n_tokens;
    int n_jobs;
    struct matmul_job job[MAX_JOBS];
};

static bool is_quantised(const struct backend *be, const struct weight *w)
{
    return !be->exact && kernel_is_quant(w->type);
}

/* How many rows of row_bytes each fit budget: a multiple of least, at least that many
 * while the scratch holds them, at most max_rows. */
static int64_t rows_that_fit(int64_t row_bytes, int64_t least, int64_t budget,
                             int64_t max_rows)
{
    int64_t rows = budget / row_bytes / least * least;

    rows = min_i64(max_i64(rows, least), CPU_SCRATCH / row_bytes);
    return max_i64(1, min_i64(rows, max_rows));
}

/* Tokens that a tile meets at a time, a multiple of step. */
static int64_t tokens_that_fit(int64_t row_bytes, int64_t step)
{
    return max_i64(step, ACT_BYTES / row_bytes / step * step);
}

/* Rows [begin, end) of one weight in 8 bits. */
static void quant_rows(const struct matmul_ctx *c, const struct matmul_job *j,
                       int64_t begin, int64_t end, int thread)
{
    const struct kernels *k = &c->be->k;
    const struct weight *w = j->w;
    int64_t n = j->f->q.n, T = c->n_tokens;
    int64_t stored = weight_stored(w), groups = stored / KQ_GROUP;
    int64_t row_bytes = stored + 8 * groups;
    int64_t step = rows_that_fit(row_bytes, QUANT_ROWS, T == 1 ? VEC_BYTES : MAT_BYTES,
                                 end - begin);
    float *scale = cpu_scratch(c->be, thread), *min = scale + step * groups;
    int8_t *code = (int8_t *)(min + step * groups);
    struct kq_mat m = {code,
                       scale,
                       kernel_has_min(w->type) ? min : NULL,
                       0,
                       stored,
                       groups,
                       kernel_block(w->type),
                       kernel_low(w->type),
                       kernel_top(w->type)};

    if (w->sets) { /* pieces of rows are whole sets */
        k->sets[w->form](j->y + begin, j->y_step,
                         w->sets + (uint64_t)(begin / KSET_ROWS) *
                                       kset_bytes((enum kset_form)w->form,
                                                  kernel_block(w->type), stored),
                         end - begin, kernel_block(w->type), &j->f->q);
        return;
    }
    if (n == stored && T <= k->packed_tokens[w->type]) {
        k->packed[w->type](j->y + begin, j->y_step,
                           w->data + (uint64_t)begin * w->row_bytes, w->row_bytes,
                           end - begin, &j->f->q);
        return;
    }
    for (int64_t r = begin; r < end; r += step) {
        m.rows = min_i64(step, end - r);
        for (int64_t i = 0; i < m.rows; i++) {
            k->unpack[w->type](code + i * stored, scale + i * groups, min + i * groups,
                               w->data + (uint64_t)(r + i) * w->row_bytes, stored);
            kernel_place(j->f->q.order, code + i * stored, stored);
        }
        k->qdot(j->y + r, j->y_step, &m, &j->f->q);
    }
}

/* A row of F32 is used where it lies if a float may lie there. */
static bool in_place(const struct weight *w)
{
    return w->type == DT_F32 && (uintptr_t)w->data % sizeof(float) == 0 &&
           w->row_bytes % sizeof(float) == 0;
}

/* Rows [begin, end) of one weight in F32. */
static void float_rows(const struct matmul_ctx *c, const struct matmul_job *j,
                       int64_t begin, int64_t end, int thread)
{
    const struct weight *w = j->w;
    int64_t n = w->cols, stored = weight_stored(w), T = c->n_tokens;
    int64_t row_bytes = 4 * stored;
    int64_t step = rows_that_fit(row_bytes, FLOAT_ROWS, T == 1 ? VEC_BYTES : MAT_BYTES,
                                 end - begin);
    int64_t block = tokens_that_fit(row_bytes, FLOAT_TOKENS);
    float *buf = cpu_scratch(c->be, thread);

    for (int64_t r = begin; r < end; r += step) {
        struct kf_mat m = {buf, min_i64(step, end - r), stored};
        const uint8_t *src = w->data + (uint64_t)r * w->row_bytes;
        if (in_place(w)) {
            m.v = (const float *)(const void *)src;
            m.step = (int64_t)(w->row_bytes / sizeof(float));
        } else {
            for (int64_t i = 0; i < m.rows; i++)
                cpu_decode_row(c->be, w->type, buf + i * stored,
                               src + (uint64_t)i * w->row_bytes, stored);
        }
        for (int64_t t = 0; t < T; t += block) {
            struct kf_mat x = {j->f->x + t * n, min_i64(block, T - t), n};
            c->be->k.fdot(j->y + t * j->y_step + r, j->y_step, &m, &x, n);
        }
    }
}

/* One scale for the whole matrix comes last, so that it costs nothing per column and
 * packed rows need not know it. */
static void scale_rows(const struct matmul_ctx *c, const struct matmul_job *j,
                       int64_t begin, int64_t end)
{
    for (int64_t t = 0; t < c->n_tokens; t++)
        c->be->k.scale(j->y + t * j->y_step + begin, end - begin, j->w->scale);
}

static void matmul_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct matmul_ctx *c = ctx;

    for (int64_t tile = begin, next = end; tile < end; tile = next, next = end) {
        int i = c->n_jobs - 1;
        for (; c->job[i].first_tile > tile; i--)
            next = min_i64(end, c->job[i].first_tile);
        const struct matmul_job *j = &c->job[i];
        int64_t r0 = (tile - j->first_tile) * j->tile_rows;
        int64_t r1 = min_i64(r0 + (next - tile) * j->tile_rows, j->w->rows);
        if (is_quantised(c->be, j->w))
            quant_rows(c, j, r0, r1, thread);
        else
            float_rows(c, j, r0, r1, thread);
        if (dtype_info(j->w->type)->flags & DTF_APART)
            scale_rows(c, j, r0, r1);
    }
}

/* A join of threads takes weights that one form of the activation serves, plain and
 * turned: it keeps one rotation, and the 8-bit codes of one order each. */
struct forms_used {
    const struct rotation *rot;
    int order[2];     /* of the plain and the turned form; -1: none yet */
    int64_t width[2]; /* of the 8-bit codes */
};

static bool fits(const struct backend *be, struct forms_used *u, const struct weight *w)
{
    int *order = &u->order[w->rot != NULL];
    int64_t *width = &u->width[w->rot != NULL], n = cpu_q_width(w->type, w->cols);

    if (w->rot && u->rot && w->rot != u->rot)
        return false;
    if (is_quantised(be, w)) {
        if (*order >= 0 && (*order != (int)kernel_order(w->type) || *width != n))
            return false;
        *order = (int)kernel_order(w->type);
        *width = n;
    }
    u->rot = w->rot ? w->rot : u->rot;
    return true;
}

static int64_t tile_rows(const struct weight *w, int64_t n_tokens)
{
    if (n_tokens > FEW_TOKENS)
        return w->rows < TALL ? TILE_ROWS_MAT : TILE_ROWS_TALL;
    if (n_tokens > 1)
        return w->rows < TALL ? TILE_ROWS_TALL : TILE_ROWS_FEW;
    int64_t step = w->sets ? KSET_ROWS : ROWS_STEP;
    int64_t bytes = w->sets
                        ? (int64_t)kset_bytes((enum kset_form)w->form,
                                              kernel_block(w->type), weight_stored(w))
                        : ROWS_STEP * (int64_t)w->row_bytes;

    return max_i64(step, min_i64(TILE_BYTES_VEC / bytes * step, TILE_ROWS_VEC));
}

/* Weights of one type each; y_step 0: each y has the rows of its weight. */
static void matmul_plain(struct backend *be, float *const *y,
                         const struct weight *const *w, int n, int64_t y_step,
                         struct act *a)
{
    for (int i = 0; i < n;) {
        struct matmul_ctx c = {.be = be, .n_tokens = a->n_tokens};
        struct forms_used used = {.order = {-1, -1}};
        int64_t n_tiles = 0;
        for (; i < n && c.n_jobs < MAX_JOBS && fits(be, &used, w[i]); i++) {
            assert(w[i]->cols == a->width && weight_stored(w[i]) <= CPU_MAX_WIDTH);
            struct matmul_job *j = &c.job[c.n_jobs++];
            j->w = w[i];
            j->y = y[i];
            j->y_step = y_step ? y_step : w[i]->rows;
            j->f = is_quantised(be, w[i]) ? cpu_act_form_q(be, a, w[i]->rot, w[i]->type)
                                          : cpu_act_form(be, a, w[i]->rot);
            j->first_tile = n_tiles;
            j->tile_rows = tile_rows(w[i], a->n_tokens);
            n_tiles += (w[i]->rows + j->tile_rows - 1) / j->tile_rows;
        }
        pool_run_long(be->pool, matmul_part, &c, n_tiles, 1,
                      a->n_tokens == 1 ? TILES_AT_ONCE : 1);
    }
}

_Static_assert(TIERS_MAX_HOT * sizeof(float) <= CPU_SCRATCH, "room for hot rows");

struct merge_job {
    const struct backend *be;
    const struct weight_tiers *t;
    float *y;
};

/* Results of hot rows, then of rare ones, to the order of the table. No rare one moves
 * backwards, so that only the hot ones need to be kept aside. */
static void merge_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct merge_job *j = ctx;
    const int64_t n_hot = j->t->hot.rows, rows = n_hot + j->t->rare.rows;
    float *hot = cpu_scratch(j->be, thread);

    for (int64_t t = begin; t < end; t++) {
        float *y = j->y + t * rows;
        int64_t next = 0; /* row of the table */
        memcpy(hot, y, (size_t)n_hot * sizeof *y);
        for (int64_t i = 0; i < n_hot; i++) {
            const int64_t at = j->t->row[i];
            memmove(y + next, y + n_hot + next - i, (size_t)(at - next) * sizeof *y);
            y[at] = hot[i];
            next = at + 1;
        }
    } /* the rare rows behind the last hot one lie where they belong */
}

static void matmul_tiers(struct backend *be, float *y, const struct weight *w,
                         struct act *a)
{
    const struct weight_tiers *t = w->tiers;
    const struct weight *const parts[] = {&t->hot, &t->rare};
    float *const to[] = {y, y + t->hot.rows};
    struct merge_job j = {be, t, y};

    assert(t->hot.rows <= TIERS_MAX_HOT && t->hot.rows + t->rare.rows == w->rows);
    matmul_plain(be, to, parts, 2, w->rows, a);
    cpu_run(be, merge_tokens, &j, a->n_tokens, 1);
}

void backend_matmul_n(struct backend *be, float *const *y,
                      const struct weight *const *w, int n, struct act *a)
{
    for (int i = 0, first = 0; i <= n; i++) {
        if (i < n && !w[i]->tiers)
            continue;
        matmul_plain(be, y + first, w + first, i - first, 0, a);
        if (i < n)
            matmul_tiers(be, y[i], w[i], a);
        first = i + 1;
    }
}

void backend_matmul(struct backend *be, float *y, const struct weight *w, struct act *a)
{
    backend_matmul_n(be, &y, &w, 1, a);
}
