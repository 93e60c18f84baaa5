# Tests of export: compress/convert and format/hf_write.
b2_test(test_convert SRC unit/test_convert.c LIBS b2_compress)
b2_test(test_hf_write SRC unit/test_hf_write.c LIBS variant b2_compress)
