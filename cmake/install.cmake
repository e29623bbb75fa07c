# lib/libsccl.so, lib/nccl/libnccl.so.2 (for search paths of programs that ask for NCCL's name), the header, the command,
# and a pkg-config file.
include(GNUInstallDirs)

install(TARGETS sccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(CODE "
  file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/nccl\")
  file(CREATE_LINK ../libsccl.so \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/nccl/libnccl.so.2\" SYMBOLIC)")
install(FILES ${PROJECT_SOURCE_DIR}/include/nccl_shim/nccl.h ${PROJECT_SOURCE_DIR}/include/nccl_shim/nccl_device.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sccl)
if(TARGET sccl_cli)
  install(TARGETS sccl_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/sccl.pc.in ${PROJECT_BINARY_DIR}/sccl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sccl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# Schedules for well-known machines, found beside the library (synth::Cache::installed). The target sccl_catalogue makes
# them anew, for when the synthesizer has become better.
set(SCCL_CATALOGUE ${PROJECT_SOURCE_DIR}/data/catalogue.tar.xz)
if(EXISTS ${SCCL_CATALOGUE})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SCCL_CATALOGUE})
  file(REMOVE_RECURSE ${PROJECT_BINARY_DIR}/share/sccl/catalogue)
  file(ARCHIVE_EXTRACT INPUT ${SCCL_CATALOGUE} DESTINATION ${PROJECT_BINARY_DIR}/share/sccl)
endif()
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/sccl/catalogue DESTINATION ${CMAKE_INSTALL_DATADIR}/sccl OPTIONAL
  FILES_MATCHING PATTERN "*.frontier")
if(TARGET sccl_cli)
  add_custom_target(sccl_catalogue
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/catalogue.sh $<TARGET_FILE:sccl_cli> ${SCCL_CATALOGUE} 10
    DEPENDS sccl_cli USES_TERMINAL VERBATIM)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
