# Whole programs, from the outside.
function(b2_e2e name)
    cmake_parse_arguments(T "" "TIMEOUT" "COMMAND" ${ARGN})
    add_test(NAME ${name} COMMAND ${T_COMMAND})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT} LABELS e2e)
endfunction()

b2_e2e(e2e_run TIMEOUT 120 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_run.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(cli_streams TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_streams.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(cli_outputs TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_outputs.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(cli_synth TIMEOUT 120 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_synth.py $<TARGET_FILE:bonsai2_cli>)
b2_e2e(e2e_i2_s TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_i2_s.py $<TARGET_FILE:bonsai2_cli>)
b2_e2e(e2e_real TIMEOUT 240 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_real.py $<TARGET_FILE:bonsai2_cli>)
b2_e2e(e2e_install TIMEOUT 120 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_install.sh
    ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR} ${B2_STORIES} ${CMAKE_C_COMPILER} "${CMAKE_C_FLAGS}")
b2_e2e(e2e_folder TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_folder.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(e2e_folder_arch TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_folder_arch.py $<TARGET_FILE:bonsai2_cli>
    ${CMAKE_CURRENT_SOURCE_DIR}/golden)
b2_e2e(e2e_folder_real TIMEOUT 240 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_folder.py $<TARGET_FILE:bonsai2_cli>)
b2_e2e(e2e_tail TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_tail.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(e2e_tail_real TIMEOUT 240 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_tail.py $<TARGET_FILE:bonsai2_cli> real)
b2_e2e(e2e_chat TIMEOUT 120 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_chat.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(e2e_chat_real TIMEOUT 120 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_chat_real.py $<TARGET_FILE:bonsai2_cli>
    ${CMAKE_CURRENT_SOURCE_DIR}/golden)
b2_e2e(cli_plan TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_plan.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
b2_e2e(cli_repack TIMEOUT 240 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_repack.py $<TARGET_FILE:bonsai2_cli>)
b2_e2e(e2e_memory_real TIMEOUT 240 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_memory_real.py $<TARGET_FILE:bonsai2_cli>)
b2_e2e(e2e_collapse TIMEOUT 60 COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_collapse.py $<TARGET_FILE:bonsai2_cli> ${B2_STORIES}
    ${CMAKE_SOURCE_DIR})
