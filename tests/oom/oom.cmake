# Each test named here gets a twin, oom_NAME, that runs it again and again with the n-th
# allocation failing (oom.c). The twin takes sources and libraries from the test itself.
# A failed assertion is fine there; a crash, a sanitizer report or a hang is not.
set(B2_OOM_TESTS
    test_arena test_cgroup test_error test_file test_file_faults test_opt test_pool
    test_progress test_reader test_str
    test_dtype test_quant_basic test_quant_k test_quant_plain test_ternary
    test_hf_sampling test_meta test_gguf_read test_gguf_refuse test_gguf_write test_safetensors
    test_modelfile test_parts_out test_hf
    test_utf8 test_jinja test_tok_bpe test_tok_spm test_hf_tokenizer
    test_hparams test_weights test_session test_sampler test_plan test_qwen35 test_recurrent
    test_textset test_logprob test_divergence test_bootstrap test_loops test_retention test_teacher
    test_recipe test_ternarise test_fit test_budget test_convert test_hf_write
    test_rotation test_generate test_api test_backend test_backend_matmul)

function(b2_oom name)
    add_executable(oom_${name} oom/oom.c)
    foreach(what SOURCES INCLUDE_DIRECTORIES COMPILE_DEFINITIONS LINK_LIBRARIES LINK_OPTIONS)
        get_target_property(value ${name} ${what})
        if(value)
            set_property(TARGET oom_${name} APPEND PROPERTY ${what} ${value})
        endif()
    endforeach()
    foreach(function malloc calloc realloc aligned_alloc posix_memalign)
        target_link_options(oom_${name} PRIVATE -Wl,--wrap=${function})
    endforeach()
    add_test(NAME oom_${name} COMMAND oom_${name})
    set_tests_properties(oom_${name} PROPERTIES
        SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS oom)
endfunction()

if(NOT APPLE) # its linker cannot wrap
    foreach(name ${B2_OOM_TESTS})
        if(TARGET ${name})
            b2_oom(${name})
        endif()
    endforeach()
endif()
