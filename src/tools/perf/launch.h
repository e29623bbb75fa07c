// Starts the ranks of `sccl perf` and hands their measurements to the report, row by row.
#pragma once

#include "tools/perf/plan.h"
#include "tools/perf/report.h"

namespace sccl::tools {

// False when a rank failed; why stands on stderr then. Ranks that are still running are ended.
bool measure_in_processes(const PerfOptions& options, PerfReport& report);

// The same with ranks as threads of this process.
bool measure_in_threads(const PerfOptions& options, PerfReport& report);

}  // namespace sccl::tools
