# Run at installation: copies the shared libraries of the installed `programs` into `bundle_dir`, with the
# notices of their packages. The C library stays the system's own, with its loader and name services; so an
# archive runs where that is at least as new as here. Libraries of drivers have to match the kernel's half.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
list(TRANSFORM programs PREPEND "${root}/")
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|pthread|rt|resolv|util|anl)\\.so\\."
                      "^lib(cuda|nvidia-ml|cufile)\\.so\\.")
if(missing)
  message(FATAL_ERROR "packing the libraries of dslaunch: not found: ${missing}")
endif()
foreach(library ${libraries})
  file(REAL_PATH "${library}" file)
  get_filename_component(name "${library}" NAME)
  file(INSTALL "${file}" DESTINATION "${root}/${bundle_dir}" RENAME "${name}")
  file(RPATH_REMOVE FILE "${root}/${bundle_dir}/${name}")  # one of its own would hide that of the programs
  # dpkg knows files by the place where they were unpacked, which is /lib for some of /usr/lib.
  string(REGEX REPLACE "^/usr/lib/" "/lib/" old_place "${file}")
  foreach(place "${file}" "${old_place}")
    execute_process(COMMAND dpkg-query -S "${place}" OUTPUT_VARIABLE owner RESULT_VARIABLE unknown ERROR_QUIET)
    if(unknown EQUAL 0)
      string(REGEX REPLACE ":.*" "" package "${owner}")
      file(INSTALL "/usr/share/doc/${package}/copyright" DESTINATION "${root}/${notices_dir}"
           RENAME "${package}.copyright" FOLLOW_SYMLINK_CHAIN)
      break()
    endif()
  endforeach()
  if(NOT unknown EQUAL 0)
    message(WARNING "packing ${file}: no package has it; add its licence to the archive by hand")
  endif()
endforeach()
