// A machine on which nothing was measured, and what is told on it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gpu/failures.h"

namespace gpu_test {

struct FreshMachine {
  std::filesystem::path folder;
  Setting cache, level, subsystems, file;

  explicit FreshMachine(const char* logged = "INIT,BOOTSTRAP,ENV")
      : folder(made()),
        cache("SCCL_CACHE_DIR", folder.c_str()),
        level("NCCL_DEBUG", "INFO"),
        subsystems("NCCL_DEBUG_SUBSYS", logged),
        file("NCCL_DEBUG_FILE", (folder / "log").c_str()) {}
  ~FreshMachine() {
    fake_cuda_set_engine_costs(10, 0.01);
    std::filesystem::remove_all(folder);
  }

  // How many lines say so.
  int told(const std::string& part) const {
    std::ifstream lines(folder / "log");
    int count = 0;
    for (std::string line; std::getline(lines, line);) count += contains(line, part) ? 1 : 0;
    return count;
  }
  std::vector<std::filesystem::path> kept(const char* extension) const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == extension) files.push_back(entry.path());
    return files;
  }

 private:
  static std::filesystem::path made() {
    std::string name = (std::filesystem::temp_directory_path() / "sccl-machine-XXXXXX").string();
    return ::mkdtemp(name.data());
  }
};

}  // namespace gpu_test
