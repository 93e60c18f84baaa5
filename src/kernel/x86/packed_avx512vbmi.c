/*
 * packed_avx512vbmi.c - packed base-3 rows times activations, in AVX-512 with VNNI and VBMI.
 *
 * VBMI looks a byte up in 128 others at once: two look-ups and a choice give four digits
 * in 2 bits each, two more the fifth. Less than half the work of comparing for each digit.
 */
#include "kernel/x86/trits64_512.h"

void packed_b2_t64_avx512vbmi(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_b2_t64, many_b2_t64);
}

void packed_ptq1_0_avx512vbmi(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_ptq1_0, many_ptq1_0);
}

void packed_tq1_0_avx512vbmi(float *y, int64_t y_step, const uint8_t *w,
                             uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_tq1_0, many_tq1_0);
}
