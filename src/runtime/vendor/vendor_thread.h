// Functions of the vendor's library, which may never return, on a thread of their own: the caller decides how long it
// waits for one. A thread whose function does not return is left to itself.
#pragma once

#include <functional>
#include <memory>

#include "base/deadline.h"

namespace sccl::runtime {

class VendorThread {
 public:
  VendorThread();
  ~VendorThread();
  VendorThread(const VendorThread&) = delete;
  VendorThread& operator=(const VendorThread&) = delete;

  // `task` must not throw, and must own what it uses. Called when no task runs. Throws system_error where no thread
  // can be started.
  void begin(std::function<void()> task);
  // A task that has ended is visible with all its stores.
  bool busy() const;
  // False if the task still runs then.
  bool wait(Deadline deadline) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace sccl::runtime
