// Functions of the vendor's library, which may never return, on a thread of their own: the caller decides how long it
// waits for one. A thread whose function does not return is left to itself.
#pragma once

#include <cstdint>
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

  using Task = std::uint64_t;  // numbered from 1
  static constexpr Task kNone = 0;

  // `task` must not throw, and must own what it uses. Tasks of several threads run one after the other: kNone where an
  // earlier one still runs at `idle_by`. Throws system_error where no thread can be started.
  [[nodiscard]] Task begin(std::function<void()> task, Deadline idle_by);
  // False if the task still runs then. A task that has ended is visible with all its stores.
  bool wait(Task task, Deadline deadline) const;
  bool has_ended(Task task) const;
  // Begins the task once no other one runs, then sets `number`, which is kNone before; true when the task has ended.
  bool run(Task& number, const std::function<void()>& task, Deadline deadline);
  // Whether any task runs.
  bool busy() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace sccl::runtime
