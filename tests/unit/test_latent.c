/*
 * test_latent.c - the quantiser in the loop: starts where the student is, writes what it
 * computes with, and hands gradients to the right numbers.
 */
#include "compress/latent.h"

#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "tensor/hadamard.h"
#include "tensor/quant.h"
#include "train/blas.h"
#include "unit/unit.h"

#include <math.h>

enum { ROWS = 9, MAX_COLS = 512, MAX = ROWS * MAX_COLS };

static struct blas *blas;
static struct env env; /* the caller alone */
static float scratch[MAX];

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
    if (s->w.rot)
        hadamard_apply(row, s->w.cols, s->rot.block);
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

static void open_kind(struct latent *l, const struct sample *s, struct latent_how how)
{
    struct b2_err err;

    how.teacher = s->teacher;
    how.seed = 3;
    if (latent_new(l, &s->w, &how, NULL, &err))
        fail_msg("%s", err.msg);
}

static void open_latent(struct latent *l, const struct sample *s, struct pool *pool)
{
    const struct latent_how how = {.teacher = s->teacher, .seed = 3};
    struct b2_err err;

    if (latent_new(l, &s->w, &how, pool, &err))
        fail_msg("%s", err.msg);
}

/* The codes and scales are the student's, byte for byte. */
static void test_start(void **state)
{
    struct pool *pool = pool_new(2);
    const struct env e = {.pool = pool};

    (void)state;
    for (size_t k = 0; k < countof(kinds); k++) {
        struct sample s;
        struct latent l;
        uint8_t packed[sizeof s.bytes] = {0};
        float is[MAX], want[MAX];
        make_sample(&s, k, k);
        open_latent(&l, &s, pool);
        latent_pack(&l, &e, packed, scratch);
        ROW_CHECK(k, memcmp(packed, s.bytes, ROWS * s.w.row_bytes) == 0);
        ROW_CHECK(k, latent_changed(&l, packed, s.bytes) == 0);
        latent_weights(&l, &e, is, 0);
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
        latent_pack(&l, &env, packed, scratch);
        latent_weights(&l, &env, is, 0);
        decode(&s, packed, want);
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * s.w.cols) * sizeof *is) == 0);
        ROW_CHECK(k, latent_changed(&l, packed, s.bytes) > 100);
        ROW_CHECK(k, latent_changed(&l, packed, packed) == 0);
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
        latent_weights(&l, &env, w, 0);
        for (int64_t i = 0; i < n; i++) {
            c[i] = (float)rng_normal(&r);
            loss += (double)c[i] * (double)w[i];
            len += (double)c[i] * (double)c[i];
        }
        for (int twice = 0; twice < 2; twice++) {
            memcpy(dw, c, sizeof c);
            latent_collect(&l, &env, dw, scratch, 0);
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
        const struct env e = {.pool = pool};
        float w[MAX];
        open_latent(&l[i], &s, pool);
        latent_weights(&l[i], &e, w, 0);
        latent_collect(&l[i], &e, w, scratch, 0);
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
    const struct latent_how how = {.teacher = s.teacher};

    (void)state;
    make_sample(&s, 1, 2);
    quant_ternary_join(DT_B2_T64, s.bytes, zeros, &none, 64);
    open_latent(&l, &s, NULL);
    for (int64_t i = 0; i < 64; i++)
        l.u[i] = 3.0f;
    l.ls[1] = 1e4f; /* exp overflows */
    latent_weights(&l, &env, w, 0);
    for (int i = 0; i < 128; i++)
        ROW_CHECK(i, isfinite(w[i]) && (i >= 64 || w[i] == 0.0f));
    latent_free(&l);

    s.teacher[70] = NAN;
    assert_int_equal(latent_new(&l, &s.w, &how, NULL, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "w: "));
    s.w.type = DT_Q4_0;
    assert_int_equal(latent_new(&l, &s.w, &how, NULL, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "Q4_0"));
}

/* ---- other kinds ---- */

/* Codes rest whatever the scales do, and there is nothing to move them with. */
static void test_scales(void **state)
{
    (void)state;
    for (size_t k = 0; k < countof(kinds); k++) {
        struct sample s;
        struct latent l;
        struct latent_param part[3];
        uint8_t packed[sizeof s.bytes] = {0};
        float is[MAX], want[MAX];
        const struct latent_how how = {.kind = LATENT_SCALES};
        make_sample(&s, k, k);
        open_kind(&l, &s, how);
        ROW_CHECK(k, latent_params(&l, part) == 1 && part[0].part == LATENT_PART_SCALE);
        ROW_CHECK(k, latent_bytes(&s.w, &how) <
                         latent_bytes(&s.w, &(struct latent_how){0}) / 2);
        for (int64_t i = 0; i < ROWS * l.groups; i++)
            l.ls[i] = 0.9f * (float)((int)(i % 3) - 1);
        latent_pack(&l, &env, packed, scratch);
        latent_weights(&l, &env, is, 0);
        decode(&s, packed, want);
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * s.w.cols) * sizeof *is) == 0);
        ROW_CHECK(k, latent_changed(&l, packed, s.bytes) == 0);
        ROW_CHECK(k, memcmp(packed, s.bytes, ROWS * s.w.row_bytes) != 0);
        latent_free(&l);
    }
}

static void move_lora(struct latent *l, uint64_t seed)
{
    struct rng r = rng_make(seed);

    for (int64_t i = 0; i < l->lora.rank * l->rows; i++)
        l->lora.b[i] = (float)(0.4 * rng_normal(&r));
}

/* None at the start; then written as computed, and merged without a bit of difference. */
static void test_lora(void **state)
{
    (void)state;
    for (size_t k = 0; k < countof(kinds); k++) {
        struct sample s;
        struct latent l;
        uint8_t packed[sizeof s.bytes] = {0}, merged[sizeof s.bytes] = {0};
        float is[MAX], want[MAX];
        make_sample(&s, k, k);
        open_kind(&l, &s, (struct latent_how){.kind = LATENT_LORA, .rank = 5});
        latent_pack(&l, &env, packed, scratch);
        ROW_CHECK(k, memcmp(packed, s.bytes, ROWS * s.w.row_bytes) == 0);
        move_lora(&l, k);
        latent_weights(&l, &env, is, 0);
        latent_pack(&l, &env, packed, scratch);
        decode(&s, packed, want);
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * s.w.cols) * sizeof *is) == 0);
        ROW_CHECK(k, latent_changed(&l, packed, s.bytes) > 100);
        latent_merge(&l, &env, scratch);
        latent_weights(&l, &env, want, 0);
        latent_pack(&l, &env, merged, scratch);
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * s.w.cols) * sizeof *is) == 0);
        ROW_CHECK(k, memcmp(packed, merged, sizeof merged) == 0);
        for (int64_t i = 0; i < l.lora.rank * l.rows; i++)
            ROW_CHECK(k, l.lora.b[i] == 0.0f);
        latent_free(&l);
    }
}

/* Straight through: what the factors get is what latents of all kinds get, times the other
 * factor. With the same change in them, both have the same codes. */
static void test_lora_gradient(void **state)
{
    struct sample s;
    struct latent l, all;
    float dw[MAX], same[MAX];
    struct rng r = rng_make(1);

    (void)state;
    make_sample(&s, 0, 0);
    open_kind(&l, &s, (struct latent_how){.kind = LATENT_LORA, .rank = 3});
    open_kind(&all, &s, (struct latent_how){.kind = LATENT_ALL});
    move_lora(&l, 2);
    lora_delta(&env, &l.lora, scratch);
    for (int64_t i = 0; i < ROWS * l.cols; i++) {
        all.u[i] += scratch[i] / all.a0[i / l.codes.group];
        dw[i] = same[i] = (float)rng_normal(&r);
    }
    latent_collect(&all, &env, same, scratch, 0);
    latent_collect(&l, &env, dw, scratch, 0);
    assert_memory_equal(l.gls, all.gls, (size_t)(ROWS * l.groups) * sizeof(float));
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t k = 0; k < 3; k++) {
            double want = 0;
            for (int64_t i = 0; i < l.cols; i++) {
                const int64_t at = row * l.cols + i;
                want += (double)(all.gu[at] / all.a0[at / l.codes.group]) *
                        (double)l.lora.a[k * l.cols + i];
            }
            want *= (double)l.lora.unit;
            ROW_CHECK(row, fabs((double)l.lora.gb[row * 3 + k] - want) <
                               1e-4 * fabs(want) + 1e-5);
        }
    }
    latent_free(&l);
    latent_free(&all);
}

/* The loss sum c w of smooth codes against central differences of the scales and latents.
 * In F32: the exact check of the slope is in test_train_grad.c. */
static void test_soft(void **state)
{
    const float sharp = 5.0f, step = 2e-3f;
    struct sample s;
    struct latent l;
    struct rng r = rng_make(4);
    float c[MAX], dw[MAX], w[2][MAX];

    (void)state;
    make_sample(&s, 1, 0);
    open_kind(&l, &s, (struct latent_how){.kind = LATENT_ALL});
    for (int64_t i = 0; i < ROWS * l.cols; i++)
        c[i] = (float)rng_normal(&r);
    memcpy(dw, c, sizeof dw);
    latent_collect(&l, &env, dw, scratch, sharp);
    for (int64_t i = 0; i < ROWS * l.cols; i += 37) {
        double got = 0;
        for (int side = 0; side < 2; side++) {
            const float was = l.u[i];
            l.u[i] += side ? step : -step;
            latent_weights(&l, &env, w[side], sharp);
            l.u[i] = was;
        }
        got = (double)c[i] * (double)(w[1][i] - w[0][i]) / (2.0 * (double)step);
        ROW_CHECK(i, fabs(got - (double)l.gu[i]) < 2e-3 * fabs(got) + 2e-4);
    }
    /* a log8 scale moves in steps: as it is stored, and with it both sides' latents */
    for (int64_t g = 0; g < ROWS * l.groups; g += 5) {
        double got = 0, slope, sum = 0;
        for (int64_t i = g * l.codes.group; i < (g + 1) * l.codes.group; i++) {
            const double v = (double)l.u[i];
            const double a = tanh((double)sharp * (v - 0.5));
            const double b = tanh((double)sharp * (v + 0.5));
            slope = (double)sharp * (1 - (a * a + b * b) / 2);
            got += (double)c[i] * ((a + b) / 2 - slope * v);
        }
        sum = got * (double)l.a0[g];
        ROW_CHECK(g, fabs(sum - (double)l.gls[g]) < 1e-3 * fabs(sum) + 1e-4);
    }
    /* sharp enough, they are the codes */
    latent_weights(&l, &env, w[0], 0);
    latent_weights(&l, &env, w[1], 1e4f);
    for (int64_t i = 0; i < ROWS * l.cols; i++)
        ROW_CHECK(i, fabsf(w[0][i] - w[1][i]) < 1e-4f);
    latent_free(&l);
}

/* A plain weight starts as the teacher's in its type, is written as it is computed, and
 * its gradient goes straight through. */
static void test_plain(void **state)
{
    static const enum dtype types[] = {DT_Q8_0, DT_F16, DT_BF16, DT_F32};

    (void)state;
    for (size_t k = 0; k < countof(kinds) * countof(types); k++) {
        const enum dtype type = types[k % countof(types)];
        struct sample s;
        struct latent l;
        struct latent_param part[3];
        uint8_t *packed;
        float is[MAX], want[MAX], dw[MAX], row[MAX_COLS];
        make_sample(&s, k / countof(types), k);
        open_kind(&l, &s, (struct latent_how){.kind = LATENT_FREE, .type = type});
        ROW_CHECK(k, latent_params(&l, part) == 1 && part[0].p.n == ROWS * l.stored);
        latent_weights(&l, &env, is, 0);
        for (int64_t i = 0; i < ROWS * l.cols; i++)
            ROW_CHECK(k,
                      fabsf(is[i] - s.teacher[i]) < (type == DT_F32 ? 1e-6f : 5e-3f));
        for (int64_t i = 0; i < ROWS * l.stored; i++)
            l.u[i] *= 1.3f;
        packed = mem_calloc((size_t)latent_packed_bytes(&l), 1);
        latent_weights(&l, &env, is, 0);
        latent_pack(&l, &env, packed, scratch);
        for (int64_t r = 0; r < ROWS; r++) {
            quant_decode_row(type, row,
                             packed + (uint64_t)r * (latent_packed_bytes(&l) / ROWS),
                             l.stored);
            unfold(&s, row);
            memcpy(want + r * l.cols, row, (size_t)l.cols * sizeof *want);
        }
        ROW_CHECK(k, memcmp(is, want, (size_t)(ROWS * l.cols) * sizeof *is) == 0);
        ROW_CHECK(k, latent_changed(&l, packed, packed) == 0);
        memcpy(dw, s.teacher, sizeof dw);
        latent_collect(&l, &env, dw, scratch, 0);
        for (int64_t i = 0; i < l.cols; i++)
            row[i] = l.gu[i] / l.a0[0];
        unfold(&s, row);
        for (int64_t i = 0; i < l.cols; i++)
            ROW_CHECK(k, fabsf(row[i] - s.teacher[i]) < 1e-5f);
        mem_free(packed);
        latent_free(&l);
    }
}

static void test_free_refused(void **state)
{
    static struct sample s;
    struct latent l;
    struct b2_err err;
    struct latent_how how = {
        .kind = LATENT_FREE, .type = DT_Q4_0, .teacher = s.teacher};

    (void)state;
    make_sample(&s, 1, 0);
    assert_int_equal(latent_new(&l, &s.w, &how, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "Q4_0"));
    how.type = DT_Q8_0;
    s.w.cols = 120;
    assert_int_equal(latent_new(&l, &s.w, &how, NULL, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "take F16"));
    s.w.cols = 128;
    s.teacher[5] = INFINITY;
    assert_int_equal(latent_new(&l, &s.w, &how, NULL, &err), B2_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),         cmocka_unit_test(test_spread),
        cmocka_unit_test(test_pack),          cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_edges),
        cmocka_unit_test(test_scales),        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_lora_gradient), cmocka_unit_test(test_soft),
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_free_refused),
    };
    struct b2_err err = {0};

    if (blas_open(&blas, &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    env.blas = blas;

    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    blas_close(blas);
    return rc;
}
