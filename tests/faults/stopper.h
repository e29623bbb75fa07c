// Ways to stop a process that goes on later: a signal, a debugger, a freezer of control groups.
#pragma once

#include <sys/types.h>

#include <memory>

namespace faults_test {

enum class Stop { signal, debugger, freezer };

const char* name(Stop how);

// Of another process. Made and destroyed by one thread.
class Stopped {
 public:
  virtual ~Stopped() = default;  // the process goes on
};

// Returns when no thread of the process runs; null where the machine does not permit it.
std::unique_ptr<Stopped> stop(Stop how, pid_t process);

// By trying it on a child of its own.
bool can_stop(Stop how);

}  // namespace faults_test
