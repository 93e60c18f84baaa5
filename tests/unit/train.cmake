# Tests of src/train. Gradients are checked on the same sources compiled for F64.
set(B2_TRAIN_F64 attn conv delta embed gate glu head hidden layer layer_attn layer_delta linear lora mm net norm rope vec)
list(TRANSFORM B2_TRAIN_F64 REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/train/\\1.c")
b2_test(test_train_grad SRC unit/test_train_grad.c unit/mm_f64.c ${B2_TRAIN_F64}
    LIBS b2_model)
target_compile_definitions(test_train_grad PRIVATE TRAIN_F64)
b2_test(test_train_grad_more SRC unit/test_train_grad_more.c unit/mm_f64.c ${B2_TRAIN_F64}
    LIBS b2_model)
target_compile_definitions(test_train_grad_more PRIVATE TRAIN_F64)
b2_test(test_train_delta SRC unit/test_train_delta.c unit/mm_f64.c ${B2_TRAIN_F64}
    LIBS b2_model)
target_compile_definitions(test_train_delta PRIVATE TRAIN_F64)
b2_test(test_train SRC unit/test_train.c LIBS b2_train)
b2_test(test_dnn SRC unit/test_dnn.c LIBS b2_train)
b2_test(test_adam SRC unit/test_adam.c LIBS b2_train)
b2_test(test_latent SRC unit/test_latent.c LIBS b2_compress)
b2_test(test_file_space SRC unit/test_file_space.c LIBS b2_base)
b2_test(test_textkind SRC unit/test_textkind.c LIBS b2_compress)
b2_test(test_distill_data SRC unit/test_distill_data.c unit/tiny_model.c LIBS b2_compress)
b2_test(test_distill SRC unit/test_distill.c unit/tiny_model.c LIBS b2_compress)
b2_test(test_distill_qwen35 SRC unit/test_distill_qwen35.c
    LIBS variant b2_compress LABELS unit threads)
b2_test(test_distill_modes SRC unit/test_distill_modes.c unit/tiny_model.c LIBS b2_compress)
add_test(NAME e2e_distill
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_distill.sh
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_distill PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_compress_best
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_compress_best.sh
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_compress_best PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_distill_pruned COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_distill_pruned.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_distill_pruned PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS e2e)
add_test(NAME e2e_distill_data
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_distill_data.sh
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_distill_data PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
add_test(NAME e2e_distill_kill
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_distill_kill.sh
        $<TARGET_FILE:bonsai2_cli> $<TARGET_FILE:tiny_model>)
set_tests_properties(e2e_distill_kill PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 240 LABELS e2e)
