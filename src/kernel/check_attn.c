/*
 * check_attn.c - cache rows, scores and weighted values.
 *
 * Against the scalar reference bit for bit; the reference against the plain definitions
 * in double.
 */
#include "kernel/check.h"
#include "tensor/f16.h"

#include <math.h>
#include <string.h>

static const int64_t dims[] = {32, 64, 96, 128, 256};
static const int64_t half_dims[] = {1, 8, 15, 16, 24, 43, 64, 80, 100, 128};
static const int64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 16, 17, 65, 130};
static const int64_t some_rows[] = {1, 2, 3, 4, 5, 7};

/* Room for queries; nothing in it yet. */
static struct kv_query make_query(struct kcheck *t, int64_t rows, int64_t dim)
{
    return (struct kv_query){kcheck_buffer(t, (size_t)(rows * dim) * 2),
                             kcheck_buffer(t, (size_t)(rows * dim / KV_BLOCK) * 4),
                             rows, dim};
}

/* One row into the cache by both tables, from every kind of input. */
static void check_put(struct kcheck *t)
{
    for (size_t d = 0; d < countof(dims); d++) {
        for (int i = 0; i < 3 * KC_N_FILLS; i++) {
            int64_t n = dims[d], blocks = n / KV_BLOCK, step = 3;
            size_t n_scales = (size_t)((blocks - 1) * step + 1);
            float *x = kcheck_buffer(t, (size_t)n * sizeof *x);
            uint8_t *a = kcheck_buffer(t, (size_t)n), *b = kcheck_buffer(t, (size_t)n);
            uint16_t *sa = kcheck_buffer(t, n_scales * 2);
            uint16_t *sb = kcheck_buffer(t, n_scales * 2);
            int kind = i / KC_N_FILLS;
            kcheck_floats(t, x, n, (enum kcheck_fill)(i % KC_N_FILLS));
            memset(a, 0, (size_t)n);
            memset(b, 0, (size_t)n);
            memset(sa, 0, n_scales * 2);
            memset(sb, 0, n_scales * 2);
            if (kind == 0) {
                t->k.attn.put_q8(a, sa, step, x, n);
                t->ref.attn.put_q8(b, sb, step, x, n);
            } else if (kind == 1) {
                t->k.attn.put_q4(a, sa, step, x, n);
                t->ref.attn.put_q4(b, sb, step, x, n);
            } else {
                struct kv_query qa = make_query(t, 1, n), qb = make_query(t, 1, n);
                t->k.attn.query(&qa, 0, x);
                t->ref.attn.query(&qb, 0, x);
                if (kcheck_diff(qa.scale, qb.scale, blocks) >= 0 ||
                    memcmp(qa.code, qb.code, (size_t)n * 2) != 0)
                    kcheck_fail(t, "kv query", "dim %lld, fill %d", (long long)n,
                                i % KC_N_FILLS);
            }
            if (memcmp(a, b, (size_t)n) != 0 || memcmp(sa, sb, n_scales * 2) != 0)
                kcheck_fail(t, kind == 1 ? "kv put_q4" : "kv put_q8",
                            "dim %lld, fill %d, kind %d", (long long)n, i % KC_N_FILLS,
                            kind);
            kcheck_reset(t);
        }
    }
}

/* Random rows of bits per value (4, 8 or 16), their scales finite. */
static struct kv_rows random_rows(struct kcheck *t, int64_t n, int64_t dim, int bits)
{
    int64_t bytes = dim * bits / 8, blocks = dim / KV_BLOCK, step = n + 1;
    size_t n_scales = bits == 16 || n == 0 ? 0 : (size_t)((blocks - 1) * step + n);
    uint8_t *row = kcheck_buffer(t, (size_t)(n * bytes));
    uint16_t *scale = kcheck_buffer(t, n_scales * sizeof *scale);

    kcheck_bytes(t, row, (size_t)(n * bytes));
    for (int64_t i = 0; bits == 8 && i < n * bytes; i++)
        if (row[i] == 0x80) /* -128 is no code */
            row[i] = 0x81;
    for (int64_t i = 0; bits == 16 && i < n * dim; i++) {
        uint16_t h = f16_from_f32((float)rng_normal(&t->rng));
        memcpy(row + 2 * i, &h, sizeof h);
    }
    for (size_t i = 0; i < n_scales; i++)
        scale[i] = f16_from_f32((float)rng_normal(&t->rng) * 0.1f);
    return (struct kv_rows){row, bytes, bits == 16 ? NULL : scale, step, n, dim};
}

static void check_get(struct kcheck *t)
{
    for (size_t d = 0; d < countof(dims); d++) {
        for (size_t c = 0; c < countof(counts); c++) {
            int64_t n = counts[c], all = n * dims[d];
            struct kv_rows four = random_rows(t, n, dims[d], 4);
            struct kv_rows eight = random_rows(t, n, dims[d], 8);
            int8_t *a = kcheck_buffer(t, (size_t)all),
                   *b = kcheck_buffer(t, (size_t)all);
            float *x = kcheck_buffer(t, (size_t)all * sizeof *x);
            float *y = kcheck_buffer(t, (size_t)all * sizeof *y);
            t->k.attn.widen_q4(a, &four);
            t->ref.attn.widen_q4(b, &four);
            if (memcmp(a, b, (size_t)all) != 0)
                kcheck_fail(t, "kv widen_q4", "dim %lld, n %lld", (long long)dims[d],
                            (long long)n);
            t->k.attn.get_q8(x, &eight);
            t->ref.attn.get_q8(y, &eight);
            if (kcheck_diff(x, y, all) >= 0)
                kcheck_fail(t, "kv get_q8", "dim %lld, n %lld", (long long)dims[d],
                            (long long)n);
            kcheck_reset(t);
        }
    }
}

/* Scores by both tables; places between the rows of results are not written. */
static void score_case(struct kcheck *t, int64_t n, int64_t dim, int64_t rows, int bits)
{
    int64_t step = n + 2, all = (rows - 1) * step + n;
    struct kv_rows k = random_rows(t, n, dim, bits);
    float *y = kcheck_buffer(t, (size_t)all * sizeof *y);
    float *y_ref = kcheck_buffer(t, (size_t)all * sizeof *y);
    float *x = kcheck_buffer(t, (size_t)(rows * dim) * sizeof *x);

    kcheck_floats(t, x, rows * dim, KC_NORMAL);
    memset(y, 0, (size_t)all * sizeof *y);
    memset(y_ref, 0, (size_t)all * sizeof *y);
    if (bits == 16) {
        struct kf_mat q = {x, rows, dim};
        t->k.attn.score_f16(y, step, &k, &q);
        t->ref.attn.score_f16(y_ref, step, &k, &q);
    } else {
        struct kv_query q = make_query(t, rows, dim);
        for (int64_t r = 0; r < rows; r++)
            t->ref.attn.query(&q, r, x + r * dim);
        t->k.attn.score_q8(y, step, &k, &q);
        t->ref.attn.score_q8(y_ref, step, &k, &q);
    }
    int64_t at = kcheck_diff(y, y_ref, all);
    if (at >= 0)
        kcheck_fail(t, bits == 16 ? "kv score_f16" : "kv score_q8",
                    "dim %lld, n %lld, %lld rows at %lld: %a not %a", (long long)dim,
                    (long long)n, (long long)rows, (long long)at, (double)y[at],
                    (double)y_ref[at]);
    kcheck_reset(t);
}

static void mix_case(struct kcheck *t, int64_t n, int64_t dim, int64_t rows, int bits)
{
    int64_t step = n + 2, all = rows * dim;
    struct kv_rows v = random_rows(t, n, dim, bits);
    float *w = kcheck_buffer(t, (size_t)((rows - 1) * step + n) * sizeof *w);
    float *y = kcheck_buffer(t, (size_t)all * sizeof *y);
    float *y_ref = kcheck_buffer(t, (size_t)all * sizeof *y);

    kcheck_floats(t, w, (rows - 1) * step + n, KC_NORMAL);
    kcheck_floats(t, y, all, KC_NORMAL);
    memcpy(y_ref, y, (size_t)all * sizeof *y);
    if (bits == 16) {
        t->k.attn.mix_f16(y, w, step, rows, &v);
        t->ref.attn.mix_f16(y_ref, w, step, rows, &v);
    } else {
        t->k.attn.mix_q8(y, w, step, rows, &v);
        t->ref.attn.mix_q8(y_ref, w, step, rows, &v);
    }
    int64_t at = kcheck_diff(y, y_ref, all);
    if (at >= 0)
        kcheck_fail(t, bits == 16 ? "kv mix_f16" : "kv mix_q8",
                    "dim %lld, n %lld, %lld rows at %lld: %a not %a", (long long)dim,
                    (long long)n, (long long)rows, (long long)at, (double)y[at],
                    (double)y_ref[at]);
    kcheck_reset(t);
}

static void check_products(struct kcheck *t)
{
    for (size_t c = 0; c < countof(counts); c++) {
        for (size_t r = 0; r < countof(some_rows); r++) {
            for (size_t d = 0; d < countof(dims); d++) {
                score_case(t, counts[c], dims[d], some_rows[r], 8);
                mix_case(t, counts[c], dims[d], some_rows[r], 8);
            }
            for (size_t d = 0; d < countof(half_dims); d++) {
                score_case(t, counts[c], half_dims[d], some_rows[r], 16);
                mix_case(t, counts[c], half_dims[d], some_rows[r], 16);
            }
        }
    }
}

/* The reference codes are within half a step of what they stand for, and the scores
 * within rounding of the decoded product. */
static void check_values(struct kcheck *t)
{
    enum { DIM = 64, BLOCKS = DIM / KV_BLOCK };
    float x[DIM], q[DIM], back[DIM], qscale[BLOCKS], y;
    uint8_t code[DIM];
    int8_t wide[DIM];
    int16_t qcode[DIM];
    uint16_t scale[BLOCKS];
    struct kv_query query = {qcode, qscale, 1, DIM};

    for (int bits = 4; bits <= 8; bits += 4) {
        struct kv_rows row = {code, DIM * bits / 8, scale, 1, 1, DIM};
        kcheck_floats(t, x, DIM, KC_NORMAL);
        kcheck_floats(t, q, DIM, KC_NORMAL);
        if (bits == 8) {
            t->ref.attn.put_q8(code, scale, 1, x, DIM);
        } else {
            t->ref.attn.put_q4(code, scale, 1, x, DIM);
            t->ref.attn.widen_q4(wide, &row);
            row.row = (const uint8_t *)wide;
            row.row_bytes = DIM;
        }
        t->ref.attn.get_q8(back, &row);
        t->ref.attn.query(&query, 0, q);
        t->ref.attn.score_q8(&y, 1, &row, &query);
        double want = 0, size = 0;
        for (int i = 0; i < DIM; i++) {
            double step = fabs((double)f32_from_f16(scale[i / KV_BLOCK]));
            /* The code 8 is missing in 4 bits: the far end is cut by up to a step. */
            double bound = bits == 8 ? 0.6 : 1.02;
            if (fabs((double)back[i] - (double)x[i]) > bound * step)
                kcheck_fail(t, "kv codes", "%d bits: %g for %g", bits, (double)back[i],
                            (double)x[i]);
            double v = (double)back[i] * (double)qscale[i / KV_BLOCK] * qcode[i];
            want += v;
            size += fabs(v);
        }
        if (!(fabs((double)y - want) <= 1e-6 * size))
            kcheck_fail(t, "kv score value", "%g not %g", (double)y, want);
    }
}

const struct kcheck_item kcheck_attn[] = {
    {"kv put", check_put},       {"kv get", check_get}, {"kv products", check_products},
    {"kv values", check_values}, {NULL, NULL},
};
