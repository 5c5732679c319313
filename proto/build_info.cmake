# Run at every build (cmake -P): writes build_info.cpp, touching it only when its content changes.
# A release archive that lies inside somebody else's repository has not that one's commit.
execute_process(COMMAND git -C ${source_dir} rev-parse --show-prefix
                OUTPUT_VARIABLE place RESULT_VARIABLE outside OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(git_id "unknown")
if(outside EQUAL 0 AND place STREQUAL "")
  execute_process(COMMAND git -C ${source_dir} describe --always --dirty --abbrev=12 --match=NeVeR
                  OUTPUT_VARIABLE described RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed EQUAL 0)
    set(git_id "${described}")
  endif()
endif()
configure_file(${source_dir}/proto/build_info.cpp.in ${output} @ONLY)
