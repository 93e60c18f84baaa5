/*
 * units.c - how many cycles mixes of instructions take: the roofline of the inner loops.
 *
 *     bench_units
 *
 * Prints rows of `bits,mix,instructions,cycles` for x86-64 processors with AVX2, and with
 * AVX-512 VNNI where there is. Registers hold anything; what depends on what is as in the
 * kernels: chains of their own, or none. Cycles are those of the clock at which a loop of
 * one dependent subtraction runs, measured first; the least of RUNS runs counts.
 */
#include "base/cpu.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOPS = 1000000, RUNS = 7 };

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

#if B2_X86

typedef void loop(uint64_t n, const void *data);

#define R4(op) op(0) op(1) op(2) op(3)
#define R8(op) R4(op) op(4) op(5) op(6) op(7)
#define LOOP(name, body)                                                               \
    static void name(uint64_t n, const void *data)                                     \
    {                                                                                  \
        __asm__ volatile("1:\n" body "dec %0\njnz 1b\n"                                \
                         : "+r"(n)                                                     \
                         : "r"(data)                                                   \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",     \
                           "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",          \
                           "memory", "cc");                                            \
    }

#define DOT(r) "vpdpbusd (%1)%{1to16%}, %%zmm12, %%zmm" #r "\n"
#define FACTOR(r) "vpdpwssd (%1)%{1to16%}, %%zmm12, %%zmm" #r "\n"
#define AND512(r) "vpandd %%zmm12, %%zmm12, %%zmm" #r "\n"
#define SHIFT512(r) "vpsrlw $2, %%zmm12, %%zmm" #r "\n"
#define LOOK_UP(r) "vpermi2b %%zmm12, %%zmm12, %%zmm" #r "\n"
#define PAIRS(r) "vpmaddubsw %%ymm12, %%ymm12, %%ymm" #r "\n"
#define ADD(r) "vpaddw %%ymm12, %%ymm" #r ", %%ymm" #r "\n"
#define LOAD(r) "vpbroadcastd (%1), %%ymm" #r "\n"
#define STORE(r) "vmovdqu %%ymm" #r ", 64(%1)\n"

LOOP(one_cycle, "")
LOOP(dot, R8(DOT))
LOOP(dot_factor, R8(DOT) FACTOR(8) FACTOR(9))
LOOP(dot_and, R8(DOT) AND512(8) AND512(9) AND512(10) AND512(11))
LOOP(dot_shift, R8(DOT) SHIFT512(8) SHIFT512(9) SHIFT512(10) SHIFT512(11))
LOOP(dot_look_up, R8(DOT) LOOK_UP(8) LOOK_UP(9) LOOK_UP(10) LOOK_UP(11))
LOOP(pairs, R8(PAIRS))
LOOP(adds, R8(ADD))
LOOP(loads, R8(LOAD))
LOOP(stores, R8(STORE))
LOOP(pairs_adds, R8(PAIRS) R8(ADD))
LOOP(pairs_loads, R8(PAIRS) R8(ADD) LOAD(8) LOAD(9) LOAD(10) LOAD(11) R8(LOAD))

static double seconds(loop *f, const void *data)
{
    double least = 1e9;

    for (int i = 0; i < RUNS; i++) {
        double begin = cpu_s();
        f(LOOPS, data);
        double s = cpu_s() - begin;
        least = s < least ? s : least;
    }
    return least;
}

int main(void)
{
    static const struct {
        int bits;
        const char *mix;
        int instructions;
        loop *f;
    } mix[] = {
        {512, "8 vpdpbusd of broadcasts", 8, dot},
        {512, "8 vpdpbusd and 2 vpdpwssd", 10, dot_factor},
        {512, "8 vpdpbusd and 4 vpandd", 12, dot_and},
        {512, "8 vpdpbusd and 4 vpsrlw", 12, dot_shift},
        {512, "8 vpdpbusd and 4 vpermi2b", 12, dot_look_up},
        {256, "8 vpmaddubsw", 8, pairs},
        {256, "8 vpaddw", 8, adds},
        {256, "8 vpbroadcastd out of memory", 8, loads},
        {256, "8 stores", 8, stores},
        {256, "8 vpmaddubsw and 8 vpaddw", 16, pairs_adds},
        {256, "8 vpmaddubsw; 8 vpaddw; 12 vpbroadcastd", 28, pairs_loads},
    };
    static _Alignas(64) char data[128];
    const unsigned cpu = cpu_features();
    const double cycle = seconds(one_cycle, data);

    printf("# clock %.2f GHz\nbits,mix,instructions,cycles\n", LOOPS / cycle * 1e-9);
    for (size_t i = 0; i < sizeof mix / sizeof *mix; i++)
        if (cpu & (mix[i].bits == 512 ? CPU_AVX512VBMI : CPU_AVX2))
            printf("%d,%s,%d,%.1f\n", mix[i].bits, mix[i].mix, mix[i].instructions,
                   seconds(mix[i].f, data) / cycle);
    return EXIT_SUCCESS;
}

#else

int main(void)
{
    fprintf(stderr, "bench_units has mixes for x86-64 alone\n");
    return EXIT_FAILURE;
}

#endif
