/*
 * quad_avxvnni.c - packed rows of words of four codes, in AVX2 with AVX-VNNI.
 */
#include "kernel/x86/quad256.h"

void packed_b2_c128_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 128, one_c128, LINES_BY_PLANE,
                 take_c128);
}

void packed_b2_c64_avxvnni(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 64, one_c64, LINES_BY_PLANE,
                 take_c64);
}
