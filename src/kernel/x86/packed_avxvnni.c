/*
 * packed_avxvnni.c - packed ternary rows times activations, in AVX2 with AVX-VNNI.
 *
 * For processors that have VNNI in 256 bits alone. What is not here stays with AVX2.
 */
#include "kernel/x86/few256.h"
#include "kernel/x86/trits64_256.h"

PACKED_TRITS(packed_q2_0_g128_avxvnni, 128, LINES_BY_PLANE, one_q2_0_g128,
             take_q2_0_g128, few_take_q2_0_g128)

PACKED_TRITS(packed_tq2_0_avxvnni, 256, LINES_BY_POSITION, one_tq2_0, take_tq2_0,
             few_take_tq2_0)

PACKED_TRITS(packed_i2_s_avxvnni, 128, LINES_BY_POSITION, one_i2_s, take_i2_s,
             few_take_i2_s)

void packed_b2_t64_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 64, one_b2_t64, LINES_BY_POSITION,
                 take_b2_t64);
}

PACKED_TRITS(packed_ptq1_0_avxvnni, 128, LINES_BY_POSITION, one_ptq1_0, take_ptq1_0,
             few_take_ptq1_0)

PACKED_TRITS(packed_tq1_0_avxvnni, 256, LINES_BY_POSITION, one_tq1_0, take_tq1_0,
             few_take_tq1_0)
