/*
 * sets_avx512vbmi.c - repacked base-3 rows times activations, in AVX-512 with VNNI and VBMI.
 */
#include "kernel/x86/sets512.h"

void sets_trits_avx512vbmi(float *y, int64_t y_step, const uint8_t *set, int64_t rows,
                           int block, const struct kq_act *x)
{
    all_sets(y, y_step, set, rows, block, x, KSET_TRITS);
}
