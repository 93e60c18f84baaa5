/*
 * cpu.c - asks the processor and the operating system.
 *
 * Bit numbers: Intel SDM volume 2A, CPUID, and volume 1, section 13.1 (XCR0).
 */
#define _GNU_SOURCE
#include "base/cpu.h"

#include "base/cpu_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* XCR0 components: XMM and YMM; opmask and both ZMM halves; AMX tile config and data. */
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6, XCR0_AMX = 0x60000 };

static bool bit(uint32_t reg, int n)
{
    return reg >> n & 1;
}

unsigned cpu_x86_decode(const struct cpu_x86 *r)
{
    unsigned f = CPU_SSE2; /* part of x86-64 */

    if ((r->xcr0 & XCR0_AVX) != XCR0_AVX || !bit(r->leaf1_ecx, 28))
        return f;
    if (!bit(r->leaf7_ebx, 5) || !bit(r->leaf1_ecx, 29)) /* AVX2, F16C */
        return f;
    f |= CPU_AVX2;
    if (bit(r->leaf1_ecx, 12))
        f |= CPU_FMA;
    if (bit(r->leaf7_1_eax, 4))
        f |= CPU_AVXVNNI;
    if ((r->xcr0 & XCR0_AVX512) != XCR0_AVX512)
        return f;
    /* F, DQ, BW, VL */
    if (!bit(r->leaf7_ebx, 16) || !bit(r->leaf7_ebx, 17) || !bit(r->leaf7_ebx, 30) ||
        !bit(r->leaf7_ebx, 31))
        return f;
    f |= CPU_AVX512;
    if (bit(r->leaf7_ecx, 11))
        f |= CPU_AVX512VNNI;
    if (bit(r->leaf7_ecx, 1))
        f |= CPU_AVX512VBMI;
    if (bit(r->leaf7_1_eax, 5))
        f |= CPU_AVX512BF16;
    if ((r->xcr0 & XCR0_AMX) != XCR0_AMX || !r->amx_allowed || !bit(r->leaf7_edx, 24))
        return f;
    if (bit(r->leaf7_edx, 25))
        f |= CPU_AMX_INT8;
    if (bit(r->leaf7_edx, 22))
        f |= CPU_AMX_BF16;
    return f;
}

#if defined(__x86_64__)
/* Linux gives tile registers only to a process that asks (arch/x86/xstate.rst). */
static bool amx_ask(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

/* The tile kernels have met emulated tiles alone: until a machine has run them they are
 * taken only when asked for by name. */
static bool amx_wanted(void)
{
    const char *level = getenv("B2_CPU");

    return level && strcmp(level, "amx") == 0;
}

unsigned cpu_features(void)
{
    struct cpu_x86 r = {0};
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d))
        return CPU_SSE2;
    r.leaf1_ecx = c;
    if (bit(c, 27)) { /* OSXSAVE: XGETBV may be executed */
        __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        r.xcr0 = (uint64_t)d << 32 | a;
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        uint32_t n_subleaves = a;
        r.leaf7_ebx = b;
        r.leaf7_ecx = c;
        r.leaf7_edx = d;
        if (n_subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
            r.leaf7_1_eax = a;
    }
    r.amx_allowed = bit(r.leaf7_edx, 24) && amx_wanted() && amx_ask();
    return cpu_x86_decode(&r);
}
#elif defined(__aarch64__)
unsigned cpu_features(void)
{
    unsigned f = CPU_NEON; /* part of ARMv8-A */
#if defined(__linux__)
    /* asm/hwcap.h of the kernel: HWCAP_ASIMDDP, HWCAP2_I8MM. */
    if (getauxval(AT_HWCAP) >> 20 & 1)
        f |= CPU_DOTPROD;
    if (getauxval(AT_HWCAP2) >> 13 & 1)
        f |= CPU_I8MM;
#elif defined(__APPLE__)
    f |= CPU_DOTPROD; /* every Apple arm64 processor of a Mac */
#endif
    return f;
}
#else
unsigned cpu_features(void)
{
    return 0;
}
#endif

enum {
    ALLOW_AVX2 = CPU_SSE2 | CPU_AVX2 | CPU_FMA,
    ALLOW_AVXVNNI = ALLOW_AVX2 | CPU_AVXVNNI,
    ALLOW_AVX512 = ALLOW_AVX2 | CPU_AVX512,
    ALLOW_AVX512VNNI =
        ALLOW_AVX512 | CPU_AVXVNNI | CPU_AVX512VNNI | CPU_AVX512BF16 | CPU_AVX512VBMI,
    ALLOW_AMX = ALLOW_AVX512VNNI | CPU_AMX_INT8 | CPU_AMX_BF16,
};

/* From low to high. A machine has a level when it has need; the level keeps allow. */
static const struct {
    const char *name;
    unsigned need, allow;
} levels[] = {
    {"scalar", 0, 0},
    {"avx2", CPU_AVX2, ALLOW_AVX2},
    {"avxvnni", CPU_AVXVNNI, ALLOW_AVXVNNI},
    {"avx512", CPU_AVX512, ALLOW_AVX512},
    {"avx512vnni", CPU_AVX512VNNI, ALLOW_AVX512VNNI},
    {"amx", CPU_AMX_INT8, ALLOW_AMX},
    {"neon", CPU_NEON, CPU_NEON},
    {"dotprod", CPU_DOTPROD, CPU_NEON | CPU_DOTPROD},
    {"i8mm", CPU_I8MM, CPU_NEON | CPU_DOTPROD | CPU_I8MM},
};

enum b2_status cpu_limit(unsigned *out, unsigned features, const char *level,
                         struct b2_err *err)
{
    if (!level || level[0] == '\0') {
        *out = features;
        return B2_OK;
    }
    for (size_t i = 0; i < countof(levels); i++) {
        if (strcmp(level, levels[i].name) != 0)
            continue;
        if ((features & levels[i].need) != levels[i].need)
            return err_set(err, B2_EARG,
                           "processor level \"%s\" is not on this machine; its highest "
                           "is \"%s\"",
                           level, cpu_level_name(features));
        *out = features & levels[i].allow;
        return B2_OK;
    }
    return err_set(err, B2_EARG,
                   "unknown processor level \"%s\"; known: scalar, avx2, avxvnni, "
                   "avx512, avx512vnni, amx, neon, dotprod, i8mm",
                   level);
}

const char *cpu_level_name(unsigned features)
{
    for (size_t i = countof(levels) - 1; i > 0; i--)
        if (features & levels[i].need)
            return levels[i].name;
    return levels[0].name;
}

const char *cpu_level_at(int i)
{
    return i >= 0 && i < (int)countof(levels) ? levels[i].name : NULL;
}

void cpu_model_name(char *buf, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    snprintf(buf, size, "unknown");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon ||
            (strncmp(line, "model name", 10) != 0 && strncmp(line, "Hardware", 8) != 0))
            continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(buf, size, "%s", colon);
        break;
    }
    fclose(f);
}
