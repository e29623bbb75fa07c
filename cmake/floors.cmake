# One static library per folder of src/, so that the link line states which floors a folder stands on.

add_library(sccl_options INTERFACE)
target_include_directories(sccl_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(sccl_options INTERFACE -Wall -Wextra)
if(SCCL_WERROR)
  target_compile_options(sccl_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports overlapping copies inside std::string's own concatenation (its bug 105329).
  target_compile_options(sccl_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(SCCL_SANITIZE)
  target_compile_options(sccl_options INTERFACE -fsanitize=${SCCL_SANITIZE} -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers GCC 12 takes a moved-from std::function inside <regex> for uninitialised.
    target_compile_options(sccl_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(SCCL_SANITIZE MATCHES "undefined")
    # The check of virtual tables opens a pipe for every object it has not seen: tests of processes without descriptors
    # would test it.
    target_compile_options(sccl_options INTERFACE -fno-sanitize=vptr -fno-sanitize-recover=all)
  endif()
  target_link_options(sccl_options INTERFACE -fsanitize=${SCCL_SANITIZE})
endif()
if(SCCL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SCCL_FUZZ needs libFuzzer, which comes with Clang: use the preset fuzz")
  endif()
  target_compile_options(sccl_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
# Header-only spdlog, and fmt compiled by base/fmt_once.cc: the shared Debian builds would bring a second C++ runtime
# into the process.
target_compile_definitions(sccl_options INTERFACE SPDLOG_FMT_EXTERNAL=1)
target_link_libraries(sccl_options INTERFACE Threads::Threads)

function(sccl_floor name)
  cmake_parse_arguments(FLOOR "" "" "ON;SOURCES" ${ARGN})
  add_library(sccl_${name} STATIC ${FLOOR_SOURCES})
  target_link_libraries(sccl_${name} PUBLIC sccl_options ${FLOOR_ON})
endfunction()
