/*
 * test_broken.c - deliberately broken kernels, each of which the harness must catch.
 */
#define _DEFAULT_SOURCE
#include "base/cpu.h"
#include "kernel/variants.h"
#include "kernels/kt.h"
#include "tensor/hadamard.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 10240 + 256 }; /* columns that a check has: check_dot.c */

/* Adds the lanes of an element in another order. */
static void fdot_8_lanes(float *y, int64_t y_step, const struct kf_mat *w,
                         const struct kf_mat *x, int64_t n)
{
    for (int64_t r = 0; r < w->rows; r++) {
        for (int64_t t = 0; t < x->rows; t++) {
            float acc[8] = {0};
            for (int64_t i = 0; i < n; i++)
                acc[i % 8] += w->v[r * w->step + i] * x->v[t * x->step + i];
            y[t * y_step + r] = ((acc[0] + acc[4]) + (acc[2] + acc[6])) +
                                ((acc[1] + acc[5]) + (acc[3] + acc[7]));
        }
    }
}

/* Forgets the last columns. */
static void fdot_short(float *y, int64_t y_step, const struct kf_mat *w,
                       const struct kf_mat *x, int64_t n)
{
    kernel_fdot_c(y, y_step, w, x, n / 8 * 8);
}

/* Reads one float past the end of the weights. */
static void fdot_over_read(float *y, int64_t y_step, const struct kf_mat *w,
                           const struct kf_mat *x, int64_t n)
{
    volatile float over = w->v[w->rows * w->step];

    (void)over;
    kernel_fdot_c(y, y_step, w, x, n);
}

/* Ignores the minimum. */
static void qdot_no_min(float *y, int64_t y_step, const struct kq_mat *w,
                        const struct kq_act *x)
{
    struct kq_mat m = *w;

    m.min = NULL;
    kernel_qdot_c(y, y_step, &m, x);
}

/* Uses the scale of an even group for the odd one. */
static void qdot_wide_groups(float *y, int64_t y_step, const struct kq_mat *w,
                             const struct kq_act *x)
{
    float scale[MOST / KQ_GROUP];
    struct kq_mat m = *w;

    for (int64_t r = 0; r < w->rows; r++) {
        for (int64_t g = 0; g < x->n / KQ_GROUP; g++)
            scale[g] = w->scale[r * w->group_step + g / 2 * 2];
        m.code = w->code + r * w->code_step;
        m.scale = scale;
        m.min = w->min ? w->min + r * w->group_step : NULL;
        m.rows = 1;
        kernel_qdot_c(y + r, y_step, &m, x);
    }
}

/* Swaps the last two tokens' results when there are several. */
static void qdot_swapped(float *y, int64_t y_step, const struct kq_mat *w,
                         const struct kq_act *x)
{
    kernel_qdot_c(y, y_step, w, x);
    if (x->rows > 1) {
        float *a = y + (x->rows - 1) * y_step, *b = y + (x->rows - 2) * y_step;
        float keep = *a;
        *a = *b;
        *b = keep;
    }
}

/* Cuts instead of rounding. */
static void act_quant_cut(const struct kq_act *a, int64_t t, const float *x)
{
    kernel_act_quant_c(a, t, x);
    for (int64_t i = 0; i < a->n; i++) {
        float step = a->d[t] * (float)a->e[(t * a->n + i) / 2];
        if (isfinite(step) && step > 0)
            a->q[t * a->n + i] = (int8_t)(x[i] / step);
    }
}

static void unpack_last_wrong(int8_t *code, float *scale, float *min,
                              const uint8_t *src, int64_t n)
{
    unpack_ptq1_0_c(code, scale, min, src, n);
    if (n)
        code[n - 1] ^= 1;
}

/* Takes index 0, the zero word, for the opposite of 32. */
static void unpack_zero_word(int8_t *code, float *scale, float *min, const uint8_t *src,
                             int64_t n)
{
    unpack_b2_c128_c(code, scale, min, src, n);
    for (int64_t i = 0; i < n; i += 4)
        if (!code[i] && !code[i + 1] && !code[i + 2] && !code[i + 3])
            code[i + 1] = code[i + 2] = code[i + 3] = 1;
}

/* Leaves the codes in the order of columns, where the activation is in another. */
static void packed_not_placed(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    int8_t code[MOST];
    float scale[MOST / KQ_GROUP], min[MOST / KQ_GROUP];

    for (int64_t r = 0; r < rows; r++) {
        struct kq_mat m = {code, scale, NULL, 1, MOST, MOST / KQ_GROUP, 128, 1, 3};
        unpack_ptq1_0_c(code, scale, min, w + (uint64_t)r * row_bytes, x->n);
        kernel_qdot_c(y + r, y_step, &m, x);
    }
}

/* Reads the planes of I2_S from the low bits up, as TQ2_0 has them. */
static void packed_planes_up(float *y, int64_t y_step, const uint8_t *w,
                             uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    int8_t code[MOST], up[MOST];
    float scale[MOST / KQ_GROUP];

    for (int64_t r = 0; r < rows; r++) {
        struct kq_mat m = {up, scale, NULL, 1, MOST, MOST / KQ_GROUP, 128, 1, 3};
        unpack_i2_s_c(code, scale, NULL, w + (uint64_t)r * row_bytes, x->n);
        for (int64_t i = 0; i < x->n; i++)
            up[i] = code[i - i % 128 + 96 - i % 128 / 32 * 32 + i % 32];
        kernel_place(x->order, up, x->n);
        kernel_qdot_c(y + r, y_step, &m, x);
    }
}

static void exp_one_ulp(float *y, const float *x, int64_t n)
{
    kernel_exp_c(y, x, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = nextafterf(y[i], INFINITY);
}

/* Butterflies in falling order of distance: right to rounding, other bits. */
static void fwht_other_order(float *x, int64_t n, int64_t block)
{
    float scale = 1.0f / sqrtf((float)block);

    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
    for (int64_t len = hadamard_pow2(block) / 2; len; len /= 2) {
        for (int64_t i = 0; i < n; i++) {
            if (i / len % 2)
                continue;
            float u = x[i], v = x[i + len];
            x[i] = u + v;
            x[i + len] = u - v;
        }
    }
    hadamard_rest(x, n, block);
}

/* Takes the scale of the first block for all. */
static void score_first_scale(float *y, int64_t y_step, const struct kv_rows *k,
                              const struct kv_query *q)
{
    struct kv_rows same = *k;

    same.scale_step = 0;
    kernel_kv_score_q8_c(y, y_step, &same, q);
}

/* Forgets the last position. */
static void mix_short(float *out, const float *w, int64_t w_step, int64_t rows,
                      const struct kv_rows *v)
{
    struct kv_rows less = *v;

    less.n = v->n > 0 ? v->n - 1 : 0;
    kernel_kv_mix_f16_c(out, w, w_step, rows, &less);
}

/* Lets the code -128 through for a value a little under its block's least. */
static void put_unclamped(uint8_t *code, uint16_t *scale, int64_t scale_step,
                          const float *x, int64_t dim)
{
    kernel_kv_put_q8_c(code, scale, scale_step, x, dim);
    for (int64_t i = 0; i < dim; i++)
        if (code[i] == 0x81)
            code[i] = 0x80;
}

static void test_broken_kernels_are_caught(void **state)
{
    (void)state;
    for (int i = 0; i < 15; i++) {
        struct kcheck t = kt_make(0, true);
        switch (i) {
        case 0:
            t.k.fdot = fdot_8_lanes;
            break;
        case 1:
            t.k.fdot = fdot_short;
            break;
        case 2:
            t.k.qdot = qdot_no_min;
            break;
        case 3:
            t.k.qdot = qdot_wide_groups;
            break;
        case 4:
            t.k.qdot = qdot_swapped;
            break;
        case 5:
            t.k.act_quant = act_quant_cut;
            break;
        case 6:
            t.k.unpack[DT_PTQ1_0] = unpack_last_wrong;
            break;
        case 7:
            t.k.exp = exp_one_ulp;
            break;
        case 8:
            t.k.attn.score_q8 = score_first_scale;
            break;
        case 9:
            t.k.attn.mix_f16 = mix_short;
            break;
        case 10:
            t.k.attn.put_q8 = put_unclamped;
            break;
        case 11:
            t.k.packed[DT_PTQ1_0] = packed_not_placed;
            break;
        case 12:
            t.k.unpack[DT_B2_C128] = unpack_zero_word;
            break;
        case 13:
            t.k.packed[DT_I2_S] = packed_planes_up;
            break;
        default:
            t.k.fwht = fwht_other_order;
            break;
        }
        if (kcheck_run(&t) == 0)
            fail_msg("broken kernel %d passed", i);
        kt_free(&t);
    }
}

static struct kernels whole; /* of a level; what the kernels below break */

/* Wrong in the last row of the last of many tokens. */
static void qdot_last_wrong(float *y, int64_t y_step, const struct kq_mat *w,
                            const struct kq_act *x)
{
    whole.qdot(y, y_step, w, x);
    if (x->rows > 16 && w->rows > 0)
        y[(x->rows - 1) * y_step + w->rows - 1] += 1.0f;
}

/* Takes the minimum of the row before for the last one. */
static void packed_last_wrong(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    whole.packed[DT_Q4_K](y, y_step, w, row_bytes, rows, x);
    if (rows > 8)
        y[rows - 1] = y[rows - 2];
}

/* Takes the first of a pair's scales for both, in the last row. */
static void packed_one_scale(float *y, int64_t y_step, const uint8_t *w,
                             uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    uint8_t row[8 * 13];

    whole.packed[DT_B2_C64](y, y_step, w, row_bytes, rows, x);
    if (x->n > 64 && row_bytes <= sizeof row) {
        memcpy(row, w + (uint64_t)(rows - 1) * row_bytes, (size_t)row_bytes);
        row[25] = row[12];
        whole.packed[DT_B2_C64](y + rows - 1, y_step, row, row_bytes, 1, x);
    }
}

/* Wrong where a row of B2_T64 ends with a single block. */
static void packed_single_wrong(float *y, int64_t y_step, const uint8_t *w,
                                uint64_t row_bytes, int64_t rows,
                                const struct kq_act *x)
{
    whole.packed[DT_B2_T64](y, y_step, w, row_bytes, rows, x);
    if (x->n > 128 && x->n % 128 == 64)
        y[0] = -y[0];
}

/* Takes the low four bits of a scale of Q3_K, which has six, for all of it. */
static void packed_small_scales(float *y, int64_t y_step, const uint8_t *w,
                                uint64_t row_bytes, int64_t rows,
                                const struct kq_act *x)
{
    uint8_t row[MOST / 256 * 110];

    for (int64_t r = 0; r < rows; r++) {
        memcpy(row, w + (uint64_t)r * row_bytes, (size_t)row_bytes);
        for (uint64_t b = 0; b < row_bytes; b += 110)
            memset(row + b + 104, 0, 4);
        whole.packed[DT_Q3_K](y + r, y_step, row, row_bytes, 1, x);
    }
}

static const struct {
    enum dtype type;
    kernel_packed *broken;
} broken_packed[] = {{DT_Q4_K, packed_last_wrong},
                     {DT_B2_T64, packed_single_wrong},
                     {DT_Q3_K, packed_small_scales},
                     {DT_B2_C64, packed_one_scale}};

/* Takes the row before for the last one of a set that is not full. */
static void sets_last_wrong(float *y, int64_t y_step, const uint8_t *set, int64_t rows,
                            int block, const struct kq_act *x)
{
    whole.sets[KSET_TRITS](y, y_step, set, rows, block, x);
    if (rows > 8 && rows % KSET_ROWS)
        y[rows - 1] = y[rows - 2];
}

/* A level's own products, broken where only a part of its code is to blame. */
static void test_broken_levels_are_caught(void **state)
{
    const char *level;
    unsigned cpu;

    (void)state;
    for (int i = 1; (level = cpu_level_at(i)); i++) {
        if (cpu_limit(&cpu, cpu_features(), level, NULL))
            continue;
        for (size_t broken = 0; broken <= countof(broken_packed); broken++) {
            struct kcheck t = kt_make(cpu, true);
            enum dtype type = broken ? broken_packed[broken - 1].type : DT_F32;
            whole = t.k;
            if (broken == 0)
                t.k.qdot = qdot_last_wrong;
            else if (whole.packed[type])
                t.k.packed[type] = broken_packed[broken - 1].broken;
            if ((broken == 0 || whole.packed[type]) && kcheck_run(&t) == 0)
                fail_msg("level %s: broken kernel %d passed", level, (int)broken);
            kt_free(&t);
        }
    }
}

static void test_broken_sets_are_caught(void **state)
{
    struct kcheck t = kt_make(cpu_features(), true);

    (void)state;
    whole = t.k;
    if (whole.sets[KSET_TRITS]) {
        t.k.sets[KSET_TRITS] = sets_last_wrong;
        assert_int_not_equal(kcheck_run(&t), 0);
    }
    kt_free(&t);
}

static void test_whole_kernels_pass(void **state)
{
    struct kcheck t = kt_make(0, true);

    (void)state;
    assert_int_equal(kcheck_run(&t), 0);
    kt_free(&t);
}

/* A read past the end hits a guard page: the process dies, so a child does it. */
static void test_over_read_faults(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct kcheck t = kt_make(0, true);
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would print */
        signal(SIGBUS, SIG_DFL);
        t.k.fdot = fdot_over_read;
        kcheck_run(&t);
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    /* A sanitizer reports the fault and exits instead of dying by the signal. */
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_kernels_pass),
        cmocka_unit_test(test_broken_kernels_are_caught),
        cmocka_unit_test(test_broken_levels_are_caught),
        cmocka_unit_test(test_broken_sets_are_caught),
        cmocka_unit_test(test_over_read_faults),
    };

    return cmocka_run_group_tests_name("kernel harness", tests, NULL, NULL);
}
