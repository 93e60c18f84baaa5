# Tests of text/, of model/vocab and of the tokenizer part of format/.
b2_test(test_utf8 SRC unit/test_utf8.c LIBS b2_text)
b2_test(test_tok_bpe SRC unit/test_tok_bpe.c LIBS b2_text)
b2_test(test_tok_vectors SRC unit/test_tok_vectors.c unit/tok_data.c LIBS b2_model)
# The same program over the texts beside the project (B2_DATA or ../shared/data).
add_test(NAME test_tok_texts COMMAND test_tok_vectors texts)
set_tests_properties(test_tok_texts PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS unit)
b2_test(test_tok_spm SRC unit/test_tok_spm.c LIBS b2_text)
# In four parts, so that each stays short.
b2_test(test_tok_speed SRC unit/test_tok_speed.c LIBS b2_text TIMEOUT 300 ARGS 0 4)
foreach(part 1 2 3)
    add_test(NAME test_tok_speed_${part} COMMAND test_tok_speed ${part} 4)
    set_tests_properties(test_tok_speed_${part} PROPERTIES TIMEOUT 300 LABELS unit)
endforeach()
b2_test(test_hf_tokenizer SRC unit/test_hf_tokenizer.c LIBS b2_model)

b2_test(test_utf8_width SRC unit/test_utf8_width.c LIBS b2_text)
b2_test(test_jinja SRC unit/test_jinja.c LIBS b2_text)
b2_test(test_jinja_limits SRC unit/test_jinja_limits.c LIBS b2_text TIMEOUT 120)

# The command, seen from outside.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET bonsai2_cli)
    add_test(NAME cli_tokenize
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_tokenize.py
            $<TARGET_FILE:bonsai2_cli> ${CMAKE_CURRENT_SOURCE_DIR}/golden/tokenizer)
    set_tests_properties(cli_tokenize PROPERTIES TIMEOUT 60 LABELS cli)
    add_test(NAME cli_template
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_template.py
            $<TARGET_FILE:bonsai2_cli> ${CMAKE_CURRENT_SOURCE_DIR}/golden)
    set_tests_properties(cli_template PROPERTIES TIMEOUT 60 LABELS cli)
endif()
