# Tests on the real model; skipped by name where it has not been fetched.
b2_test(test_goldens SRC model/test_goldens.c LIBS b2_model PkgConfig::CJSON m
    LABELS model TIMEOUT 300)

# Twins of further tests of unit/model.cmake, each allocation failing once (oom/oom.c).
foreach(name test_rotation test_generate test_api)
    if(COMMAND b2_oom AND NOT TARGET oom_${name})
        b2_oom(${name})
    endif()
endforeach()
