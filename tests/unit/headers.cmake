# cmake -P script: every header of src/ and include/ compiles alone and twice, and opens
# with its own name. CC, FLAGS (a list), ROOT and X86 (0 or 1) come from the test; WORK is
# scratch. Headers of kernel/x86 get the instruction sets that their sources get.
file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/src/*.h ${ROOT}/include/*.h)
list(LENGTH headers n)
if(n LESS 10)
    message(FATAL_ERROR "only ${n} headers found under ${ROOT}")
endif()
file(MAKE_DIRECTORY ${WORK})
set(bad 0)
foreach(header ${headers})
    file(STRINGS ${ROOT}/${header} second LIMIT_COUNT 2)
    get_filename_component(name ${header} NAME)
    if(NOT second MATCHES "^/\\*; \\* ${name} - ")
        message("${header}: does not begin with \"/*\\n * ${name} - its purpose\"")
        math(EXPR bad "${bad} + 1")
    endif()
    set(arch -DB2_X86=${X86} -DB2_ARM=0)
    if(header MATCHES "^src/kernel/x86/")
        if(NOT X86)
            continue()
        endif()
        list(APPEND arch -mavx2 -mfma -mf16c)
        if(header MATCHES "512")
            list(APPEND arch -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
        elseif(header MATCHES "amx")
            list(APPEND arch -mamx-tile -mamx-int8)
        endif()
    endif()
    if(header MATCHES "^src/kernel/arm/" AND (X86 OR header MATCHES "_body"))
        continue() # a body needs what its including file defines first
    endif()
    # A declaration at the end: a translation unit may not be empty.
    file(WRITE ${WORK}/alone.c
        "#include \"${ROOT}/${header}\"\n#include \"${ROOT}/${header}\"\nextern int alone;\n")
    execute_process(
        COMMAND ${CC} -std=c17 -fsyntax-only ${FLAGS} ${arch} -I${ROOT}/src
            -I${ROOT}/include alone.c
        WORKING_DIRECTORY ${WORK} RESULT_VARIABLE rc ERROR_VARIABLE text)
    if(NOT rc EQUAL 0)
        message("${header}: does not compile alone:\n${text}")
        math(EXPR bad "${bad} + 1")
    endif()
endforeach()
if(bad)
    message(FATAL_ERROR "${bad} of ${n} headers")
endif()
