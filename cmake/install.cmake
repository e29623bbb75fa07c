# lib/libsccl.so, lib/nccl/libnccl.so.2 (for search paths of programs that ask for NCCL's name), the header, the command,
# and a pkg-config file.
include(GNUInstallDirs)

install(TARGETS sccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(CODE "
  file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/nccl\")
  file(CREATE_LINK ../libsccl.so \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/nccl/libnccl.so.2\" SYMBOLIC)")
install(FILES ${PROJECT_SOURCE_DIR}/include/nccl_shim/nccl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sccl)
if(TARGET sccl_cli)
  install(TARGETS sccl_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/sccl.pc.in ${PROJECT_BINARY_DIR}/sccl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sccl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
