#include "runtime/vendor/vendor_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/os/thread.h"

namespace sccl::runtime {

struct VendorThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> task;  // the next one
  bool started = false;        // there is a thread
  Task begun = kNone;          // the last one that was given; it waits or runs until it is `ended`, too
  Task ended = kNone;
  bool ends = false;

  // False if that task still runs at the deadline.
  bool wait(std::unique_lock<std::mutex>& lock, Task number, Deadline deadline) {
    // A clock without an end would overflow in wait_for.
    constexpr std::chrono::milliseconds kTurn{1000};
    while (ended < number && !deadline.passed())
      changed.wait_for(lock, std::chrono::milliseconds(deadline.remaining_ms(kTurn.count())));
    return ended >= number;
  }

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return task || ends; });
      if (!task) return;
      std::function<void()> current = std::exchange(task, nullptr);
      lock.unlock();
      current();
      current = nullptr;  // what it owns ends before anybody learns of its end
      lock.lock();
      ended = begun;
      changed.notify_all();
    }
  }
};

VendorThread::VendorThread() : shared_(std::make_shared<Shared>()) {}

VendorThread::~VendorThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
}

VendorThread::Task VendorThread::begin(std::function<void()> task, Deadline idle_by) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->wait(lock, shared_->begun, idle_by)) return kNone;
  if (!shared_->started) start_thread([shared = shared_] { shared->serve(); }).detach();
  shared_->started = true;
  shared_->task = std::move(task);
  const Task number = ++shared_->begun;
  shared_->changed.notify_all();
  return number;
}

bool VendorThread::wait(Task task, Deadline deadline) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->wait(lock, task, deadline);
}

bool VendorThread::run(Task& number, const std::function<void()>& task, Deadline deadline) {
  if (number == kNone) number = begin(task, deadline);
  return number != kNone && wait(number, deadline);
}

bool VendorThread::has_ended(Task task) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->ended >= task;
}

bool VendorThread::busy() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->ended < shared_->begun;
}

}  // namespace sccl::runtime
