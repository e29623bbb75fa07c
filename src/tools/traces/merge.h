// Merges the traces of a job's processes (SCCL_TRACE), and overlays one of its calls with a simulated timeline (sccl
// simulate --trace).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sccl::tools {

struct TraceText {
  std::string name;  // name of the file, for messages
  std::string text;
};

struct MergedTrace {
  std::string text;
  std::size_t slices = 0;
  std::size_t processes = 0;
  std::vector<std::string> notes;  // what was skipped, one line each
};

struct OverlaidCall {
  std::uint64_t number = 0;
  std::string communicator;  // "": any communicator
};

// Processes of all files get new, distinct numbers. Times of one host (identified by its boot) stay unchanged. Times of
// other hosts are converted to the first host's by the hosts' clocks of the day, which are only as exact as the hosts
// keep them. All times begin at 0. A line that is no event, such as the last line of a killed process, is skipped and
// noted; a file without any event is an error. `foreseen` begins when the first rank enters `call`. Throws
// invalid_argument, naming the file.
MergedTrace merge_traces(const std::vector<TraceText>& measured, const std::optional<TraceText>& foreseen,
                         const OverlaidCall& call);

}  // namespace sccl::tools
