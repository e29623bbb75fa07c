# Ways to bring the library to other machines: a CMake package in the prefix, a Debian package (cpack), and the component
# `wheel`, which holds what a Python wheel unpacks to (pyproject.toml) and is installed only when asked for by name.
include(CMakePackageConfigHelpers)

file(RELATIVE_PATH SCCL_INCLUDE_FROM_PACKAGE ${CMAKE_INSTALL_FULL_LIBDIR}/cmake/sccl ${CMAKE_INSTALL_FULL_INCLUDEDIR}/sccl)
configure_file(${PROJECT_SOURCE_DIR}/cmake/scclConfig.cmake.in ${PROJECT_BINARY_DIR}/scclConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/scclConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/scclConfig.cmake ${PROJECT_BINARY_DIR}/scclConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sccl)

# The Python package with the sources of its PyTorch part.
function(install_python_package destination)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/sccl/ DESTINATION ${destination} ${ARGN}
    FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/csrc DESTINATION ${destination} ${ARGN}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.cc")
  install(FILES ${PROJECT_SOURCE_DIR}/include/nccl_shim/nccl.h DESTINATION ${destination}/csrc/include/nccl_shim ${ARGN})
endfunction()
install_python_package(lib/python3/dist-packages/sccl)

# A wheel holds no symbolic links, so the library lies there under both of its names; and the libraries that only the
# command needs lie beside it, since the machine may not have them.
set(wheel COMPONENT wheel EXCLUDE_FROM_ALL)
install_python_package(. ${wheel})
install(FILES $<TARGET_FILE:sccl> DESTINATION lib ${wheel})
install(FILES $<TARGET_FILE:sccl> DESTINATION lib/nccl RENAME libnccl.so.2 ${wheel})
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/sccl/catalogue DESTINATION share/sccl OPTIONAL ${wheel}
  FILES_MATCHING PATTERN "*.frontier")
if(TARGET sccl_cli)
  set_property(TARGET sccl_cli APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../lib/nccl" "$ORIGIN/../lib/bundled")
  install(TARGETS sccl_cli RUNTIME DESTINATION bin ${wheel})
  foreach(bundled ${Z3_LIBRARY} ${SVM_LIBRARY})
    get_filename_component(real ${bundled} REALPATH)
    execute_process(COMMAND readelf -d ${real} OUTPUT_VARIABLE dynamic ERROR_QUIET)
    if(dynamic MATCHES "soname: .([A-Za-z0-9_.+-]+)")
      install(FILES ${real} DESTINATION lib/bundled RENAME ${CMAKE_MATCH_1} ${wheel})
    endif()
  endforeach()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libsccl)
set(CPACK_PACKAGE_CONTACT "the developers of libsccl")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Collective communication with NCCL's API, for hosts with and without GPUs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src/shim)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch, libtorch-dev, pybind11-dev, python3-dev, g++")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEB_COMPONENT_INSTALL OFF)
include(CPack)
