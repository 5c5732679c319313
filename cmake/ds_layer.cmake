# ds_layer(NAME core SOURCES a.cpp ... [CUDA a.cu ...] [DEPENDS other layers] [LIBS third-party targets]
#          [PRECOMPILED target] [CONTROL])
#   One static library per folder. DEPENDS is checked against the layer table in tests/style/layering.py's
#   rules file, so a link that the table forbids fails at configure time as well as in the style test. CONTROL says that
#   nothing in it computes, so it is compiled quickly. PRECOMPILED names the target that has the precompiled header of
#   its sources; ds_precompiled, or ds_precompiled_control, where it is left out.
# ds_test(LAYER core SOURCES a_test.cpp ... [DEPENDS layers] [LIBS targets] [LABELS unit])
#   One test program per call; CTest gets one entry per source file.
# ds_test_on_devices(optim [selection])
#   The layer's test program on the emulated device and, where nvcc is, on the first GPU (skipped without one): its
#   cases with the tag [device], or what the selection names.
# ds_bench(NAME all_reduce_bench SOURCES ... DEPENDS ...)
#   A benchmark program in build/bin; never run by CTest.

function(ds_target_defaults target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion>)
  # GCC 12 reports bounds and lifetimes wrongly in code that sanitizers have instrumented.
  if(NOT DS_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${ds_cuda_flags}>)
  target_link_libraries(${target} PUBLIC ds_flags)
endfunction()

# Of the sources of a library or a program, which saves them most of their parsing. Clang, which builds the fuzz targets
# alone, checks its own by times, of which ccache knows nothing.
function(ds_precompile target precompiled)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  endif()
endfunction()

# Several sources of a folder as one, in a file of the build that includes them: it instantiates templates of the standard
# library once for all of them, which is half of the time from nothing. They are named from the root, so that a compiler
# cache has them for every work tree (CMake's own UNITY_BUILD names whole paths). Sources that Highway compiles once per
# instruction set include themselves, so they stay alone, as do those with options of their own, and those that no program
# links yet, or every program would have them. The warning is of types in unnamed namespaces of headers.
function(ds_join_sources target)
  if(NOT DS_JOINED)
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  file(STRINGS ${PROJECT_SOURCE_DIR}/tests/style/unlinked.txt unlinked REGEX "^[^#]")
  list(TRANSFORM unlinked REPLACE ":.*" "")
  file(RELATIVE_PATH here ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^[^/].*\\.cpp$")
  set(folders)
  foreach(source ${sources})
    file(STRINGS ${source} includes_itself REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_filename_component(stem ${source} NAME_WE)
    if(NOT includes_itself AND NOT options AND NOT definitions AND NOT "${here}/${stem}" IN_LIST unlinked)
      get_filename_component(folder ${source} DIRECTORY)
      string(MAKE_C_IDENTIFIER "of_${folder}" folder)
      list(APPEND folders ${folder})
      list(APPEND ${folder} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    set(number 0)
    while(${folder})
      list(SUBLIST ${folder} 0 8 joined)
      list(REMOVE_ITEM ${folder} ${joined})
      set_source_files_properties(${joined} PROPERTIES HEADER_FILE_ONLY ON)
      list(TRANSFORM joined REPLACE "(.+)" "#include \"${here}/\\1\"")
      list(JOIN joined "\n" text)
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/joined/${target}_${folder}_${number}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text}\n" @ONLY)
      target_sources(${target} PRIVATE ${unit})
      math(EXPR number "${number} + 1")
    endwhile()
  endforeach()
endfunction()

# Sources with options of their own, with which a precompiled header cannot be used.
function(ds_compile_options options)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# Sources of unit tests are half of a build, and what a test computes is the libraries' work; what the control plane does
# waits for others. Compiling those takes half of the time with -Og, with which GCC 12 takes more values for uninitialised
# that are not. A build without tests is one to be packed, and is optimised as a whole.
function(ds_compile_quickly target)
  if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND DS_BUILD_TESTS AND NOT DS_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Og>
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# The .cu files of a layer: for the emulated device they are C++.
function(ds_cuda_half target)
  if(DS_CUDA STREQUAL "absent" OR NOT ARGN)
    return()
  endif()
  if(DS_CUDA STREQUAL "emulated")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
  endif()
  target_sources(${target} PRIVATE ${ARGN})
endfunction()

function(ds_layer)
  cmake_parse_arguments(ARG "CONTROL" "NAME;PRECOMPILED" "SOURCES;CUDA;DEPENDS;LIBS" ${ARGN})
  if(NOT ARG_PRECOMPILED AND ARG_CONTROL)
    set(ARG_PRECOMPILED ds_precompiled_control)
  elseif(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED ds_precompiled)
  endif()
  add_library(ds_${ARG_NAME} STATIC ${ARG_SOURCES})
  ds_cuda_half(ds_${ARG_NAME} ${ARG_CUDA})
  ds_target_defaults(ds_${ARG_NAME})
  if(ARG_CONTROL)
    ds_compile_quickly(ds_${ARG_NAME})
  endif()
  ds_precompile(ds_${ARG_NAME} ${ARG_PRECOMPILED})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL ds_join_sources ds_${ARG_NAME})")  # when they have their options
  list(TRANSFORM ARG_DEPENDS PREPEND ds_)
  target_link_libraries(ds_${ARG_NAME} PUBLIC ${ARG_DEPENDS} ${ARG_LIBS})
endfunction()

# Sources whose accesses mean nothing to ThreadSanitizer: they play the threads that it is to see.
function(ds_unseen_by_tsan)
  if(DS_SANITIZE STREQUAL "thread")
    ds_compile_options("-fno-sanitize=thread" ${ARGN})
  endif()
endfunction()

# Compiles the failpoints (core/status/failpoint.h) of these targets in, where they are wanted.
function(ds_failpoints)
  if(DS_FAILPOINTS)
    foreach(target ${ARGN})
      target_compile_definitions(${target} PRIVATE DS_FAILPOINTS)
    endforeach()
  endif()
endfunction()

# The current folder of unit tests: an empty one, because what lies in the checkout (runs, data, a configuration) is its
# owner's, and no test may depend on it or add to it.
set(DS_TESTS_BEGIN_HERE ${PROJECT_BINARY_DIR}/empty)
file(MAKE_DIRECTORY ${DS_TESTS_BEGIN_HERE})

# HEADERS are those that most of the sources include: they are parsed once, and who changes one compiles all sources.
function(ds_test)
  cmake_parse_arguments(ARG "" "LAYER" "SOURCES;DEPENDS;LIBS;LABELS;HEADERS" ${ARGN})
  if(NOT DS_BUILD_TESTS)
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set(target ${ARG_LAYER}_tests)
  list(JOIN ARG_LABELS "_" suffix)
  if(NOT suffix STREQUAL "unit")
    string(APPEND target _${suffix})
  endif()
  add_executable(${target} ${ARG_SOURCES})
  ds_target_defaults(${target})
  ds_compile_quickly(${target})
  list(TRANSFORM ARG_DEPENDS PREPEND ds_)
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} ${ARG_LIBS} ds_test_files ds_test_stream
    ds_catch ds_device_name)
  if(ARG_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} PRIVATE <core/precompiled/standard.h> <tests/support/catch.h> ${ARG_HEADERS})
  else()
    ds_precompile(${target} ds_catch)
  endif()
  foreach(source ${ARG_SOURCES})
    get_filename_component(stem ${source} NAME_WE)
    if(stem MATCHES "_test$")
      add_test(NAME ${ARG_LAYER}.${stem} COMMAND ${target} -\# "[#${stem}]"
               WORKING_DIRECTORY ${DS_TESTS_BEGIN_HERE})
      set_tests_properties(${ARG_LAYER}.${stem} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
      if(DS_SANITIZE STREQUAL "thread")
        set_property(TEST ${ARG_LAYER}.${stem} PROPERTY ENVIRONMENT
          "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
      endif()
    endif()
  endforeach()
endfunction()

function(ds_test_on_devices layer)
  if(NOT DS_BUILD_TESTS)
    return()
  endif()
  set(selection "[device]")
  if(ARGC GREATER 1)
    set(selection "${ARGV1}")
  endif()
  set(on_device)
  if(DS_CUDA STREQUAL "emulated")
    list(APPEND on_device "on_emulated_device|${layer}_tests|emulated")
  elseif(DS_EMULATED)
    list(APPEND on_device "on_emulated_device|${DS_EMULATED}/${layer}_tests|emulated")
  endif()
  if(DS_CUDA STREQUAL "runtime")
    list(APPEND on_device "on_gpu|${layer}_tests|cuda:0")
  endif()
  foreach(one ${on_device})
    string(REPLACE "|" ";" one "${one}")
    list(GET one 0 name)
    list(GET one 1 program)
    list(GET one 2 device)
    add_test(NAME ${layer}.${name} COMMAND ${program} --device ${device} "${selection}"
             WORKING_DIRECTORY ${DS_TESTS_BEGIN_HERE})
    set_tests_properties(${layer}.${name} PROPERTIES LABELS "unit;${device}" TIMEOUT 900 SKIP_RETURN_CODE 77
                         COST 500)  # long ones begin first, or the last minutes are theirs alone
  endforeach()
endfunction()

function(ds_bench)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS;LIBS" ${ARGN})
  if(NOT DS_BUILD_BENCH)
    return()
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  ds_target_defaults(${ARG_NAME})
  ds_precompile(${ARG_NAME} ds_precompiled_programs)
  list(TRANSFORM ARG_DEPENDS PREPEND ds_)
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPENDS} ${ARG_LIBS})
endfunction()
