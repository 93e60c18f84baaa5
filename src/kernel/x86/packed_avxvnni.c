/*
 * packed_avxvnni.c - packed ternary rows times activations, in AVX2 with AVX-VNNI.
 *
 * For processors that have VNNI in 256 bits alone. What is not here stays with AVX2.
 */
#include "kernel/x86/trits64_256.h"

void packed_q2_0_g128_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 128, one_q2_0_g128, LINES_BY_PLANE,
                 take_q2_0_g128);
}

void packed_tq2_0_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                          uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 256, one_tq2_0, LINES_BY_POSITION,
                 take_tq2_0);
}

void packed_i2_s_avxvnni(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                         int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 128, one_i2_s, LINES_BY_POSITION,
                 take_i2_s);
}

void packed_b2_t64_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 64, one_b2_t64, LINES_BY_POSITION,
                 take_b2_t64);
}

void packed_ptq1_0_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 128, one_ptq1_0, LINES_BY_POSITION,
                 take_ptq1_0);
}

void packed_tq1_0_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                          uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 256, one_tq1_0, LINES_BY_POSITION,
                 take_tq1_0);
}
