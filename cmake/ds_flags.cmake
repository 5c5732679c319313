# ds_flags: what every target of ours is compiled and linked with (hardening, sanitizers, threads).
add_library(ds_flags INTERFACE)
find_package(Threads REQUIRED)
target_link_libraries(ds_flags INTERFACE Threads::Threads)
if(DS_SANITIZE)
  target_compile_options(ds_flags INTERFACE -fsanitize=${DS_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ds_flags INTERFACE -fsanitize=${DS_SANITIZE})
  if(DS_SANITIZE MATCHES "undefined")
    target_compile_options(ds_flags INTERFACE -fno-sanitize-recover=undefined)
    # RapidJSON 1.1 adds to null pointers in its empty stack, which only clang's check calls an error.
    target_compile_options(ds_flags INTERFACE
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=pointer-overflow>)
  endif()
  if(DS_SANITIZE STREQUAL "thread")
    target_compile_definitions(ds_flags INTERFACE DS_HAS_TSAN)
  endif()
  # With sanitizers GCC 12 sees uninitialised values inside std::function and std::regex.
  target_compile_options(ds_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
else()
  target_compile_options(ds_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>)
  target_compile_definitions(ds_flags INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
  target_link_options(ds_flags INTERFACE -Wl,-z,relro,-z,now)
endif()
if(DS_FUZZ)
  # Everything is instrumented, not only the targets: the fuzzer steers by coverage of the parsers.
  target_compile_options(ds_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsanitize=fuzzer-no-link>)
endif()
