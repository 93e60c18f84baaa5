# Tests of base/ and of what the commands share, and one that compiles every header alone.
b2_test(test_error SRC unit/test_error.c LIBS b2_base)
b2_test(test_arena SRC unit/test_arena.c LIBS b2_base)
b2_test(test_reader SRC unit/test_reader.c LIBS b2_base)
b2_test(test_str SRC unit/test_str.c LIBS b2_base)
b2_test(test_rng SRC unit/test_rng.c LIBS b2_base)
b2_test(test_progress SRC unit/test_progress.c LIBS b2_base)
b2_test(test_opt SRC unit/test_opt.c LIBS b2_base)
b2_test(test_cpu SRC unit/test_cpu.c LIBS b2_base)
b2_test(test_cgroup SRC unit/test_cgroup.c LIBS b2_base)
b2_test(test_memory SRC unit/test_memory.c LIBS b2_base)
b2_test(test_pool SRC unit/test_pool.c LIBS b2_base LABELS unit threads)
b2_test(test_file SRC unit/test_file.c LIBS b2_base)
if(NOT APPLE) # its linker cannot wrap
    b2_test(test_file_faults SRC unit/test_file_faults.c LIBS b2_base)
    target_link_options(test_file_faults PRIVATE
        -Wl,--wrap=pwrite -Wl,--wrap=fsync -Wl,--wrap=link)
endif()
if(TARGET bonsai2_cli)
    # The program's own objects: a source is compiled once.
    b2_test(test_cli LIBS b2_base PkgConfig::CJSON SRC unit/test_cli.c
        "$<FILTER:$<TARGET_OBJECTS:bonsai2_cli>,INCLUDE,/cli/(cli|terminal)[.]c>")
    b2_test(test_think LIBS b2_base SRC unit/test_think.c
        "$<FILTER:$<TARGET_OBJECTS:bonsai2_cli>,INCLUDE,/cli/think[.]c>")
    add_test(NAME test_main COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_main.sh
        $<TARGET_FILE:bonsai2_cli>)
    set_tests_properties(test_main PROPERTIES TIMEOUT 60 LABELS unit)
endif()

set(flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wundef -Werror)
foreach(dir ${CJSON_INCLUDE_DIRS} ${PCRE2_INCLUDE_DIRS} ${UTF8PROC_INCLUDE_DIRS})
    list(APPEND flags -I${dir})
endforeach()
set(x86 0)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(x86 1)
endif()
add_test(NAME test_headers COMMAND ${CMAKE_COMMAND} -DCC=${CMAKE_C_COMPILER} -DX86=${x86}
    "-DFLAGS=${flags}" -DROOT=${CMAKE_SOURCE_DIR} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/headers
    -P ${CMAKE_CURRENT_SOURCE_DIR}/unit/headers.cmake)
set_tests_properties(test_headers PROPERTIES TIMEOUT 120 LABELS unit)

# Contains programs; where the system has no namespaces it says so and is skipped.
b2_test(test_sandbox SRC unit/test_sandbox.c LIBS b2_base)
add_test(NAME test_sandbox_user COMMAND test_sandbox user)
set_tests_properties(test_sandbox_user PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 60
    LABELS unit)
