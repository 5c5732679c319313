# Read by cpack once for each kind of package: what goes into it.
set(components dslaunch)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
else()
  list(APPEND components bundle)  # an archive has nobody to install its libraries
endif()
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build_dir)
set(CPACK_INSTALL_CMAKE_PROJECTS)
foreach(component ${components})
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${build_dir};dslaunch;${component};/")
endforeach()
