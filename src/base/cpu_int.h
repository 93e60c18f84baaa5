/*
 * cpu_int.h - the raw answers of an x86 processor, and their meaning.
 *
 * Apart from cpu.c only the unit test sees this: it feeds the registers of machines
 * that it does not run on.
 */
#ifndef BASE_CPU_INT_H
#define BASE_CPU_INT_H

#include "base/util.h"

struct cpu_x86 {
    uint32_t leaf1_ecx;                       /* CPUID 1 */
    uint32_t leaf7_ebx, leaf7_ecx, leaf7_edx; /* CPUID 7.0 */
    uint32_t leaf7_1_eax;                     /* CPUID 7.1 */
    uint64_t xcr0;    /* state components that the system saves; 0 without OSXSAVE */
    bool amx_allowed; /* the system granted tile registers to this process */
};

/* Feature bits of cpu.h for these registers. */
unsigned cpu_x86_decode(const struct cpu_x86 *r);

#endif
