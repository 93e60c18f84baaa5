/*
 * cpu.h - what the processor can do, and what the operating system lets it do.
 *
 * A feature counts only when the system also saves the registers it needs (XGETBV on
 * x86; for AMX the kernel is asked for the tile state).
 */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include "base/error.h"

enum {
    CPU_SSE2 = 1 << 0,
    CPU_AVX2 = 1 << 1, /* with F16C; FMA is separate */
    CPU_FMA = 1 << 2,
    CPU_AVXVNNI = 1 << 3,
    CPU_AVX512 = 1 << 4, /* F, BW, DQ, VL */
    CPU_AVX512VNNI = 1 << 5,
    CPU_AVX512BF16 = 1 << 6,
    CPU_AMX_INT8 = 1 << 7,
    CPU_AMX_BF16 = 1 << 8,
    CPU_NEON = 1 << 9,
    CPU_DOTPROD = 1 << 10,
    CPU_I8MM = 1 << 11,
    CPU_AVX512VBMI = 1 << 12, /* a part of the level avx512vnni where it exists */
};

/* Feature bits of this machine. */
unsigned cpu_features(void);

/* Limits features to a level: "scalar", "avx2", "avxvnni", "avx512", "avx512vnni",
 * "amx", "neon", "dotprod", "i8mm", or "" / NULL for all. B2_EARG: unknown word (the message
 * lists them) or a level that this machine lacks. */
enum b2_status cpu_limit(unsigned *out, unsigned features, const char *level,
                         struct b2_err *err) NODISCARD;

/* "avx512vnni", "avx2", "scalar": the highest level in features. */
const char *cpu_level_name(unsigned features);

/* Names of levels from low to high, i = 0, 1, ...; NULL after the last. */
const char *cpu_level_at(int i);

/* The processor's name from the system ("AMD EPYC"), into buf; "unknown" if none. */
void cpu_model_name(char *buf, size_t size);

#endif
