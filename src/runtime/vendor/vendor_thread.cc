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
  bool busy = false;           // a task waits or runs
  bool ends = false;

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
      busy = false;
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

void VendorThread::begin(std::function<void()> task) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->started) start_thread([shared = shared_] { shared->serve(); }).detach();
  shared_->started = true;
  shared_->task = std::move(task);
  shared_->busy = true;
  shared_->changed.notify_all();
}

bool VendorThread::busy() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->busy;
}

bool VendorThread::wait(Deadline deadline) const {
  // A clock without an end would overflow in wait_for.
  constexpr std::chrono::milliseconds kTurn{1000};
  std::unique_lock lock(shared_->mutex);
  while (shared_->busy && !deadline.passed())
    shared_->changed.wait_for(lock, std::chrono::milliseconds(deadline.remaining_ms(kTurn.count())));
  return !shared_->busy;
}

}  // namespace sccl::runtime
