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

struct JobProcess {
  std::vector<std::string> program;
  Environment environment;
  std::string name;  // for messages: "rank 3"
  std::string tag;   // "3"
};

// How processes are bound to those that wait for them on another host: all that is known there is the connection.
enum class Leash {
  none,
  held,  // each process's standard input stays open as long as this process lives
  worn,  // the end of this process's standard input ends the job; the processes have none
};

// Starts the processes and waits. The first one that fails ends the others (SIGTERM, and SIGKILL five seconds later).
// The result is its status (128 + signal if a signal ended it), else 0. SIGINT, SIGTERM and SIGHUP are forwarded to the
// processes. Not thread-safe: changes the process's signal mask.
int run_job(const std::vector<JobProcess>& processes, Output output, Leash leash = Leash::none);

}  // namespace sccl::tools
