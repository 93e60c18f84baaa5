# Kernels and the backend over them.
set(KT_SRC kernels/kt.c kernels/check_dot.c kernels/check_float.c kernels/check_unpack.c)
b2_test(test_kernels SRC kernels/test_kernels.c ${KT_SRC} LIBS b2_kernel LABELS kernels)
b2_test(test_kernel_selftest SRC kernels/selftest.c ${KT_SRC} LIBS b2_kernel
    LABELS kernels)
