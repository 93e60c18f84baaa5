/*
 * test_cpu.c - features of machines that the test does not run on, and levels by mask.
 *
 * Register values are built from the bit numbers of the Intel SDM (volume 2A, CPUID).
 */
#include "base/cpu.h"
#include "base/cpu_int.h"
#include "unit/unit.h"

enum {
    FMA1 = 1 << 12,
    OSXSAVE1 = 1 << 27,
    AVX1 = 1 << 28,
    F16C1 = 1 << 29,
    HASWELL1 = FMA1 | OSXSAVE1 | AVX1 | F16C1,
    AVX2_7 = 1 << 5,
    VNNI7_C = 1 << 11,
    AMX_BF16_D = 1 << 22,
    AMX_TILE_D = 1 << 24,
    AMX_INT8_D = 1 << 25,
    AMX_D = AMX_BF16_D | AMX_TILE_D | AMX_INT8_D,
    AVXVNNI_A = 1 << 4,
    BF16_A = 1 << 5,
};
/* F, DQ, BW, VL of leaf 7 EBX; bit 31 does not fit an enumerator. */
static const uint32_t AVX512_7 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;

enum {
    HAVE_AVX2 = CPU_SSE2 | CPU_AVX2 | CPU_FMA,
    HAVE_AVX512 = HAVE_AVX2 | CPU_AVX512,
    HAVE_SPR = HAVE_AVX512 | CPU_AVXVNNI | CPU_AVX512VNNI | CPU_AVX512BF16 |
               CPU_AMX_INT8 | CPU_AMX_BF16,
};

static void test_decode(void **state)
{
    const struct {
        const char *what;
        struct cpu_x86 r;
        unsigned want;
    } rows[] = {
        {"nothing", {0}, CPU_SSE2},
        {"Haswell", {HASWELL1, AVX2_7, 0, 0, 0, 7, false}, HAVE_AVX2},
        {"AVX2 that the system does not save",
         {HASWELL1, AVX2_7, 0, 0, 0, 3, false},
         CPU_SSE2},
        {"AVX2 without FMA",
         {HASWELL1 & ~FMA1, AVX2_7, 0, 0, 0, 7, false},
         CPU_SSE2 | CPU_AVX2},
        {"Sandy Bridge: AVX alone", {OSXSAVE1 | AVX1, 0, 0, 0, 0, 7, false}, CPU_SSE2},
        {"AVX2 without F16C", {HASWELL1 & ~F16C1, AVX2_7, 0, 0, 0, 7, false}, CPU_SSE2},
        {"Alder Lake",
         {HASWELL1, AVX2_7, 0, 0, AVXVNNI_A, 7, false},
         HAVE_AVX2 | CPU_AVXVNNI},
        {"Skylake-X", {HASWELL1, AVX2_7 | AVX512_7, 0, 0, 0, 0xe7, false}, HAVE_AVX512},
        {"Skylake-X, opmask not saved",
         {HASWELL1, AVX2_7 | AVX512_7, 0, 0, 0, 0xc7, false},
         HAVE_AVX2},
        {"Knights Landing: F without BW, DQ, VL",
         {HASWELL1, AVX2_7 | 1 << 16, 0, 0, 0, 0xe7, false},
         HAVE_AVX2},
        {"Ice Lake",
         {HASWELL1, AVX2_7 | AVX512_7, VNNI7_C, 0, 0, 0xe7, false},
         HAVE_AVX512 | CPU_AVX512VNNI},
        {"Sapphire Rapids",
         {HASWELL1, AVX2_7 | AVX512_7, VNNI7_C, AMX_D, AVXVNNI_A | BF16_A, 0x600e7,
          true},
         HAVE_SPR},
        {"Sapphire Rapids, tiles refused",
         {HASWELL1, AVX2_7 | AVX512_7, VNNI7_C, AMX_D, AVXVNNI_A | BF16_A, 0x600e7,
          false},
         HAVE_SPR & ~(unsigned)(CPU_AMX_INT8 | CPU_AMX_BF16)},
        {"Sapphire Rapids, tiles not saved",
         {HASWELL1, AVX2_7 | AVX512_7, VNNI7_C, AMX_D, AVXVNNI_A | BF16_A, 0xe7, true},
         HAVE_SPR & ~(unsigned)(CPU_AMX_INT8 | CPU_AMX_BF16)},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        unsigned got = cpu_x86_decode(&rows[i].r);
        if (got != rows[i].want)
            fail_msg("%s: %#x, want %#x", rows[i].what, got, rows[i].want);
    }
}

static void test_limit(void **state)
{
    static const struct {
        unsigned have;
        const char *level;
        unsigned want; /* or REFUSED */
    } rows[] = {
#define REFUSED 0xffffffffu
        {HAVE_SPR, NULL, HAVE_SPR},
        {HAVE_SPR, "", HAVE_SPR},
        {HAVE_SPR, "scalar", 0},
        {HAVE_SPR, "avx2", HAVE_AVX2},
        {HAVE_SPR, "avxvnni", HAVE_AVX2 | CPU_AVXVNNI},
        {HAVE_SPR, "avx512", HAVE_AVX512},
        {HAVE_SPR, "avx512vnni",
         HAVE_AVX512 | CPU_AVXVNNI | CPU_AVX512VNNI | CPU_AVX512BF16},
        {HAVE_SPR, "amx", HAVE_SPR},
        {HAVE_AVX2, "avx512", REFUSED},
        {HAVE_AVX2, "avxvnni", REFUSED},
        {HAVE_AVX2, "neon", REFUSED},
        {HAVE_AVX2, "AVX2", REFUSED},
        {HAVE_AVX2, "sse", REFUSED},
        {CPU_NEON | CPU_DOTPROD | CPU_I8MM, "neon", CPU_NEON},
        {CPU_NEON | CPU_DOTPROD | CPU_I8MM, "dotprod", CPU_NEON | CPU_DOTPROD},
        {CPU_NEON | CPU_DOTPROD | CPU_I8MM, "i8mm", CPU_NEON | CPU_DOTPROD | CPU_I8MM},
        {CPU_NEON, "dotprod", REFUSED},
        {0, "scalar", 0},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct b2_err err = {0};
        unsigned got = 123;
        enum b2_status rc = cpu_limit(&got, rows[i].have, rows[i].level, &err);
        ROW_CHECK(i, rc == (rows[i].want == REFUSED ? B2_EARG : B2_OK));
        ROW_CHECK(i, rc == B2_OK ? got == rows[i].want : got == 123);
        ROW_CHECK(i, rc == B2_OK || strstr(err.msg, rows[i].level));
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(cpu_level_name(0), "scalar");
    assert_string_equal(cpu_level_name(CPU_SSE2), "scalar");
    assert_string_equal(cpu_level_name(HAVE_AVX2), "avx2");
    assert_string_equal(cpu_level_name(HAVE_AVX512), "avx512");
    assert_string_equal(cpu_level_name(HAVE_SPR), "amx");
    assert_string_equal(cpu_level_name(CPU_NEON | CPU_DOTPROD), "dotprod");
    assert_string_equal(cpu_level_at(0), "scalar");
    assert_string_equal(cpu_level_at(1), "avx2");
    assert_null(cpu_level_at(-1));
    int n = 0;
    while (cpu_level_at(n)) /* every name is one that cpu_limit() knows */
        assert_int_equal(cpu_limit(&(unsigned){0}, ~0u, cpu_level_at(n++), NULL),
                         B2_OK);
    assert_null(cpu_level_at(n));
}

/* What this machine says agrees with itself, and with the system's own list. */
static void test_this_machine(void **state)
{
    unsigned f = cpu_features(), same = 0;
    char name[128], tiny[4], line[8192];

    (void)state;
    assert_int_equal(cpu_limit(&same, f, cpu_level_name(f), NULL), B2_OK);
    cpu_model_name(name, sizeof name);
    assert_true(name[0] != '\0' && !strchr(name, '\n'));
    cpu_model_name(tiny, sizeof tiny);
    assert_true(strlen(tiny) < sizeof tiny);
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info)) {
        if (strncmp(line, "flags", 5) != 0)
            continue;
        assert_int_equal((f & CPU_AVX2) != 0, strstr(line, " avx2 ") != NULL);
        assert_int_equal((f & CPU_AVX512) != 0, strstr(line, " avx512bw ") != NULL);
        break;
    }
    if (info)
        fclose(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
