/*
 * test_amx.c - the table of level amx, its tiles emulated, against the scalar reference.
 *
 * gemm_amx.c is built into this test once more, over amx_emulated.c; the linker takes
 * that copy. The rest of the level needs a machine with AVX-512 VNNI.
 */
#include "base/cpu.h"
#include "kernel/variants.h"
#include "kernels/amx_emulated.h"
#include "kernels/kt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static unsigned cpu;

static void test_level(void **state)
{
    struct kcheck t = kt_make(cpu, false);

    (void)state;
    assert_string_equal(t.k.name, "amx");
    assert_true(t.k.qdot == kernel_qdot_amx);
    assert_int_equal(kcheck_run(&t), 0);
    assert_true(amx_emulated_products() > 1000); /* the tiles were used at all */
    kt_free(&t);
}

/* Forgets the top bytes of e * q, as a kernel without the third tile would. */
static void qdot_small_factors(float *y, int64_t y_step, const struct kq_mat *w,
                               const struct kq_act *x)
{
    kernel_qdot_amx(y, y_step, w, x);
    for (int64_t t = 0; t < x->rows && w->block >= 128 && x->n > 0; t++)
        for (int64_t r = 0; r < w->rows; r++)
            if (x->ep[t * x->n / 8] > 516) /* 127 * 516 passes 2^16 */
                y[t * y_step + r] = 0;
}

static void test_broken_is_caught(void **state)
{
    struct kcheck t = kt_make(cpu, true);

    (void)state;
    t.k.qdot = qdot_small_factors;
    assert_true(kcheck_run(&t) > 0);
    kt_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_broken_is_caught),
    };

    cpu = cpu_features();
    if (!(cpu & CPU_AVX512VNNI)) {
        puts("skipped: no AVX-512 VNNI here");
        return 77;
    }
    cpu |= CPU_AMX_INT8;
    return cmocka_run_group_tests_name("amx", tests, NULL, NULL);
}
