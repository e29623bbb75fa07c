// What a test of plugins needs: variables that are gone afterwards, the plugin's log, the library's log.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/settings/log.h"
#include "occurrences.h"

namespace plugin_test {

class Surroundings {
 public:
  explicit Surroundings(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    std::string pattern = std::filesystem::temp_directory_path() / "sccl-plugins-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    variables_["SCCL_CACHE_DIR"] = folder_;
    variables_["TEST_PLUGIN_LOG"] = folder_ / "plugin";
    variables_["NCCL_DEBUG_FILE"] = folder_ / "log";
    variables_.try_emplace("NCCL_DEBUG", "INFO");
    variables_.try_emplace("NCCL_DEBUG_SUBSYS", "INIT,TUNING");
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
    sccl::log::reset();
  }
  ~Surroundings() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
    sccl::log::reset();
    std::filesystem::remove_all(folder_);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  std::string plugin_log() const { return read(folder_ / "plugin"); }
  std::string log() const { return read(folder_ / "log"); }

  static int count(const std::string& text, const std::string& part) { return sccl_test::occurrences(text, part); }

 private:
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::map<std::string, std::string> variables_;
  std::filesystem::path folder_;
};

}  // namespace plugin_test
