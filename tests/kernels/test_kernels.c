/*
 * test_kernels.c - every kernel at every CPU level of this machine against the scalar
 * reference.
 */
#include "base/cpu.h"
#include "kernels/kt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int run_level(unsigned cpu)
{
    struct kcheck t = kt_make(cpu, false);
    int n_failed = kcheck_run(&t);

    kt_free(&t);
    return n_failed;
}

static void test_scalar(void **state)
{
    (void)state;
    assert_int_equal(run_level(0), 0);
}

/* All single features and all of them together: a table row may ask for any mix. */
static void test_every_level(void **state)
{
    unsigned features = cpu_features();

    (void)state;
    for (unsigned bit = 1; bit && bit <= features; bit <<= 1) {
        unsigned below = features & (bit | (bit - 1));
        struct kernels k, lower;
        if (!(features & bit))
            continue;
        /* Levels that change nothing in the table were tested already. */
        kernels_init(&k, below);
        kernels_init(&lower, features & (bit - 1));
        if (memcmp(&k, &lower, sizeof k) != 0)
            assert_int_equal(run_level(below), 0);
    }
}

/* The table is never partial. */
static void test_table_is_full(void **state)
{
    const unsigned masks[] = {0, cpu_features()};

    (void)state;
    for (size_t i = 0; i < countof(masks); i++) {
        struct kernels k;
        kernels_init(&k, masks[i]);
        assert_true(k.name && k.act_quant && k.qdot && k.dequant && k.fdot &&
                    k.f32_from_f16);
        assert_true(k.f32_from_bf16 && k.f16_from_f32 && k.bf16_from_f32 && k.rmsnorm &&
                    k.silu_mul);
        assert_true(k.add && k.exp && k.softcap && k.softmax && k.weighted_sum);
        assert_true(k.rope_norm && k.rope_neox && k.fwht && k.mul);
        assert_true(k.sigmoid_mul && k.l2norm && k.conv_silu && k.delta_step);
        assert_true(k.attn.put_q8 && k.attn.query && k.attn.score_q8 && k.attn.mix_q8);
        for (int t = 0; t < N_DTYPES; t++) /* no quantised type is left to crawl */
            assert_true(!kernel_is_quant((enum dtype)t) || !(masks[i] & CPU_AVX2) ||
                        k.packed[t]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_full),
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_every_level),
    };

    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
