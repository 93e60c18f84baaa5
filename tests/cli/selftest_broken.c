/*
 * selftest_broken.c - `bonsai2 selftest` on a table with one broken kernel.
 *
 * Linked with --wrap=kernels_init: tables above the scalar one forget a weight's sign in
 * the F32 product. test_selftest.py expects exit code 1 and the kernel's name.
 */
#include "cli/cli.h"
#include "kernel/variants.h"

void __real_kernels_init(struct kernels *k, unsigned cpu);
void __wrap_kernels_init(struct kernels *k, unsigned cpu);

static void broken_fdot(float *y, int64_t y_step, const struct kf_mat *w,
                        const struct kf_mat *x, int64_t n)
{
    kernel_fdot_c(y, y_step, w, x, n);
    if (n > 0 && w->rows > 0 && x->rows > 0)
        y[0] = -y[0];
}

void __wrap_kernels_init(struct kernels *k, unsigned cpu)
{
    __real_kernels_init(k, cpu);
    if (cpu)
        k->fdot = broken_fdot;
}

int main(int argc, char **argv)
{
    return cmd_selftest(argc, argv);
}
