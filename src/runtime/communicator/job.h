// Work that goes on after the non-blocking call that began it has returned.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace sccl::runtime {

class Job {
 public:
  // `work` must not throw. Throws system_error when no thread can be started; `work` has not begun then.
  static std::shared_ptr<Job> start(std::function<void()> work);

  // Returns at once when called from within the work.
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
};

}  // namespace sccl::runtime
