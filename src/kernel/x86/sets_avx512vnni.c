/*
 * sets_avx512vnni.c - repacked ternary rows times activations, in AVX-512 BW and VNNI.
 */
#include "kernel/x86/sets512.h"

SETS(sets_2bits_avx512vnni, KSET_2BITS, take_set_2bits)
SETS(sets_trits_avx512vnni, KSET_TRITS, take_set_trits)
