/*
 * attention.c - causal grouped attention over a cache of F16, Q8_0 or Q4_0.
 *
 * What a token sees is cut into segments: the sinks that lie before its window, then the
 * pieces of ATTN_CHUNK positions that start at multiples of ATTN_CHUNK. In a segment
 *     score[p] = q . k[p],  m = max(scale * score),  w[p] = exp(scale * score[p] - m),
 *     s = sum of w (LANES of 16),  o = sum of w[p] * v[p] in the order of positions
 * and the segments are joined in order: with n = max(m, m'),
 *     o = o * exp(m - n) + o' * exp(m' - n),  s = s * exp(m - n) + s' * exp(m' - n)
 * The result is o / s (the online softmax of Milakov and Gimelshein, 2018, in pieces whose
 * edges depend on positions alone). Each query row sees the same operations in the same
 * order however the batch was cut and whoever computed the segments, so prompts in one
 * batch, in pieces or token by token give the same bits at any number of threads.
 *
 * One item of work is a block of tokens for the heads that share a key: a key or value is
 * read once for all of them. A single token with few heads is cut by segments too.
 */
#include "backend/cpu/attn_int.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    ATTN_CHUNK = 256,   /* positions of a segment: part of the definition of the bits */
    ATTN_ROWS = 32,     /* most query rows of an item */
    ATTN_VALUES = 8192, /* most values of its query rows */
    TILE_VALUES = 16384, /* of keys or values decoded at a time */
    DIRECT_ROWS = 4, /* up to so many rows, decoding first costs more than it saves */
    MAX_HEAD_DIM = 2048,
    MIN_ITEMS = 4, /* per thread; fewer: cut by segments */
    PART_HEAD = 2, /* floats before the values of a part: m and s */
};

_Static_assert(4 * (ATTN_ROWS * ATTN_CHUNK + 2 * ATTN_VALUES + TILE_VALUES +
                    ATTN_VALUES / KV_BLOCK) +
                       TILE_VALUES + 2 * ATTN_VALUES <=
                   CPU_SCRATCH,
               "an item's buffers must fit the scratch");

static int64_t rows_of(int64_t head_dim)
{
    return min_i64(ATTN_ROWS, ATTN_VALUES / head_dim);
}

/* Floats of the parts of one token that sees max_ctx positions: an edge more on either
 * side, and the sinks. */
static uint64_t parts_count(const struct attn_limits *l)
{
    return (uint64_t)(l->max_ctx / ATTN_CHUNK + 3) * (uint64_t)l->n_heads *
           (uint64_t)(l->head_dim + PART_HEAD);
}

uint64_t backend_reserve_bytes(const struct backend *be,
                               const struct attn_limits *limits)
{
    return sizeof *be + (uint64_t)be->n_threads * CPU_SCRATCH +
           parts_count(limits) * sizeof(float);
}

enum b2_status backend_reserve(struct backend *be, const struct attn_limits *limits,
                               struct b2_err *err)
{
    uint64_t n;
    float *parts;

    if (limits->n_heads < 1 || limits->max_ctx < 1 || limits->head_dim < 1 ||
        limits->head_dim > MAX_HEAD_DIM)
        return err_set(err, B2_EARG,
                       "attention of %lld heads of %lld values over %lld positions: "
                       "not possible",
                       (long long)limits->n_heads, (long long)limits->head_dim,
                       (long long)limits->max_ctx);
    n = parts_count(limits);
    if (n <= be->n_parts)
        return B2_OK;
    parts = mem_aligned(CPU_ALIGN, (size_t)n, sizeof *parts);
    if (!parts)
        return err_set(err, B2_ENOMEM,
                       "attention scratch for %lld positions: out of memory",
                       (long long)limits->max_ctx);
    mem_free(be->parts);
    be->parts = parts;
    be->n_parts = n;
    return B2_OK;
}

struct attn_job {
    struct backend *be;
    float *out;
    const float *q;
    const struct kv_layer *kv;
    const struct attn_args *a;
    int64_t n_tokens;
    int64_t group;              /* heads that share a key */
    int64_t heads, head_blocks; /* of them in an item; items for all of them */
    int64_t tokens, token_blocks;
    int64_t first_chunk, n_segments; /* of all tokens */
    bool split;                      /* by segments */
};

/* Tokens [t0, t1) of heads [h0, h0 + n_heads), which share kv_head. Row r is token t0 +
 * r / n_heads of head h0 + r % n_heads. */
struct attn_item {
    const struct attn_job *j;
    int64_t kv_head, h0, n_heads, t0, t1, rows;
    bool have_codes; /* codes holds the present queries */
    float *score;    /* [rows][ATTN_CHUNK] */
    float *part;     /* [rows][head_dim] */
    float *query;    /* [rows][head_dim] */
    float *tile;     /* F32 keys or values */
    int8_t *code;    /* widened 4-bit codes */
    struct kv_query codes;
    float max[ATTN_ROWS], sum[ATTN_ROWS];
};

/* Positions [begin, end) that some token of an item sees in a segment. */
struct segment {
    int64_t begin, end;
    bool sinks;
};

static int64_t first_visible(const struct attn_args *a, int64_t pos)
{
    return a->window > 0 ? max_i64(0, pos - a->window + 1) : 0;
}

/* What the token at pos sees of segment i: 0 is the sinks, the others are chunks. */
static struct segment segment_of(const struct attn_job *j, int64_t i, int64_t pos)
{
    int64_t lo = first_visible(j->a, pos),
            chunk = (j->first_chunk + i - 1) * ATTN_CHUNK;

    if (i == 0)
        return (struct segment){0, min_i64(j->a->sinks, lo), true};
    return (struct segment){max_i64(chunk, lo), min_i64(chunk + ATTN_CHUNK, pos + 1),
                            false};
}

/* What the tokens of an item see of it together. */
static struct segment item_segment(const struct attn_item *it, int64_t i)
{
    int64_t pos0 = it->j->a->pos0;
    struct segment s = segment_of(it->j, i, pos0 + it->t1 - 1);

    s.begin = segment_of(it->j, i, pos0 + it->t0).begin;
    return s;
}

static int64_t item_pos(const struct attn_item *it, int64_t r)
{
    return it->j->a->pos0 + it->t0 + r / it->n_heads;
}

/* Fills the item's queries, those for the sinks or the others. */
static void load_queries(struct attn_item *it, const float *q)
{
    const struct attn_args *a = it->j->a;

    for (int64_t t = it->t0; t < it->t1; t++)
        memcpy(it->query + (t - it->t0) * it->n_heads * a->head_dim,
               q + (t * a->n_heads + it->h0) * a->head_dim,
               (size_t)(it->n_heads * a->head_dim) * sizeof *q);
    it->have_codes = false;
}

/* 4-bit rows as 8-bit ones in the item's scratch; others as they are. */
static struct kv_rows as_bytes(const struct attn_item *it, struct kv_rows rows)
{
    if (it->j->kv->type == DT_Q4_0) {
        it->j->be->k.attn.widen_q4(it->code, &rows);
        rows.row = (const uint8_t *)it->code;
        rows.row_bytes = rows.dim;
    }
    return rows;
}

static void decode_rows(const struct attn_item *it, const struct kv_rows *rows)
{
    const struct kernels *k = &it->j->be->k;

    if (it->j->kv->type == DT_F16)
        k->f32_from_f16(it->tile, rows->row, rows->n * rows->dim);
    else
        k->attn.get_q8(it->tile, rows);
}

/* At most a tile of rows of the item's head from pos on, before end. */
static struct kv_rows rows_at(const struct attn_item *it, bool values, int64_t pos,
                              int64_t end)
{
    const struct attn_job *j = it->j;
    struct kv_rows rows = cpu_kv_rows(j->kv, values, it->kv_head, j->a->head_dim, pos);

    rows.n = min_i64(min_i64(rows.n, end - pos), TILE_VALUES / j->a->head_dim);
    return rows;
}

static void score_rows(struct attn_item *it, float *y, const struct kv_rows *rows)
{
    const struct kernels *k = &it->j->be->k;
    const struct kf_mat q = {it->query, it->rows, rows->dim};
    const struct kf_mat keys = {it->tile, rows->n, rows->dim};
    bool half = it->j->kv->type == DT_F16;

    if (it->j->be->exact || (half && it->rows > DIRECT_ROWS)) {
        decode_rows(it, rows);
        k->fdot(y, ATTN_CHUNK, &keys, &q, rows->dim);
    } else if (half) {
        k->attn.score_f16(y, ATTN_CHUNK, rows, &q);
    } else {
        for (int64_t r = 0; r < it->rows && !it->have_codes; r++)
            k->attn.query(&it->codes, r, it->query + r * rows->dim);
        it->have_codes = true;
        k->attn.score_q8(y, ATTN_CHUNK, rows, &it->codes);
    }
}

static void segment_scores(struct attn_item *it, const struct segment *s)
{
    struct kv_rows rows;

    for (int64_t p = s->begin; p < s->end; p += rows.n) {
        rows = as_bytes(it, rows_at(it, false, p, s->end));
        score_rows(it, it->score + (p - s->begin), &rows);
    }
}

/* Turns the n scores at p into weights. */
static void soft(struct attn_item *it, int64_t r, float *p, int64_t n)
{
    const struct kernels *k = &it->j->be->k;
    const struct attn_args *a = it->j->a;

    if (!(a->softcap > 0.0f)) {
        it->sum[r] = k->softmax(p, n, a->scale, &it->max[r]);
        return;
    }
    k->scale(p, n, a->scale);
    k->softcap(p, n, a->softcap);
    it->sum[r] = k->softmax(p, n, 1.0f, &it->max[r]);
}

/* Adds the values of decoded rows from position p on to the rows that see them. */
static void mix_tile(const struct attn_item *it, int64_t i, const struct segment *s,
                     int64_t p, const struct kv_rows *rows)
{
    for (int64_t r = 0; r < it->rows; r++) {
        struct segment own = segment_of(it->j, i, item_pos(it, r));
        int64_t begin = max_i64(p, own.begin), end = min_i64(p + rows->n, own.end);
        if (begin < end)
            it->j->be->k.weighted_sum(it->part + r * rows->dim,
                                      it->score + r * ATTN_CHUNK + (begin - s->begin),
                                      it->tile + (begin - p) * rows->dim, rows->dim,
                                      end - begin, rows->dim);
    }
}

static void segment_values(const struct attn_item *it, int64_t i,
                           const struct segment *s)
{
    const struct kernels_attn *k = &it->j->be->k.attn;
    struct kv_rows rows;

    for (int64_t p = s->begin; p < s->end; p += rows.n) {
        const float *w = it->score + (p - s->begin);
        rows = as_bytes(it, rows_at(it, true, p, s->end));
        if (it->rows > DIRECT_ROWS || it->t1 - it->t0 > 1) {
            decode_rows(it, &rows);
            mix_tile(it, i, s, p, &rows);
        } else if (it->j->kv->type == DT_F16) {
            k->mix_f16(it->part, w, ATTN_CHUNK, it->rows, &rows);
        } else {
            k->mix_q8(it->part, w, ATTN_CHUNK, it->rows, &rows);
        }
    }
}

/* Segment i alone into part, max and sum; a row that sees nothing of it has sum 0. */
static void run_segment(struct attn_item *it, int64_t i)
{
    const struct attn_job *j = it->j;
    const struct segment s = item_segment(it, i);

    if (s.begin >= s.end) {
        memset(it->sum, 0, sizeof it->sum);
        return;
    }
    segment_scores(it, &s);
    for (int64_t r = 0; r < it->rows; r++) {
        struct segment own = segment_of(j, i, item_pos(it, r));
        it->sum[r] = 0.0f;
        if (own.begin < own.end)
            soft(it, r, it->score + r * ATTN_CHUNK + (own.begin - s.begin),
                 own.end - own.begin);
    }
    memset(it->part, 0, (size_t)(it->rows * j->a->head_dim) * sizeof *it->part);
    segment_values(it, i, &s);
}

/* Joins the part (m, s, o) to what came before it: (acc[0], acc[1], out). */
static void join(const struct kernels *k, float *out, float acc[PART_HEAD], float m,
                 float s, const float *o, int64_t n)
{
    if (s == 0.0f)
        return;
    if (acc[1] == 0.0f) {
        memcpy(out, o, (size_t)n * sizeof *out);
        acc[0] = m;
        acc[1] = s;
        return;
    }
    float max = acc[0] > m ? acc[0] : m, by[2] = {acc[0] - max, m - max};
    k->exp(by, by, 2);
    k->scale(out, n, by[0]);
    k->weighted_sum(out, &by[1], o, n, 1, n);
    acc[1] = acc[1] * by[0] + s * by[1];
    acc[0] = max;
}

static void divide(float *out, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] /= by;
}

static float *row_out(const struct attn_item *it, int64_t r)
{
    const struct attn_args *a = it->j->a;

    return it->j->out +
           ((it->t0 + r / it->n_heads) * a->n_heads + it->h0 + r % it->n_heads) *
               a->head_dim;
}

/* The part of row (token, head) in segment i: m, s, values. */
static float *part_at(const struct attn_job *j, int64_t i, int64_t row)
{
    return j->be->parts +
           (i * j->n_tokens * j->a->n_heads + row) * (j->a->head_dim + PART_HEAD);
}

/* Segment i of an item into the parts of the backend. */
static void store_segment(struct attn_item *it, int64_t i)
{
    int64_t hd = it->j->a->head_dim;

    run_segment(it, i);
    for (int64_t r = 0; r < it->rows; r++) {
        float *p = part_at(it->j, i, (row_out(it, r) - it->j->out) / hd);
        p[0] = it->max[r];
        p[1] = it->sum[r];
        memcpy(p + PART_HEAD, it->part + r * hd, (size_t)hd * sizeof *p);
    }
}

/* All segments of an item, joined one by one. */
static void run_item(struct attn_item *it)
{
    const struct attn_job *j = it->j;
    int64_t hd = j->a->head_dim;
    float acc[ATTN_ROWS][PART_HEAD] = {{0}};

    for (int64_t i = 0; i < j->n_segments; i++) {
        if (i == 1 && j->a->q_sinks)
            load_queries(it, j->q);
        run_segment(it, i);
        for (int64_t r = 0; r < it->rows; r++)
            join(&j->be->k, row_out(it, r), acc[r], it->max[r], it->sum[r],
                 it->part + r * hd, hd);
    }
    for (int64_t r = 0; r < it->rows; r++)
        divide(row_out(it, r), acc[r][1], hd);
}

/* Item i of a job with the scratch of a thread. */
static struct attn_item make_item(const struct attn_job *j, int64_t i, int thread)
{
    const struct attn_args *a = j->a;
    float *p = cpu_scratch(j->be, thread);
    int64_t block = i % j->head_blocks, rest = i / j->head_blocks;
    struct attn_item it = {.j = j, .kv_head = rest % a->n_kv_heads};

    it.h0 = it.kv_head * j->group + block * j->heads;
    it.n_heads = min_i64(j->heads, j->group - block * j->heads);
    it.t0 = rest / a->n_kv_heads * j->tokens;
    it.t1 = min_i64(it.t0 + j->tokens, j->n_tokens);
    it.rows = (it.t1 - it.t0) * it.n_heads;
    it.score = p;
    it.part = it.score + ATTN_ROWS * ATTN_CHUNK;
    it.query = it.part + ATTN_VALUES;
    it.tile = it.query + ATTN_VALUES;
    it.codes.scale = it.tile + TILE_VALUES;
    it.code = (int8_t *)(it.codes.scale + ATTN_VALUES / KV_BLOCK);
    it.codes.code = (int16_t *)(void *)(it.code + TILE_VALUES);
    it.codes.rows = it.rows;
    it.codes.dim = a->head_dim;
    return it;
}

static void attn_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct attn_job *j = ctx;

    for (int64_t i = begin; i < end; i++) {
        int64_t segment = j->split ? i % j->n_segments : 0;
        struct attn_item it = make_item(j, j->split ? i / j->n_segments : i, thread);
        load_queries(&it, segment == 0 && j->a->q_sinks ? j->a->q_sinks : j->q);
        if (j->split)
            store_segment(&it, segment);
        else
            run_item(&it);
    }
}

static void join_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct attn_job *j = ctx;
    int64_t hd = j->a->head_dim;

    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        float acc[PART_HEAD] = {0}, *out = j->out + row * hd;
        for (int64_t i = 0; i < j->n_segments; i++) {
            const float *p = part_at(j, i, row);
            join(&j->be->k, out, acc, p[0], p[1], p + PART_HEAD, hd);
        }
        divide(out, acc[1], hd);
    }
}

void backend_attention(struct backend *be, float *out, const float *q,
                       const struct kv_layer *kv, int64_t n_tokens,
                       const struct attn_args *a)
{
    int64_t max_rows = rows_of(a->head_dim);
    struct attn_job j = {be, out, q, kv, a, .n_tokens = n_tokens};

    assert(a->head_dim <= MAX_HEAD_DIM && a->sinks <= ATTN_CHUNK);
    j.group = a->n_heads / a->n_kv_heads;
    j.heads = min_i64(j.group, max_rows);
    j.head_blocks = (j.group + j.heads - 1) / j.heads;
    j.tokens = max_rows / j.heads;
    j.token_blocks = (n_tokens + j.tokens - 1) / j.tokens;
    j.first_chunk = first_visible(a, a->pos0) / ATTN_CHUNK;
    j.n_segments = (a->pos0 + n_tokens - 1) / ATTN_CHUNK - j.first_chunk + 2;

    int64_t n = j.head_blocks * a->n_kv_heads * j.token_blocks;
    uint64_t parts = (uint64_t)(j.n_segments * n_tokens * a->n_heads) *
                     (uint64_t)(a->head_dim + PART_HEAD);
    j.split = n < (int64_t)be->n_threads * MIN_ITEMS && be->n_threads > 1 &&
              j.n_segments > 2 && parts <= be->n_parts;
    cpu_run(be, attn_part, &j, j.split ? n * j.n_segments : n, 1);
    if (j.split)
        cpu_run(be, join_part, &j, n_tokens * a->n_heads, 1);
}
