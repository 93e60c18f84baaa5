# Tests of src/format.
b2_test(test_gguf_read SRC unit/test_gguf_read.c LIBS b2_format)
b2_test(test_gguf_refuse SRC unit/test_gguf_refuse.c LIBS b2_format)
b2_test(test_gguf_write SRC unit/test_gguf_write.c LIBS b2_format)
b2_test(test_safetensors SRC unit/test_safetensors.c LIBS b2_format)
b2_test(test_modelfile SRC unit/test_modelfile.c LIBS b2_format)
b2_test(test_hf SRC unit/test_hf.c LIBS b2_format)
b2_test(test_meta SRC unit/test_meta.c LIBS b2_format)
