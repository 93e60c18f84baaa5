/*
 * quad_avx512vbmi.c - packed rows of words of four codes, in AVX-512 with VNNI and VBMI.
 */
#include "kernel/x86/quad512.h"

void packed_b2_c128_avx512vbmi(float *y, int64_t y_step, const uint8_t *w,
                               uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_c128, many_c128);
}

void packed_b2_c64_avx512vbmi(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_c64, many_c64);
}
