# The same targets as ordinary tests over their corpus, with any compiler.
function(b2_fuzz name)
    set(dir ${CMAKE_CURRENT_SOURCE_DIR}/fuzz)
    add_executable(replay_${name} fuzz/fuzz_${name}.c fuzz/replay_main.c)
    target_include_directories(replay_${name} PRIVATE ${dir})
    target_link_libraries(replay_${name} PRIVATE ${ARGN})
    add_test(NAME replay_${name} COMMAND replay_${name} ${dir}/corpus/${name})
    set_tests_properties(replay_${name} PROPERTIES TIMEOUT 60 LABELS "unit;fuzz")
endfunction()

include(fuzz/targets.cmake)
