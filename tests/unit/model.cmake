# Tests of src/model and src/api. Most run on changed copies of the small trained model
# stories260K, which is converted to GGUF when the tests are built.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(B2_STORIES ${CMAKE_BINARY_DIR}/stories260K.gguf)
set(B2_STORIES_DIR ${CMAKE_CURRENT_SOURCE_DIR}/golden/stories260K)
add_custom_command(OUTPUT ${B2_STORIES}
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/llama2c_to_gguf.py
        ${B2_STORIES_DIR}/stories260K.bin ${B2_STORIES_DIR}/tok512.bin ${B2_STORIES}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/llama2c_to_gguf.py
        ${B2_STORIES_DIR}/stories260K.bin ${B2_STORIES_DIR}/tok512.bin
    VERBATIM)
add_custom_target(stories DEPENDS ${B2_STORIES})
add_library(variant STATIC unit/variant.c)
add_dependencies(variant stories)
target_include_directories(variant PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(variant PUBLIC B2_STORIES="${B2_STORIES}")
target_link_libraries(variant PUBLIC b2_model)

b2_test(test_hparams SRC unit/test_hparams.c LIBS b2_model)
b2_test(test_rotation SRC unit/test_rotation.c LIBS variant)
b2_test(test_weights SRC unit/test_weights.c LIBS variant)
b2_test(test_session SRC unit/test_session.c LIBS variant LABELS unit threads)
b2_test(test_cache SRC unit/test_cache.c LIBS variant m LABELS unit threads)
b2_test(test_sampler SRC unit/test_sampler.c LIBS b2_model m)
b2_test(test_generate SRC unit/test_generate.c LIBS variant)
b2_test(test_plan SRC unit/test_plan.c LIBS variant)
# Sees the public header alone, and the joined archive that is installed.
b2_test(test_api SRC unit/test_api.c LIBS bonsai2)
add_dependencies(test_api stories)
target_compile_definitions(test_api PRIVATE B2_STORIES="${B2_STORIES}")
if(NOT APPLE) # its linker cannot wrap
    b2_test(test_decode_alloc SRC unit/test_decode_alloc.c LIBS variant)
    foreach(function malloc calloc realloc aligned_alloc)
        target_link_options(test_decode_alloc PRIVATE -Wl,--wrap=${function})
    endforeach()
endif()
b2_test(test_arch SRC unit/test_arch.c LIBS variant b2_compress m LABELS unit threads)
b2_test(test_qwen35 SRC unit/test_qwen35.c LIBS variant m)
b2_test(test_rotated SRC unit/test_rotated.c LIBS variant b2_compress m LABELS unit threads)
b2_test(test_recurrent SRC unit/test_recurrent.c LIBS variant LABELS unit threads)
b2_test(test_together SRC unit/test_together.c LIBS variant LABELS unit threads)
b2_test(test_synth SRC unit/test_synth.c LIBS b2_model)
b2_test(test_chat SRC unit/test_chat.c LIBS b2_model)
