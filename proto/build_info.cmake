# Run at every build (cmake -P): writes build_info.cpp, touching it only when its content changes.
execute_process(COMMAND git -C ${source_dir} describe --always --dirty --abbrev=12 --match=NeVeR
                OUTPUT_VARIABLE git_id OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT git_id)
  set(git_id "unknown")
endif()
configure_file(${source_dir}/proto/build_info.cpp.in ${output} @ONLY)
