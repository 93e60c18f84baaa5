# Tests of src/compress.
b2_test(test_recipe SRC unit/test_recipe.c LIBS b2_compress)
b2_test(test_ternarise SRC unit/test_ternarise.c LIBS b2_compress)
b2_test(test_fit SRC unit/test_fit.c LIBS b2_compress)
b2_test(test_rotate_fold SRC unit/test_rotate_fold.c LIBS b2_compress)
b2_test(test_budget SRC unit/test_budget.c LIBS b2_compress)
b2_test(test_pipeline SRC unit/test_pipeline.c unit/tiny_model.c LIBS b2_compress)
b2_test(test_pipeline_types SRC unit/test_pipeline_types.c unit/tiny_model.c LIBS b2_compress)
b2_test(test_compress_pad SRC unit/test_compress_pad.c unit/tiny_model.c LIBS b2_compress)

# The command itself, killed and resumed (e2e/), on a tiny and on the real model.
add_executable(tiny_model unit/tiny_model.c)
target_include_directories(tiny_model PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(tiny_model PRIVATE TINY_MODEL_MAIN)
target_link_libraries(tiny_model PRIVATE b2_format)
add_test(NAME e2e_compress_resume
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_compress_resume.sh
        $<TARGET_FILE:bonsai2_cli> tiny:$<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_compress_resume PROPERTIES TIMEOUT 120 LABELS e2e)
add_test(NAME model_compress_real
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_compress_real.sh
        $<TARGET_FILE:bonsai2_cli>)
set_tests_properties(model_compress_real PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS model)

# Error compensation; skipped without OpenBLAS.
b2_test(test_words SRC unit/test_words.c LIBS b2_compress m)
b2_test(test_compensate SRC unit/test_compensate.c LIBS b2_compress)
b2_test(test_tables SRC unit/test_tables.c LIBS b2_compress)
b2_test(test_slab SRC unit/test_slab.c LIBS b2_compress)
b2_test(test_calib SRC unit/test_calib.c LIBS b2_compress)
add_test(NAME e2e_words
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_words.sh
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_words PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_compress_normal
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_compress_normal.sh
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>
        ${CMAKE_CURRENT_SOURCE_DIR}/golden/arch)
set_tests_properties(e2e_compress_normal PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_remove COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_remove.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_remove PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS e2e)
add_test(NAME e2e_fold COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_fold.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:tiny_model> ${CMAKE_CURRENT_SOURCE_DIR}/golden/arch)
set_tests_properties(e2e_fold PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_zeros COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_zeros.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_zeros PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_contract COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_contract.py $<TARGET_FILE:bonsai2_cli>
    ${CMAKE_CURRENT_SOURCE_DIR}/golden/arch)
set_tests_properties(e2e_contract PROPERTIES TIMEOUT 60 LABELS e2e)
add_test(NAME e2e_self COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_self.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_self PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS e2e)
add_test(NAME e2e_tiers COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_tiers.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:tiny_model> ${B2_STORIES})
set_tests_properties(e2e_tiers PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS e2e)
b2_test(test_rotation_own SRC unit/test_rotation_own.c LIBS b2_compress)
b2_test(test_odd SRC unit/test_odd.c LIBS b2_compress)
b2_test(test_private SRC unit/test_private.c LIBS b2_format)
foreach(name contract compress_edges)
    add_test(NAME cli_${name} COMMAND Python3::Interpreter
        ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_${name}.py
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>)
    set_tests_properties(cli_${name} PROPERTIES
        SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS e2e)
endforeach()

# Analysis and pruning.
b2_test(test_sensitivity SRC unit/test_sensitivity.c LIBS b2_compress)
b2_test(test_prune_solve SRC unit/test_prune_solve.c LIBS b2_compress)
b2_test(test_prune_restore SRC unit/test_prune_restore.c LIBS b2_compress)
add_test(NAME e2e_analyze
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_analyze.py
        $<TARGET_FILE:bonsai2_cli> ${CMAKE_CURRENT_SOURCE_DIR}/golden)
set_tests_properties(e2e_analyze PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
