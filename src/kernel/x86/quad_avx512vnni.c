/*
 * quad_avx512vnni.c - packed rows of words of four codes, in AVX-512 BW and VNNI.
 */
#include "kernel/x86/quad512.h"

PACKED_ROWS(packed_b2_c128_avx512vnni, 3, LINES_BY_PLANE, one_c128, take_c128)
PACKED_ROWS(packed_b2_c64_avx512vnni, 2, LINES_BY_PLANE, one_c64, take_c64)
