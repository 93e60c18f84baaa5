# Kernels and the backend over them.
set(KT_SRC kernels/kt.c kernels/check_dot.c kernels/check_float.c kernels/check_unpack.c)
b2_test(test_kernels SRC kernels/test_kernels.c ${KT_SRC} LIBS b2_kernel LABELS kernels)
b2_test(test_kernel_selftest SRC kernels/selftest.c ${KT_SRC} LIBS b2_kernel
    LABELS kernels)
b2_test(test_backend_matmul SRC unit/test_backend_matmul.c LIBS b2_backend
    LABELS unit threads)
b2_test(test_backend_attention SRC unit/test_backend_attention.c LIBS b2_backend
    LABELS unit threads)
target_link_options(test_backend_attention PRIVATE -Wl,--wrap=malloc -Wl,--wrap=calloc
    -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc)
