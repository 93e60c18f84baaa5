# Tests on the real model; skipped by name where it has not been fetched.
b2_test(test_goldens SRC model/test_goldens.c LIBS b2_model PkgConfig::CJSON m
    LABELS model TIMEOUT 300)
