// Who came last, by the traces of a job's processes (SCCL_TRACE): every call of every communicator, where the library
// itself looks at some (runtime/control/arrivals.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/call/arrival_pattern.h"

namespace sccl::tools {

struct TracedArrivals {
  std::string communicator;
  int ranks = 0;
  std::size_t incomplete = 0;                  // calls that not all ranks' traces hold
  std::vector<std::vector<double>> delays_us;  // of each complete call, by rank, after the first to come
  std::vector<runtime::LastArrivals> last;     // by rank
  std::map<int, std::string> processes;        // by rank: "n2, process 17"
  std::string text() const;                    // the rank that is named, or that none is
};

// From a merged trace (merge.h), whose times are of one clock.
std::vector<TracedArrivals> traced_arrivals(const nlohmann::json& events);

}  // namespace sccl::tools
