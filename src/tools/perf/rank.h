// One rank of `sccl perf`: makes the calls through the public API, times them, checks every element.
#pragma once

#include <functional>

#include "nccl_shim/nccl.h"
#include "tools/perf/plan.h"

namespace sccl::tools {

// Calls `report` once for each row. Throws std::runtime_error with the library's text when a call fails.
void measure_rank(const PerfOptions& options, int rank, const ncclUniqueId& id,
                  const std::function<void(const Measurement&)>& report);

}  // namespace sccl::tools
