/*
 * packed_avxvnni.c - packed ternary rows times activations, in AVX2 with AVX-VNNI.
 *
 * For processors that have VNNI in 256 bits alone. What is not here stays with AVX2.
 */
#include "kernel/x86/trits64_256.h"

void packed_q2_0_g128_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    static const struct two_bits f = {34, 2, 0, 1, false};

    packed_2bits(y, y_step, w, row_bytes, rows, x, &f);
}

void packed_tq2_0_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                          uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    static const struct two_bits f = {66, 0, 64, 2, false};

    packed_2bits(y, y_step, w, row_bytes, rows, x, &f);
}

void packed_i2_s_avxvnni(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                         int64_t rows, const struct kq_act *x)
{
    static const struct two_bits f = {32, 0, NO_SCALE, 1, true};

    packed_2bits(y, y_step, w, row_bytes, rows, x, &f);
}

void packed_b2_t64_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, one_b2_t64, many_b2_t64);
}

void packed_ptq1_0_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, one_ptq1_0, many_ptq1_0);
}

void packed_tq1_0_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                          uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, one_tq1_0, many_tq1_0);
}
