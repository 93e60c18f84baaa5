/*
 * test_f16.c - half and brain floats: all 65536 of each, ties, ends of the range.
 *
 * The expected values are computed with ldexp on doubles, which hold every half, every
 * midpoint between halves and their neighbours exactly; a few come from NumPy.
 */
#include "tensor/f16.h"

#include "base/util.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

/* The value of a finite half by the definition of the format. */
static double half_value(unsigned h)
{
    int exp = (int)(h >> 10 & 31), frac = (int)(h & 1023);
    double mag = exp == 0 ? ldexp(frac, -24) : ldexp(1024 + frac, exp - 25);

    return h & 0x8000 ? -mag : mag;
}

static bool half_finite(unsigned h)
{
    return (h >> 10 & 31) != 31;
}

static void test_all_halves(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = f32_from_f16((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) { /* NaN stays NaN, sign kept, quiet */
            assert_true(isnan(f));
            assert_true(isnan(f32_from_f16(f16_from_f32(f))));
            assert_int_equal(f16_from_f32(f), h | 0x200);
            continue;
        }
        if (half_finite(h) && (double)f != half_value(h))
            fail_msg("half %04x: got %a", h, (double)f);
        if (f16_from_f32(f) != h)
            fail_msg("half %04x comes back as %04x", h, f16_from_f32(f));
    }
    assert_true(isinf(f32_from_f16(0x7c00)) && isinf(f32_from_f16(0xfc00)));
}

static void check_f16(double v, unsigned want)
{
    unsigned got = f16_from_f32((float)v), neg = f16_from_f32((float)-v);

    if (got != want || neg != (want | 0x8000))
        fail_msg("%a: got %04x and %04x, want %04x", v, got, neg, want);
}

/* Between neighbours: the midpoint goes to the even one, one ULP aside decides. The
 * "half" after the largest finite one is 65536, which stands for infinity. */
static void test_f16_ties(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        double lo = half_value(h), hi = h == 0x7bff ? 65536.0 : half_value(h + 1);
        float mid = (float)((lo + hi) / 2.0);
        assert_true((double)mid == (lo + hi) / 2.0);
        check_f16((double)mid, h & 1 ? h + 1 : h);
        check_f16((double)nextafterf(mid, 0.0f), h);
        check_f16((double)nextafterf(mid, INFINITY), h + 1);
    }
    check_f16((double)INFINITY, 0x7c00);
    check_f16(3.0e38, 0x7c00);
    check_f16(1e-45, 0);
}

static void test_bf16(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = f32_from_bf16((uint16_t)h);
        if ((h & 0x7fff) > 0x7f80) {
            assert_true(isnan(f) && bf16_from_f32(f) == (h | 0x40));
            continue;
        }
        assert_int_equal(bf16_from_f32(f), h);
        if ((h & 0x7fff) == 0x7f80)
            continue;
        /* The midpoint and its neighbours, as bit patterns. */
        uint32_t mid = (uint32_t)h << 16 | 0x8000;
        assert_int_equal(bf16_from_f32(f32_from_bits(mid)), h & 1 ? h + 1 : h);
        assert_int_equal(bf16_from_f32(f32_from_bits(mid - 1)), h);
        assert_int_equal(bf16_from_f32(f32_from_bits(mid + 1)), h + 1);
    }
}

static void test_against_numpy(void **state)
{
    static const struct {
        uint32_t f32;
        uint16_t f16, bf16;
    } want[] = {
#include "golden/quant/half.inc"
    };

    (void)state;
    for (size_t i = 0; i < countof(want); i++) {
        float f = f32_from_bits(want[i].f32);
        assert_int_equal(f16_from_f32(f), want[i].f16);
        assert_int_equal(bf16_from_f32(f), want[i].bf16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_halves),
        cmocka_unit_test(test_f16_ties),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_against_numpy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
