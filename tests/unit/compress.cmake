# Tests of src/compress.
b2_test(test_recipe SRC unit/test_recipe.c LIBS b2_compress)
b2_test(test_ternarise SRC unit/test_ternarise.c LIBS b2_compress)
b2_test(test_fit SRC unit/test_fit.c LIBS b2_compress)
b2_test(test_rotate_fold SRC unit/test_rotate_fold.c LIBS b2_compress)
b2_test(test_budget SRC unit/test_budget.c LIBS b2_compress)
b2_test(test_pipeline SRC unit/test_pipeline.c unit/tiny_model.c LIBS b2_compress)
