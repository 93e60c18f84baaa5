/*
 * sets_avx512vbmi.c - repacked base-3 rows times activations, in AVX-512 with VNNI and VBMI.
 */
#include "kernel/x86/sets512.h"

SETS(sets_trits_avx512vbmi, KSET_TRITS, take_set_trits)
