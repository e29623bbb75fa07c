#include "runtime/gpu/watch/periodic_thread.h"

#include <utility>

#include "base/os/thread.h"

namespace sccl::runtime {

void PeriodicThread::start(std::chrono::milliseconds pause, Turn turn) {
  thread_ = start_thread([this, pause, turn = std::move(turn)] { run(pause, turn); });
}

void PeriodicThread::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PeriodicThread::run(std::chrono::milliseconds pause, const Turn& turn) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return ending_; })) {
    lock.unlock();
    pause = turn();
    lock.lock();
  }
}

}  // namespace sccl::runtime
