# Tests of src/eval.
b2_test(test_textset SRC unit/test_textset.c LIBS b2_eval)
b2_test(test_logprob SRC unit/test_logprob.c LIBS b2_eval)
# Brings its own session_* functions, so the model's are never linked.
b2_test(test_divergence SRC unit/test_divergence.c LIBS b2_eval)
# Two passes of 32 windows take some three minutes on two cores.
b2_test(test_eval_real SRC model/test_eval_real.c LIBS b2_eval ARGS smollm2
    LABELS model TIMEOUT 900)
add_test(NAME test_eval_gemma3 COMMAND test_eval_real gemma3)
set_tests_properties(test_eval_gemma3 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300
    LABELS model)
set_tests_properties(test_eval_real test_eval_gemma3 PROPERTIES PROCESSORS 2)

# The command from the outside, on the small model that unit/model.cmake makes.
add_test(NAME cli_eval COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_eval.py
    $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
set_tests_properties(cli_eval PROPERTIES TIMEOUT 60 LABELS unit)

# selftest and bench, and selftest with a kernel that is broken on purpose.
add_executable(selftest_broken cli/selftest_broken.c
    ${CMAKE_SOURCE_DIR}/src/cli/cmd_selftest.c ${CMAKE_SOURCE_DIR}/src/cli/cli.c
    ${CMAKE_SOURCE_DIR}/src/cli/modeltest.c
    ${CMAKE_SOURCE_DIR}/src/cli/terminal.c)
target_link_libraries(selftest_broken PRIVATE b2_model PkgConfig::CJSON)
target_link_options(selftest_broken PRIVATE -Wl,--wrap=kernels_init)
add_test(NAME cli_selftest COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_selftest.py $<TARGET_FILE:bonsai2_cli>
    $<TARGET_FILE:selftest_broken> ${B2_STORIES})
set_tests_properties(cli_selftest PROPERTIES TIMEOUT 400 LABELS unit)

# Ability: instructions, tasks, log-likelihoods beside lm-evaluation-harness's.
b2_test(test_ifeval SRC unit/test_ifeval.c LIBS b2_eval)
b2_test(test_items SRC unit/test_items.c LIBS b2_eval m)
b2_test(test_table SRC unit/test_table.c LIBS b2_eval)
b2_test(test_task SRC unit/test_task.c LIBS b2_eval)
b2_test(test_task_score SRC unit/test_task_score.c LIBS b2_eval variant m)
b2_test(test_task_agree SRC model/test_task_agree.c LIBS b2_eval m LABELS model
    TIMEOUT 300)
set_tests_properties(test_task_agree PROPERTIES PROCESSORS 2)
add_test(NAME cli_eval_task COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_eval_task.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
set_tests_properties(cli_eval_task PROPERTIES TIMEOUT 120 LABELS unit)

b2_test(test_bootstrap SRC unit/test_bootstrap.c LIBS b2_eval)
b2_test(test_loops SRC unit/test_loops.c LIBS b2_eval)
b2_test(test_retention SRC unit/test_retention.c LIBS b2_eval)
b2_test(test_teacher SRC unit/test_teacher.c LIBS b2_eval)

# The measures from the outside, on small models; figures recomputed from kept scores.
add_test(NAME cli_eval_more COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_eval_more.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES}
    ${CMAKE_SOURCE_DIR})
set_tests_properties(cli_eval_more PROPERTIES TIMEOUT 120 LABELS unit)
