# Tests of export: compress/convert and format/hf_write.
b2_test(test_convert SRC unit/test_convert.c LIBS b2_compress)
b2_test(test_hf_write SRC unit/test_hf_write.c LIBS variant b2_compress)
if(TARGET bonsai2_cli)
    add_test(NAME test_export COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_export.sh
        $<TARGET_FILE:bonsai2_cli> ${B2_STORIES})
    set_tests_properties(test_export PROPERTIES TIMEOUT 60 LABELS unit)
endif()
