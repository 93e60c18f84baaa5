# Kernels and the backend over them.
add_library(b2_kt STATIC kernels/kt.c)
target_include_directories(b2_kt PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(b2_kt PUBLIC b2_kernel)
b2_test(test_kernels SRC kernels/test_kernels.c LIBS b2_kt LABELS kernels TIMEOUT 240)
b2_test(test_kernel_broken SRC kernels/test_broken.c LIBS b2_kt LABELS kernels TIMEOUT 240)
if(B2_AMX_FLAGS) # the level's own code over emulated tiles: library b2_amx_emulated
    add_library(b2_amx_emulated OBJECT ${CMAKE_SOURCE_DIR}/src/kernel/x86/gemm_amx.c
        kernels/amx_emulated.c)
    target_include_directories(b2_amx_emulated PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
        ${CMAKE_SOURCE_DIR}/src
        ${CMAKE_SOURCE_DIR}/include)
    target_compile_definitions(b2_amx_emulated PRIVATE B2_AMX_EMULATED=1)
    target_compile_options(b2_amx_emulated PRIVATE ${B2_AMX_FLAGS})
    b2_test(test_amx SRC kernels/test_amx.c $<TARGET_OBJECTS:b2_amx_emulated> LIBS b2_kt
        LABELS kernels)
endif()
b2_test(test_backend SRC unit/test_backend.c LIBS b2_backend LABELS unit threads)
b2_test(test_backend_matmul SRC unit/test_backend_matmul.c LIBS b2_backend
    LABELS unit threads)
b2_test(test_backend_pad SRC unit/test_backend_pad.c LIBS b2_backend
    LABELS unit threads)
b2_test(test_backend_tiers SRC unit/test_backend_tiers.c LIBS b2_backend
    LABELS unit threads)
b2_test(test_backend_repack SRC unit/test_backend_repack.c LIBS b2_backend
    LABELS unit threads)
b2_test(test_backend_attention SRC unit/test_backend_attention.c LIBS b2_backend
    LABELS unit threads)
b2_test(test_backend_kv SRC unit/test_backend_kv.c LIBS b2_backend m
    LABELS unit threads)
target_link_options(test_backend_attention PRIVATE -Wl,--wrap=malloc -Wl,--wrap=calloc
    -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc)
