// A unique id whose root serves in a process of its own, so that the process that forks the ranks runs no thread: an
// allocator that a thread had locked at the fork stays locked in the child (glibc's takes care of that,
// AddressSanitizer's does not). It also lets any rank be killed without taking the root along.
#pragma once

#include <sys/types.h>

#include <string>

#include "nccl_shim/nccl.h"

namespace sccl_test {

class IdProcess {
 public:
  IdProcess();
  ~IdProcess();
  IdProcess(const IdProcess&) = delete;
  IdProcess& operator=(const IdProcess&) = delete;

  const ncclUniqueId& id() const { return id_; }
  // Empty when the id was made.
  const std::string& problem() const { return problem_; }

 private:
  ncclUniqueId id_{};
  std::string problem_;
  pid_t process_ = -1;
};

}  // namespace sccl_test
