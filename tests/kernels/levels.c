/*
 * levels.c - the kernel checks without a test library, for builds that run in an emulator.
 *
 *     kernel_levels LEVEL
 *
 * Every kernel of LEVEL ("neon", "i8mm") between guard pages against the scalar
 * reference, then a kernel of that level with one wrong result, which must be caught.
 * Fails when the machine's highest level is another: an emulator is told which processor
 * it is, and a test of the wrong one would prove nothing.
 */
#include "base/cpu.h"
#include "kernels/kt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kernels whole; /* what broken_qdot breaks */

static void broken_qdot(float *y, int64_t y_step, const struct kq_mat *w,
                        const struct kq_act *x)
{
    whole.qdot(y, y_step, w, x);
    if (w->rows > 0 && x->rows > 0)
        y[(x->rows - 1) * y_step + w->rows - 1] += 1.0f;
}

static void broken_unpack(int8_t *code, float *scale, float *min, const uint8_t *src,
                          int64_t n)
{
    whole.unpack[DT_Q6_K](code, scale, min, src, n);
    if (n)
        code[n - 1] ^= 1;
}

static void broken_exp(float *y, const float *x, int64_t n)
{
    whole.exp(y, x, n);
    if (n)
        y[n - 1] += y[n - 1] * 0x1p-23f;
}

static int count_failures(unsigned cpu, int broken)
{
    struct kcheck t = kt_make(cpu, broken > 0);

    whole = t.k;
    if (broken == 1)
        t.k.qdot = broken_qdot;
    else if (broken == 2)
        t.k.unpack[DT_Q6_K] = broken_unpack;
    else if (broken == 3)
        t.k.exp = broken_exp;
    int n = kcheck_run(&t);
    if (!broken)
        printf("%s: %d checks, %d failed\n", t.k.name, t.n_checks, n);
    kt_free(&t);
    return n;
}

int main(int argc, char **argv)
{
    unsigned cpu = cpu_features();

    if (argc != 2) {
        fprintf(stderr, "usage: kernel_levels LEVEL\n");
        return 2;
    }
    if (strcmp(cpu_level_name(cpu), argv[1]) != 0) {
        fprintf(stderr, "this machine's level is %s, not %s\n", cpu_level_name(cpu),
                argv[1]);
        return EXIT_FAILURE;
    }
    if (count_failures(cpu, 0))
        return EXIT_FAILURE;
    for (int broken = 1; broken <= 3; broken++)
        if (count_failures(cpu, broken) == 0) {
            fprintf(stderr, "%s: broken kernel %d passed\n", argv[1], broken);
            return EXIT_FAILURE;
        }
    return EXIT_SUCCESS;
}
