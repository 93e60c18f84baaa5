/*
 * test_hadamard.c - the transform of every block against its matrix from the definition.
 */
#include "tensor/hadamard.h"

#include "base/rng.h"
#include "base/util.h"
#include "unit/unit.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_N = 1536 };

/* 1, -1 or 0: whether a is a square modulo the prime q. */
static int character(int a, int q)
{
    a = (a % q + q) % q;
    for (int x = 1; x < q && a > 0; x++)
        if (x * x % q == a)
            return 1;
    return a > 0 ? -1 : 0;
}

/* Entry (r, c) of Paley's matrix. Orders 12 and 20: a border of ones and the core
 * -(I + Q), its columns backwards; 28: blocks (S + I, S - I; S - I, -S - I) of order 14. */
static int paley(int order, int r, int c)
{
    if (order != 28) {
        if (r == 0 || c == 0)
            return 1;
        int a = (2 * (order - 1) - (c - 1) - (r - 1)) % (order - 1);
        return a == 0 ? -1 : -character(a, order - 1);
    }
    const int i = r % 14, j = c % 14;
    const int s = i == 0 && j == 0 ? 0 : i == 0 || j == 0 ? 1 : character(i - j, 13);
    if (i != j)
        return r >= 14 && c >= 14 ? -s : s;
    return r < 14 && c < 14 ? s + 1 : r >= 14 && c >= 14 ? -s - 1 : s - 1;
}

/* Entry of the Kronecker product of 2^k, then 12s, then 20s, then 28s, the first varying
 * fastest. */
static int entry(int64_t block, int64_t r, int64_t c)
{
    static const int orders[] = {12, 20, 28};
    int64_t pow2 = block;
    int sign;

    for (size_t p = 0; p < countof(orders); p++)
        while (pow2 % (orders[p] / 4) == 0)
            pow2 /= orders[p];
    sign = __builtin_popcountll((uint64_t)(r % pow2 & c % pow2)) & 1 ? -1 : 1;
    r /= pow2;
    c /= pow2;
    block /= pow2;
    for (size_t p = 0; p < countof(orders); p++) {
        for (; block % (orders[p] / 4) == 0; block /= orders[p]) {
            sign *= paley(orders[p], (int)(r % orders[p]), (int)(c % orders[p]));
            r /= orders[p];
            c /= orders[p];
        }
    }
    return sign;
}

static void test_definition(void **state)
{
    static const int blocks[] = {1,   2,   8,   12,  20,  28,  24,  40,  56,
                                 144, 240, 336, 560, 576, 640, 896, 1536};
    static float x[MAX_N], y[MAX_N];
    struct rng rng = rng_make(8);

    (void)state;
    for (size_t b = 0; b < countof(blocks); b++) {
        const int n = blocks[b];
        assert_true(hadamard_exists(n));
        for (int i = 0; i < n; i++)
            y[i] = x[i] = (float)rng_normal(&rng);
        hadamard_apply(y, n, n);
        for (int r = 0; r < n; r++) {
            double sum = 0.0;
            for (int c = 0; c < n; c++) {
                assert_int_equal(abs(entry(n, r, c)), 1);
                sum += entry(n, r, c) * (double)x[c];
            }
            ROW_CHECK(n, fabs(sum / sqrt(n) - (double)y[r]) < 1e-5);
        }
        hadamard_apply(y, n, n); /* its own inverse */
        for (int i = 0; i < n; i++)
            ROW_CHECK(n, fabsf(y[i] - x[i]) < 1e-5f);
    }
}

/* Several blocks are as many calls, to the bit. */
static void test_blocks(void **state)
{
    float x[3 * 48], y[3 * 48];
    struct rng rng = rng_make(9);

    (void)state;
    for (size_t i = 0; i < countof(x); i++)
        y[i] = x[i] = (float)rng_normal(&rng);
    hadamard_apply(x, countof(x), 48);
    for (int i = 0; i < 3; i++)
        hadamard_apply(y + i * 48, 48, 48);
    assert_memory_equal(x, y, sizeof x);
}

static void test_exists(void **state)
{
    static const int no[] = {-4, 0, 3, 6, 36, 44, 52, 60, 72, 17408};
    static const struct {
        int n, largest;
    } rows[] = {{576, 576},   {1536, 1536}, {640, 640},    {5120, 5120},
                {6144, 6144}, {896, 896},   {17408, 1024}, {27, 1},
                {36, 12},     {2048, 2048}, {11008, 256},  {1, 1}};

    (void)state;
    for (size_t i = 0; i < countof(no); i++)
        ROW_CHECK((int)i, !hadamard_exists(no[i]));
    for (size_t i = 0; i < countof(rows); i++)
        ROW_CHECK(rows[i].n, hadamard_largest(rows[i].n) == rows[i].largest);
    assert_int_equal(hadamard_pow2(576), 4);
    assert_int_equal(hadamard_pow2(1536), 128);
    assert_int_equal(hadamard_pow2(1024), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_exists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
