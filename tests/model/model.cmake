# Tests on the real models; skipped by name where they have not been fetched.
b2_test(test_goldens SRC model/test_goldens.c LIBS b2_model PkgConfig::CJSON m
    ARGS smollm2 LABELS model TIMEOUT 300)
add_test(NAME test_goldens_gemma3 COMMAND test_goldens gemma3)
set_tests_properties(test_goldens_gemma3 PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS model)

# Twins of further tests of unit/model.cmake, each allocation failing once (oom/oom.c).
foreach(name test_rotation test_generate test_api)
    if(COMMAND b2_oom AND NOT TARGET oom_${name})
        b2_oom(${name})
    endif()
endforeach()
