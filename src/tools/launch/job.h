// Processes that start, run and end together.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sccl::tools {

using Environment = std::vector<std::pair<std::string, std::string>>;

enum class Output {
  inherited,
  tagged,  // each line of a process begins with "[index] "
};

// Starts `program` once for each environment and waits. The first process that fails ends the others (SIGTERM, and
// SIGKILL five seconds later). The result is its status (128 + signal if a signal ended it), else 0. SIGINT, SIGTERM
// and SIGHUP are forwarded to the processes. Not thread-safe: changes the process's signal mask.
int run_job(const std::vector<std::string>& program, const std::vector<Environment>& environments, Output output);

}  // namespace sccl::tools
