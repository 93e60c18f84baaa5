/*
 * quad_avx512vbmi.c - packed rows of words of four codes, in AVX-512 with VNNI and VBMI.
 */
#include "kernel/x86/quad512.h"

PACKED_ROWS(packed_b2_c128_avx512vbmi, 3, LINES_BY_PLANE, one_c128, take_c128)
PACKED_ROWS(packed_b2_c64_avx512vbmi, 2, LINES_BY_PLANE, one_c64, take_c64)
