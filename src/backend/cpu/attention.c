/*
 * attention.c - causal grouped attention over an F16 cache.
 *
 * One item is a head and up to CPU_ATTN_TOKENS query tokens. Two passes over the cache:
 *     score[p] = fdot(q, k[p])             p from the first visible position
 *     w[p] = exp(scale * score[p] - max), sum in LANES of 16 from the first position
 *     out = (sum over p in position order of w[p] * v[p]) / sum
 * Each query row sees the same operations in the same order however the batch was cut,
 * so prompts in one batch, in pieces or token by token give the same bits.
 */
#include "backend/cpu/cpu_int.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { TILE_BYTES = 64 * 1024 }; /* K or V rows decoded to F32 at a time */

static uint64_t scores_count(const struct backend *be, int64_t max_tokens,
                             int64_t max_ctx)
{
    return (uint64_t)be->n_threads * (uint64_t)min_i64(max_tokens, CPU_ATTN_TOKENS) *
           (uint64_t)max_ctx;
}

uint64_t backend_reserve_bytes(const struct backend *be, int64_t max_tokens,
                               int64_t n_heads, int64_t max_ctx)
{
    (void)n_heads;
    return sizeof *be + (uint64_t)be->n_threads * CPU_SCRATCH +
           scores_count(be, max_tokens, max_ctx) * sizeof(float);
}

enum b2_status backend_reserve(struct backend *be, int64_t max_tokens, int64_t n_heads,
                               int64_t max_ctx, struct b2_err *err)
{
    float *scores;

    if (max_tokens < 1 || n_heads < 1 || max_ctx < 1 || max_ctx > INT32_MAX)
        return err_set(err, B2_EARG, "attention over %lld positions: not possible",
                       (long long)max_ctx);
    max_tokens = max_i64(min_i64(max_tokens, CPU_ATTN_TOKENS), be->scores_tokens);
    max_ctx = max_i64(max_ctx, be->scores_ctx);
    if (max_tokens == be->scores_tokens && max_ctx == be->scores_ctx)
        return B2_OK;
    scores =
        mem_aligned(CPU_ALIGN, scores_count(be, max_tokens, max_ctx), sizeof *scores);
    if (!scores)
        return err_set(err, B2_ENOMEM,
                       "attention scratch for %lld positions: out of memory",
                       (long long)max_ctx);
    mem_free(be->scores);
    be->scores = scores;
    be->scores_tokens = max_tokens;
    be->scores_ctx = max_ctx;
    return B2_OK;
}

struct attn_job {
    struct backend *be;
    float *out;
    const float *q;
    const struct kv_layer *kv;
    int64_t n_tokens, n_blocks, block;
    const struct attn_args *a;
};

/* One item: tokens [t0, t1) of head h, which see positions from lo on. */
struct attn_item {
    const struct attn_job *j;
    int64_t h, t0, t1, lo;
    float *scores; /* row of token t: scores + (t - t0) * scores_ctx, from lo on */
    float *tile;   /* F32 rows of K or V */
    int64_t tile_pos;
};

static int64_t first_visible(const struct attn_args *a, int64_t pos)
{
    return a->window > 0 ? max_i64(0, pos - a->window + 1) : 0;
}

static void item_scores(const struct attn_item *it)
{
    const struct attn_job *j = it->j;
    const struct attn_args *a = j->a;
    int64_t hd = a->head_dim, kv_head = it->h / (a->n_heads / a->n_kv_heads);
    const uint16_t *k = j->kv->k + kv_head * j->kv->cap * hd;
    struct kf_mat x = {j->q + (it->t0 * a->n_heads + it->h) * hd, it->t1 - it->t0,
                       a->n_heads * hd};
    int64_t end = a->pos0 + it->t1;

    for (int64_t p = it->lo; p < end; p += it->tile_pos) {
        struct kf_mat m = {it->tile, min_i64(it->tile_pos, end - p), hd};
        j->be->k.f32_from_f16(it->tile, k + p * hd, m.rows * hd);
        j->be->k.fdot(it->scores + (p - it->lo), j->be->scores_ctx, &m, &x, hd);
    }
}

/* Turns the scores of token t into weights; returns their sum. */
static float item_softmax(const struct attn_item *it, int64_t t)
{
    const struct attn_job *j = it->j;
    const struct attn_args *a = j->a;
    int64_t pos = a->pos0 + t, lo = first_visible(a, pos), n = pos - lo + 1;
    float *p = it->scores + (t - it->t0) * j->be->scores_ctx + (lo - it->lo);

    if (!(a->softcap > 0.0f))
        return j->be->k.softmax(p, n, a->scale);
    for (int64_t i = 0; i < n; i++)
        p[i] *= a->scale;
    j->be->k.softcap(p, n, a->softcap);
    return j->be->k.softmax(p, n, 1.0f);
}

/* Adds positions [p, p + n) of V, decoded in the tile, to the output of every token that
 * sees them. */
static void item_add_tile(const struct attn_item *it, int64_t p, int64_t n)
{
    const struct attn_job *j = it->j;
    const struct attn_args *a = j->a;
    int64_t hd = a->head_dim;

    for (int64_t t = it->t0; t < it->t1; t++) {
        int64_t begin = max_i64(p, first_visible(a, a->pos0 + t));
        int64_t end = min_i64(p + n, a->pos0 + t + 1);
        const float *w = it->scores + (t - it->t0) * j->be->scores_ctx - it->lo;
        if (begin < end)
            j->be->k.weighted_sum(j->out + (t * a->n_heads + it->h) * hd, w + begin,
                                  it->tile + (begin - p) * hd, hd, end - begin, hd);
    }
}

static void item_run(const struct attn_item *it)
{
    const struct attn_job *j = it->j;
    const struct attn_args *a = j->a;
    int64_t hd = a->head_dim, kv_head = it->h / (a->n_heads / a->n_kv_heads);
    const uint16_t *v = j->kv->v + kv_head * j->kv->cap * hd;
    int64_t end = a->pos0 + it->t1;
    float sum[CPU_ATTN_TOKENS];

    item_scores(it);
    for (int64_t t = it->t0; t < it->t1; t++) {
        sum[t - it->t0] = item_softmax(it, t);
        memset(j->out + (t * a->n_heads + it->h) * hd, 0, (size_t)hd * sizeof(float));
    }
    for (int64_t p = it->lo; p < end; p += it->tile_pos) {
        int64_t n = min_i64(it->tile_pos, end - p);
        j->be->k.f32_from_f16(it->tile, v + p * hd, n * hd);
        item_add_tile(it, p, n);
    }
    for (int64_t t = it->t0; t < it->t1; t++) {
        float *out = j->out + (t * a->n_heads + it->h) * hd;
        for (int64_t i = 0; i < hd; i++)
            out[i] /= sum[t - it->t0];
    }
}

static void attn_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct attn_job *j = ctx;
    const struct backend *be = j->be;

    for (int64_t i = begin; i < end; i++) {
        int64_t t0 = i % j->n_blocks * j->block;
        struct attn_item it = {
            .j = j,
            .h = i / j->n_blocks,
            .t0 = t0,
            .t1 = min_i64(t0 + j->block, j->n_tokens),
            .lo = first_visible(j->a, j->a->pos0 + t0),
            .scores = be->scores + (int64_t)thread * be->scores_tokens * be->scores_ctx,
            .tile = cpu_scratch(be, thread),
            .tile_pos = TILE_BYTES / 4 / j->a->head_dim,
        };
        item_run(&it);
    }
}

void backend_attention(struct backend *be, float *out, const float *q,
                       const struct kv_layer *kv, int64_t n_tokens,
                       const struct attn_args *args)
{
    int64_t block = min_i64(CPU_ATTN_TOKENS, be->scores_tokens);
    struct attn_job j = {be, out, q, kv, n_tokens, 0, block, args};

    assert(block > 0 && args->pos0 + n_tokens <= be->scores_ctx); /* backend_reserve */
    assert(args->head_dim <= TILE_BYTES / 4);
    j.n_blocks = (n_tokens + block - 1) / block;
    cpu_run(be, attn_part, &j, j.n_blocks * args->n_heads, 1);
}
