// Starts the ranks of `sccl perf` and passes their measurements to the report, row by row.
#pragma once

#include "tools/perf/plan.h"
#include "tools/perf/report.h"

namespace sccl::tools {

// False when a rank failed; stderr then has the reason. The other ranks are ended.
bool measure_in_processes(const PerfOptions& options, PerfReport& report);

// As above, with ranks as threads of this process.
bool measure_in_threads(const PerfOptions& options, PerfReport& report);

}  // namespace sccl::tools
