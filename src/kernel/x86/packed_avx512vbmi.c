/*
 * packed_avx512vbmi.c - packed base-3 rows times activations, in AVX-512 with VNNI and VBMI.
 *
 * VBMI looks a byte up in 128 others at once: two look-ups and a choice give four digits
 * in 2 bits each, two more the fifth. Less than half the work of comparing for each digit.
 */
#include "kernel/x86/trits64_512.h"

PACKED_ROWS(packed_b2_t64_avx512vbmi, 2, LINES_BY_POSITION, one_b2_t64, take_b2_t64)
PACKED_ROWS(packed_ptq1_0_avx512vbmi, 3, LINES_BY_POSITION, one_ptq1_0, take_ptq1_0)
PACKED_ROWS(packed_tq1_0_avx512vbmi, 4, LINES_BY_POSITION, one_tq1_0, take_tq1_0)
