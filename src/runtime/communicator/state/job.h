// Work that continues after the non-blocking call that began it has returned.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace sccl::runtime {

class Job : public std::enable_shared_from_this<Job> {
 public:
  // `work` must not throw. Throws system_error when no thread can be started; `work` has not begun then.
  static std::shared_ptr<Job> start(std::function<void()> work);

  // The same in two steps, so that waiting threads can know the job before it begins. A job that could not be started
  // counts as ended.
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

// The background work of one non-blocking communicator. begin() is called before the job begins; end() is the last
// action of the job. Thread-safe.
class BackgroundWork {
 public:
  void begin(std::shared_ptr<Job> job);
  // A caller that sees the end of the work also sees the work's stores; pairs with running().
  void end() { running_.store(false, std::memory_order_release); }
  bool running() const { return running_.load(std::memory_order_acquire); }
  // Returns when no work is left.
  void settle();

 private:
  std::atomic<bool> running_{false};
  std::mutex mutex_;
  std::shared_ptr<Job> job_;
};

}  // namespace sccl::runtime
