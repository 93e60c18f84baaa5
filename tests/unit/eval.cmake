# Tests of src/eval.
b2_test(test_textset SRC unit/test_textset.c LIBS b2_eval)
b2_test(test_logprob SRC unit/test_logprob.c LIBS b2_eval)
# Brings its own session_* functions, so the model's are never linked.
b2_test(test_divergence SRC unit/test_divergence.c LIBS b2_eval)
# Two passes of 32 windows take some three minutes on two cores.
b2_test(test_eval_real SRC model/test_eval_real.c LIBS b2_eval LABELS model TIMEOUT 900)
set_tests_properties(test_eval_real PROPERTIES PROCESSORS 2)

# The command from the outside, on the small model that unit/model.cmake makes.
add_test(NAME cli_eval COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_eval.py
    $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
set_tests_properties(cli_eval PROPERTIES TIMEOUT 60 LABELS unit)
