// What the ranks of a job log, in a folder that is gone with this object.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "job.h"

namespace hosts_test {

class Logs {
 public:
  Logs() : folder_(std::filesystem::temp_directory_path() / ("sccl_hosts_log_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~Logs() { std::filesystem::remove_all(folder_); }
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;

  Environment environment() const {
    return {{"NCCL_DEBUG", "INFO"},
            {"NCCL_DEBUG_SUBSYS", "INIT,TUNING"},
            {"NCCL_DEBUG_FILE", (folder_ / "rank.%p").string()}};
  }
  std::string folder() const { return folder_.string(); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }
  // Of all ranks.
  std::string text() const {
    std::string all;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream file(entry.path());
      all.append(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  int count(const std::string& wanted) const {
    const std::string all = text();
    int found = 0;
    for (std::size_t at = all.find(wanted); at != std::string::npos; at = all.find(wanted, at + 1)) ++found;
    return found;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace hosts_test
