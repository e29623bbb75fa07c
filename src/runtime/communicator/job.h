// Work that goes on after the non-blocking call that began it has returned.
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

// The work of one non-blocking communicator that goes on. begin() comes before the job begins and end() last of all it
// does. For any thread.
class BackgroundWork {
 public:
  void begin(std::shared_ptr<Job> job);
  // What the work wrote is visible to a caller that sees its end; pairs with running().
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
