# Tests of src/format.
b2_test(test_gguf_read SRC unit/test_gguf_read.c LIBS b2_format)
