/*
 * test_latent.c - the quantiser in the loop: starts where the student is, writes what it
 * computes with, and hands gradients to the right numbers.
 */
#include "compress/latent.h"

#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "compress/rotate.h"
#include "tensor/quant.h"
#include "unit/unit.h"

#include <math.h>

enum { ROWS = 9, MAX_COLS = 512, MAX = ROWS * MAX_COLS };

static const struct {
    enum dtype type;
    int64_t cols, pad, block; /* block 0: not rotated */
} kinds[] = {
    {DT_B2_T64, 192, 0, 64},   {DT_B2_T64, 128, 0, 0},  {DT_PQ2_0, 256, 0, 256},
    {DT_PTQ1_0, 192, 64, 64},  {DT_TQ2_0, 512, 0, 32},  {DT_TQ1_0, 256, 0, 128},
    {DT_B2_C128, 256, 0, 128}, {DT_B2_C64, 192, 0, 64}, {DT_B2_C128, 192, 64, 64},
};

struct sample {
    struct weight w;
    struct rotation rot;
    float signs[MAX_COLS];
    uint8_t bytes[ROWS * MAX_COLS];
    float teacher[MAX]; /* plain basis */
};

/* A student of random codes and scales, and a teacher near it. */
static void make_sample(struct sample *s, size_t kind, uint64_t seed)
{
    struct rng r = rng_make(seed);
    const enum dtype type = kinds[kind].type;
    const int64_t cols = kinds[kind].cols, stored = cols + kinds[kind].pad;
    uint64_t row_bytes;

    assert_int_equal(dtype_row_bytes(&row_bytes, type, (uint64_t)stored, NULL), B2_OK);
    for (int64_t i = 0; i < cols; i++)
        s->signs[i] = rng_u64(&r) & 1 ? 1.0f : -1.0f;
    s->rot =
        (struct rotation){.width = cols, .block = kinds[kind].block, .signs = s->signs};
    s->w = (struct weight){.name = "w",
                           .type = type,
                           .cols = cols,
                           .rows = ROWS,
                           .pad = kinds[kind].pad,
                           .data = s->bytes,
                           .row_bytes = row_bytes,
                           .rot = kinds[kind].block ? &s->rot : NULL};
    for (int64_t row = 0; row < ROWS; row++) {
        int8_t code[MAX_COLS] = {0};
        float scale[MAX_COLS];
        for (int64_t i = 0; i < cols; i++)
            code[i] = (int8_t)((int)rng_below(&r, 3) - 1);
        for (int64_t i = 0; i < stored; i++) /* as many as are needed, and more */
            scale[i] = 0.02f + 0.1f * (float)rng_f64(&r);
        quant_ternary_join(type, s->bytes + (uint64_t)row * row_bytes, code, scale,
                           stored);
    }
    for (int64_t i = 0; i < ROWS * cols; i++)
        s->teacher[i] = (float)(0.07 * rng_normal(&r));
}

static void unfold(const struct sample *s, float *row)
{
    for (int64_t i = 0; s->w.rot && i < s->w.cols; i += s->rot.block)
        rotate_hadamard(row + i, s->rot.block);
    for (int64_t i = 0; s->w.rot && i < s->w.cols; i++)
        row[i] *= s->signs[i];
}

/* What a reader of bytes computes with, turned back. */
static void decode(const struct sample *s, const uint8_t *bytes, float *w)
{
    float row[MAX_COLS];

    for (int64_t r = 0; r < ROWS; r++) {
        quant_decode_row(s->w.type, row, bytes + (uint64_t)r * s->w.row_bytes,
                         weight_stored(&s->w));
        unfold(s, row);
        memcpy(w + r * s->w.cols, row, (size_t)s->w.cols * sizeof *w);
    }
}

static void open_latent(struct latent *l, const struct sample *s, struct pool *pool)
{
    struct b2_err err;

    if (latent_new(l, &s->w, s->teacher, 3, pool, &err))
        fail_msg("%s", err.msg);
}

/* The codes and scales are the student's, byte for byte. */
static void test_start(void **state)
{
    struct pool *pool = pool_new(2);

    (void)state;
    for (size_t k = 0; k < countof(kinds); k++) {
        struct sample s;
        struct latent l;
        uint8_t packed[sizeof s.bytes] = {0};
        float is[MAX], want[MAX];
        make_sample(&s, k, k);
        open_latent(&l, &s, pool);
        latent_pack(&l, packed, pool);
        ROW_CHECK(k, memcmp(packed, s.bytes, ROWS * s.w.row_bytes) == 0);
        ROW_CHECK(k, latent_changed(&l, s.bytes) == 0);
        latent_weights(&l, is, pool);
        decode(&s, s.bytes, want);
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * s.w.cols) * sizeof *is) == 0);
        latent_free(&l);
    }
    pool_free(pool);
}

/* Latents that the teacher puts elsewhere stand spread over the first third of their
 * bin; others stand where the teacher is. */
static void test_spread(void **state)
{
    struct sample s;
    struct latent l;
    int bins[6] = {0}, n = 0, same = 0;

    (void)state;
    make_sample(&s, 1, 5); /* not rotated: the teacher's basis is the latents' */
    open_latent(&l, &s, NULL);
    for (int64_t i = 0; i < ROWS * l.cols; i++) {
        float a0 = l.a0[i / l.codes.group], t = s.teacher[i] / a0;
        float apart = fabsf(fabsf(l.u[i]) - 0.5f);
        if (l.u[i] == t) {
            same++;
            continue;
        }
        assert_true(apart >= 0.99e-3f && apart < 0.301f);
        bins[(int)(apart / 0.0502f)]++;
        n++;
    }
    assert_true(same > 100 && n > 300);
    for (int i = 0; i < 6; i++)
        ROW_CHECK(i, bins[i] > n / 12 && bins[i] < n / 3);
    latent_free(&l);
}

/* After any moves, the file says what the training computed with. */
static void test_pack(void **state)
{
    (void)state;
    for (size_t k = 0; k < countof(kinds); k++) {
        struct sample s;
        struct latent l;
        struct rng r = rng_make(k);
        uint8_t packed[sizeof s.bytes] = {0};
        float is[MAX], want[MAX];
        make_sample(&s, k, k);
        open_latent(&l, &s, NULL);
        for (int64_t i = 0; i < ROWS * l.stored; i++)
            l.u[i] += (float)(0.4 * rng_normal(&r));
        for (int64_t i = 0; i < ROWS * l.groups; i++)
            l.ls[i] = (float)(0.3 * rng_normal(&r));
        latent_pack(&l, packed, NULL);
        latent_weights(&l, is, NULL);
        decode(&s, packed, want);
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * s.w.cols) * sizeof *is) == 0);
        ROW_CHECK(k, latent_changed(&l, s.bytes) > 100);
        ROW_CHECK(k, latent_changed(&l, packed) == 0);
        latent_free(&l);
    }
}

/* A loss sum c w: turning keeps lengths, so that |du / a0| = |c|; the weight is linear in
 * its scales, so that sum dls = sum c w; and a latent's own gradient is a row of the turned
 * c. Twice the same gradient adds up. */
static void test_gradient(void **state)
{
    (void)state;
    for (size_t k = 0; k < countof(kinds); k++) {
        struct sample s;
        struct latent l;
        struct rng r = rng_make(k);
        float c[MAX], dw[MAX], w[MAX];
        double loss = 0, len = 0, len_u = 0, sum = 0;
        make_sample(&s, k, k);
        open_latent(&l, &s, NULL);
        const int64_t n = ROWS * l.cols;
        latent_weights(&l, w, NULL);
        for (int64_t i = 0; i < n; i++) {
            c[i] = (float)rng_normal(&r);
            loss += (double)c[i] * (double)w[i];
            len += (double)c[i] * (double)c[i];
        }
        for (int twice = 0; twice < 2; twice++) {
            memcpy(dw, c, sizeof c);
            latent_collect(&l, dw, NULL);
        }
        for (int64_t i = 0; i < ROWS * l.stored; i++) {
            double g = (double)l.gu[i] / (double)l.a0[i / l.codes.group];
            len_u += g * g / 4;
        }
        for (int64_t i = 0; i < ROWS * l.groups; i++)
            sum += (double)l.gls[i] / 2;
        ROW_CHECK(k, fabs(len_u - len) < 1e-5 * len);
        ROW_CHECK(k, fabs(sum - loss) < 1e-4 * fabs(loss) + 1e-4);
        memcpy(dw, l.gu, (size_t)l.cols * sizeof *dw); /* row 0, turned back */
        for (int64_t i = 0; i < l.cols; i++)
            dw[i] /= 2.0f * l.a0[i / l.codes.group];
        unfold(&s, dw);
        for (int64_t i = 0; i < l.cols; i++)
            ROW_CHECK(k, fabsf(dw[i] - c[i]) < 1e-4f);
        latent_free(&l);
    }
}

static void test_threads(void **state)
{
    struct sample s;
    struct latent l[2];

    (void)state;
    make_sample(&s, 0, 1);
    for (int i = 0; i < 2; i++) {
        struct pool *pool = pool_new(i + 1);
        float w[MAX];
        open_latent(&l[i], &s, pool);
        latent_weights(&l[i], w, pool);
        latent_collect(&l[i], w, pool);
        pool_free(pool);
    }
    assert_memory_equal(l[0].u, l[1].u, (size_t)(ROWS * l[0].stored) * sizeof(float));
    assert_memory_equal(l[0].gu, l[1].gu, (size_t)(ROWS * l[0].stored) * sizeof(float));
    assert_memory_equal(l[0].gls, l[1].gls,
                        (size_t)(ROWS * l[0].groups) * sizeof(float));
    latent_free(&l[0]);
    latent_free(&l[1]);
}

/* Zero groups stay zero, scales beyond the type stay where they were. */
static void test_edges(void **state)
{
    static struct sample s;
    struct latent l;
    struct b2_err err;
    float w[MAX];
    int8_t zeros[64] = {0};
    const float none = 0.0f;

    (void)state;
    make_sample(&s, 1, 2);
    quant_ternary_join(DT_B2_T64, s.bytes, zeros, &none, 64);
    open_latent(&l, &s, NULL);
    for (int64_t i = 0; i < 64; i++)
        l.u[i] = 3.0f;
    l.ls[1] = 1e4f; /* exp overflows */
    latent_weights(&l, w, NULL);
    for (int i = 0; i < 128; i++)
        ROW_CHECK(i, isfinite(w[i]) && (i >= 64 || w[i] == 0.0f));
    latent_free(&l);

    s.teacher[70] = NAN;
    assert_int_equal(latent_new(&l, &s.w, s.teacher, 0, NULL, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "w: "));
    s.w.type = DT_Q4_0;
    assert_int_equal(latent_new(&l, &s.w, s.teacher, 0, NULL, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "Q4_0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),   cmocka_unit_test(test_spread),
        cmocka_unit_test(test_pack),    cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
