// The traces of a job's processes (SCCL_TRACE) as one, and a foreseen timeline (sccl simulate --trace) laid over one of
// its calls.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sccl::tools {

struct TraceText {
  std::string name;  // of its file, for messages
  std::string text;
};

struct MergedTrace {
  std::string text;
  std::size_t slices = 0;
  std::size_t processes = 0;
  std::vector<std::string> notes;  // what was passed over, one line each
};

struct OverlaidCall {
  std::uint64_t number = 0;
  std::string communicator;  // "": of any
};

// Processes of all files get numbers of their own. Times of one host (by its boot) stay as they are; those of other
// hosts are brought to the first one's by the hosts' clocks of the day, which are as right as the hosts keep them.
// Everything begins at 0. A line that is no event, such as the last one of a process that was killed, is passed over
// and noted; a file without any event is an error. `foreseen` begins where the first rank enters `call`.
// Throws invalid_argument, naming the file.
MergedTrace merge_traces(const std::vector<TraceText>& measured, const std::optional<TraceText>& foreseen,
                         const OverlaidCall& call);

}  // namespace sccl::tools
