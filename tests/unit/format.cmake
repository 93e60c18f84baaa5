# Tests of src/format.
b2_test(test_gguf_read SRC unit/test_gguf_read.c LIBS b2_format)
b2_test(test_gguf_refuse SRC unit/test_gguf_refuse.c LIBS b2_format)
b2_test(test_gguf_write SRC unit/test_gguf_write.c LIBS b2_format)
b2_test(test_parts_out SRC unit/test_parts_out.c LIBS b2_format)
b2_test(test_safetensors SRC unit/test_safetensors.c LIBS b2_format)
b2_test(test_modelfile SRC unit/test_modelfile.c LIBS b2_format)
b2_test(test_tail SRC unit/test_tail.c LIBS b2_format)
b2_test(test_tiers SRC unit/test_tiers.c LIBS b2_format)
b2_test(test_hf SRC unit/test_hf.c LIBS b2_format)
b2_test(test_meta SRC unit/test_meta.c LIBS b2_format)

# The command on good and hostile files, seen from outside.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET bonsai2_cli)
    add_test(NAME cli_inspect
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_inspect.py
            $<TARGET_FILE:bonsai2_cli> ${CMAKE_CURRENT_SOURCE_DIR}/golden/format)
    set_tests_properties(cli_inspect PROPERTIES TIMEOUT 60 LABELS cli)
endif()
b2_test(test_hf_sampling SRC unit/test_hf_sampling.c LIBS b2_format m)
