#include "tools/perf/tuning_trace.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace sccl::tools {
namespace {

constexpr std::size_t kFields = 6;  // collective, size class, call, schedule, slice, microseconds
constexpr int kBarWidth = 40;

using Fields = std::array<std::string, kFields>;

Fields fields_of(const std::string& line) {
  Fields fields;
  std::stringstream text(line);
  for (std::string& field : fields) std::getline(text, field, ',');
  return fields;
}

}  // namespace

TuningTrace::TuningTrace() {
  path_ = std::filesystem::temp_directory_path() / "sccl-trace-XXXXXX";
  const int file = ::mkstemp(path_.data());
  if (file < 0) throw std::runtime_error("no temporary file can be made for --trace-tuning: free some space");
  ::close(file);
  ::setenv("SCCL_TUNE", "online", 1);
  ::setenv("SCCL_TUNE_TRACE", path_.c_str(), 1);
}

TuningTrace::~TuningTrace() { ::unlink(path_.c_str()); }

void TuningTrace::print(std::FILE* to) const {
  std::ifstream file(path_);
  std::map<std::string, std::vector<Fields>> groups;
  for (std::string line; std::getline(file, line);) {
    const Fields fields = fields_of(line);
    groups[fields[0] + " of " + fields[1]].push_back(fields);
  }
  for (const auto& [name, course] : groups) {
    std::fprintf(to, "# tuning %s\n# %8s %-24s %10s %12s\n", name.c_str(), "call", "schedule", "slice", "us");
    const double longest = std::atof(course.front()[5].c_str());
    for (const Fields& fields : course) {
      const double us = std::atof(fields[5].c_str());
      const auto bar = static_cast<std::size_t>(std::min(1.0, longest > 0 ? us / longest : 0) * kBarWidth);
      std::fprintf(to, "  %8s %-24s %10s %12.2f %s\n", fields[2].c_str(), fields[3].c_str(),
                   fields[4] == "0" ? "-" : fields[4].c_str(), us, std::string(bar, '*').c_str());
    }
  }
  if (groups.empty())
    std::fprintf(to, "# no call was timed: everything was measured before (SCCL_CACHE_DIR), or nothing differs\n");
}

}  // namespace sccl::tools
