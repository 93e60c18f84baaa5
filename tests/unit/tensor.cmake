# Tests of src/tensor.
b2_test(test_dtype SRC unit/test_dtype.c LIBS b2_tensor)
b2_test(test_f16 SRC unit/test_f16.c LIBS b2_tensor)
b2_test(test_hadamard SRC unit/test_hadamard.c LIBS b2_tensor)
b2_test(test_quant_basic SRC unit/test_quant_basic.c LIBS b2_tensor)
b2_test(test_quant_k SRC unit/test_quant_k.c LIBS b2_tensor)
b2_test(test_quant_plain SRC unit/test_quant_plain.c LIBS b2_tensor)
b2_test(test_ternary SRC unit/test_ternary.c LIBS b2_tensor)
