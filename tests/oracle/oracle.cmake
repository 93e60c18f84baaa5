# Tests against llama.cpp (as a Python wheel); skipped by name without tools/fetch_oracle.sh
# or tools/fetch_model.sh. The F32 export is made once and used by the test behind it.
add_executable(dump_logits oracle/dump_logits.c)
target_link_libraries(dump_logits PRIVATE b2_model)

function(b2_oracle name script)
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/oracle/run.sh ${script})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS oracle
        RUN_SERIAL ON ENVIRONMENT
        "B2_PROGRAM=$<TARGET_FILE:bonsai2_cli>;B2_DUMP_LOGITS=$<TARGET_FILE:dump_logits>;B2_STORIES=${B2_STORIES}")
endfunction()

b2_oracle(oracle_arch test_arch.py)
b2_oracle(oracle_export test_export.py)
b2_oracle(oracle_folder test_folder.py)
b2_oracle(oracle_logits test_logits.py)
b2_oracle(oracle_prune test_prune.py)
b2_oracle(oracle_synth test_synth.py)
b2_oracle(oracle_types test_types.py)
set_tests_properties(oracle_export PROPERTIES FIXTURES_SETUP oracle_f32)
set_tests_properties(oracle_logits PROPERTIES FIXTURES_REQUIRED oracle_f32)
