# What `cmake --install` puts where, and the packages that cpack makes of it: a deb, which names the libraries
# that it needs, and an archive that runs wherever it is unpacked, because it brings them along.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# rankd is no command: dslaunch starts it, and looks beside itself (a build) and here (an installation), seen
# from its own place, so that all may be moved together.
set(command_dir bin)
set(engine_dir libexec/dslaunch)
set(bundle_dir lib/dslaunch)
set(config_dir ${CMAKE_INSTALL_DATADIR}/cmake/dslaunch)
file(RELATIVE_PATH up_from_bin /${command_dir} /${bundle_dir})
file(RELATIVE_PATH up_from_engine /${engine_dir} /${bundle_dir})
set_target_properties(dslaunch PROPERTIES INSTALL_RPATH "$ORIGIN/${up_from_bin}")
set_target_properties(rankd PROPERTIES INSTALL_RPATH "$ORIGIN/${up_from_engine}")
# The libraries in an archive find each other by the same path, which RUNPATH would not do.
target_link_options(dslaunch PRIVATE -Wl,--disable-new-dtags)
target_link_options(rankd PRIVATE -Wl,--disable-new-dtags)

install(TARGETS dslaunch RUNTIME DESTINATION ${command_dir} COMPONENT dslaunch)
install(TARGETS rankd RUNTIME DESTINATION ${engine_dir} COMPONENT dslaunch)
install(FILES README.md hostfile.example DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dslaunch)
install(DIRECTORY docs examples deploy DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dslaunch)

# Completion and manual pages: the program makes them from its own table of verbs.
set(made_dir ${PROJECT_BINARY_DIR}/made_by_dslaunch)
find_program(GZIP gzip REQUIRED)
add_custom_command(OUTPUT ${made_dir}/complete
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${made_dir}
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${made_dir}
                   COMMAND sh -c "$<TARGET_FILE:dslaunch> completion bash > ${made_dir}/dslaunch"
                   COMMAND sh -c "$<TARGET_FILE:dslaunch> completion zsh > ${made_dir}/_dslaunch"
                   COMMAND sh -c "$<TARGET_FILE:dslaunch> completion fish > ${made_dir}/dslaunch.fish"
                   COMMAND sh -c "$<TARGET_FILE:dslaunch> man --output ${made_dir}/man1 > ${made_dir}/pages"
                   COMMAND sh -c "${GZIP} -9n ${made_dir}/man1/*.1"
                   COMMAND ${CMAKE_COMMAND} -E touch ${made_dir}/complete
                   DEPENDS dslaunch VERBATIM)
add_custom_target(ds_made_by_dslaunch ALL DEPENDS ${made_dir}/complete)
install(FILES ${made_dir}/dslaunch DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        COMPONENT dslaunch)
# Debian's zsh looks here for what packages bring, and into site-functions for everybody else's.
install(CODE "set(folder site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
  set(folder vendor-completions)
endif()
file(INSTALL \"${made_dir}/_dslaunch\"
     DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${folder}\")"
        COMPONENT dslaunch)
install(FILES ${made_dir}/dslaunch.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        COMPONENT dslaunch)
install(DIRECTORY ${made_dir}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT dslaunch)

# For projects that start dslaunch from their own build or tests. There is no library to link with.
configure_package_config_file(cmake/dslaunchConfig.cmake.in ${PROJECT_BINARY_DIR}/dslaunchConfig.cmake
  INSTALL_DESTINATION ${config_dir} PATH_VARS command_dir engine_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dslaunchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dslaunchConfig.cmake ${PROJECT_BINARY_DIR}/dslaunchConfigVersion.cmake
        DESTINATION ${config_dir} COMPONENT dslaunch)

# What Debian asks of a package's folder of documents, in every installation.
string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)
string(TIMESTAMP year "%Y" UTC)
set(maintainer "dslaunch maintainers <maintainers@dslaunch.example>")
configure_file(cmake/copyright.in ${PROJECT_BINARY_DIR}/copyright @ONLY)
configure_file(cmake/changelog.in ${PROJECT_BINARY_DIR}/changelog @ONLY)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/changelog.gz
                   COMMAND ${GZIP} -9nkf ${PROJECT_BINARY_DIR}/changelog
                   DEPENDS ${PROJECT_BINARY_DIR}/changelog VERBATIM)
add_custom_target(ds_changelog ALL DEPENDS ${PROJECT_BINARY_DIR}/changelog.gz)
install(FILES ${PROJECT_BINARY_DIR}/copyright ${PROJECT_BINARY_DIR}/changelog.gz LICENSE
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dslaunch)
# What is linked in, or compiled in from headers, has notices that travel with the programs.
foreach(package libgrpc-dev libabsl-dev libprotobuf-dev libre2-dev libhwy-dev rapidjson-dev libcli11-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/notices
          RENAME ${package}.copyright COMPONENT dslaunch OPTIONAL)
endforeach()

# The archive alone takes this one along.
install(CODE "set(bundle_dir \"${bundle_dir}\")
set(programs \"${command_dir}/dslaunch;${engine_dir}/rankd\")
set(notices_dir \"${CMAKE_INSTALL_DOCDIR}/notices\")
include(\"${PROJECT_SOURCE_DIR}/cmake/bundle_libraries.cmake\")" COMPONENT bundle EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME dslaunch)
set(CPACK_PACKAGE_VENDOR dslaunch)
set(CPACK_PACKAGE_CONTACT "${maintainer}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains neural networks from one DeepSpeed JSON file")
set(CPACK_PACKAGE_DESCRIPTION "A native program that trains large language models on many devices from
one DeepSpeed JSON file: ZeRO stages 0 to 3, restarts, exact resume, and
checkpoints that any number of ranks can load. It needs no Python and no
compiler.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME dslaunch-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openssh-client, openmpi-bin, slurm-client")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_contents.cmake)
include(CPack)
