// What a world of ranks logs.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "gpu/device_world.h"

namespace gpu_test {

// What the ranks log while `run` runs; all of them, since each process writes a file of its own.
inline std::string log_of(const char* subsystems, const std::function<void()>& run) {
  char folder[] = "/tmp/sccl-log-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return "no folder";
  const std::string command = std::string("cat ") + folder + "/* 2>/dev/null; rm -r " + folder;
  {
    const Setting level("NCCL_DEBUG", "INFO");
    const Setting parts("NCCL_DEBUG_SUBSYS", subsystems);
    const Setting file("NCCL_DEBUG_FILE", (std::string(folder) + "/log.%p").c_str());
    run();
  }
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text.push_back(static_cast<char>(c));
  if (pipe != nullptr) ::pclose(pipe);
  return text;
}

// The library reads how to log once in a process: only where no test ran before in this one can the text be read.
inline constexpr const char* kNotFirst = "another test ran before in this process: run this one alone";
inline bool logs_can_be_read() { return fake_cuda_kernels() == 0; }

inline std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace gpu_test
