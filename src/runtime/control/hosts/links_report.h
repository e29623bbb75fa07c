// Whether the agent has met every other host, told to the thread that waits for that during init.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime::hosts {

class LinksReport {
 public:
  // For the agent's thread alone.
  bool is_complete() const { return complete_; }
  // `missing`: which hosts were not met, and why; "": all were, from `own` addresses.
  void tell(std::string missing, std::vector<Address> own);

  // For any thread. await: "" when all were met, else what was told last. `check` is called meanwhile, and may throw.
  std::string await(Deadline deadline, const std::atomic<bool>& abort, const std::function<void()>& check);
  std::vector<Address> own_addresses();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool complete_ = false;  // written under the mutex
  std::string missing_{"its agent has looked for no host yet"};
  std::vector<Address> own_addresses_;
};

}  // namespace sccl::runtime::hosts
