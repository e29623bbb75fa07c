#include "tools/tuning_trace.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace sccl::tools {
namespace {

constexpr std::size_t kFields = 6;  // collective, size class, call, schedule, slice, microseconds
constexpr int kBarWidth = 40;

std::array<std::string, kFields> fields_of(const std::string& line) {
  std::array<std::string, kFields> fields;
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
  std::string group;
  double longest = 0;
  for (std::string line; std::getline(file, line);) {
    const auto fields = fields_of(line);
    const double us = std::atof(fields[5].c_str());
    if (fields[0] + fields[1] != group) {
      group = fields[0] + fields[1];
      longest = us;
      std::fprintf(to, "# tuning %s of %s\n# %8s %-24s %10s %12s\n", fields[0].c_str(), fields[1].c_str(), "call", "schedule",
                   "slice", "us");
    }
    const auto bar = static_cast<std::size_t>(std::min(1.0, longest > 0 ? us / longest : 0) * kBarWidth);
    std::fprintf(to, "  %8s %-24s %10s %12.2f %s\n", fields[2].c_str(), fields[3].c_str(),
                 fields[4] == "0" ? "-" : fields[4].c_str(), us, std::string(bar, '*').c_str());
  }
  if (group.empty()) std::fprintf(to, "# no call was timed: everything was measured before (SCCL_CACHE_DIR), or nothing differs\n");
}

}  // namespace sccl::tools
