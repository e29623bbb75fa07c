// Work that goes on after the non-blocking call that began it has returned.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace sccl::runtime {

class Job : public std::enable_shared_from_this<Job> {
 public:
  // `work` must not throw. Throws system_error when no thread can be started; `work` has not begun then.
  static std::shared_ptr<Job> start(std::function<void()> work);

  // The same in two steps, so that whoever may wait for the job knows it before it begins. A job that could not be
  // started has ended.
  static std::shared_ptr<Job> prepare() { return std::make_shared<Job>(); }
  void begin(std::function<void()> work);

  // Returns at once when called from within the work.
  void wait();

 private:
  void end();

  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
};

}  // namespace sccl::runtime
