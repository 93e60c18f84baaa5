/*
 * sets_avxvnni.c - repacked ternary rows times activations, in AVX2 with AVX-VNNI.
 */
#include "kernel/x86/sets256.h"

void sets_2bits_avxvnni(float *y, int64_t y_step, const uint8_t *set, int64_t rows,
                        int block, const struct kq_act *x)
{
    all_sets(y, y_step, set, rows, block, x, KSET_2BITS);
}

void sets_trits_avxvnni(float *y, int64_t y_step, const uint8_t *set, int64_t rows,
                        int block, const struct kq_act *x)
{
    all_sets(y, y_step, set, rows, block, x, KSET_TRITS);
}
