// A thread that takes a turn at its work again and again, with pauses.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sccl::runtime {

// Declare it behind every member that a turn uses: members are destroyed from the last to the first, so the thread ends
// before those members are destroyed. Start the thread when all those members have been made.
class PeriodicThread {
 public:
  // One turn; returns the pause before the next one. Must not throw.
  using Turn = std::function<std::chrono::milliseconds()>;

  PeriodicThread() = default;
  ~PeriodicThread() { end(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // The first turn comes after `pause`. Call it once per object. Throws system_error if no thread can be started.
  void start(std::chrono::milliseconds pause, Turn turn);
  // Returns when the turn in progress is over; no turn follows. May be called again, but never by a turn itself.
  void end() noexcept;

 private:
  void run(std::chrono::milliseconds pause, const Turn& turn);

  std::mutex mutex_;  // guards ending_
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sccl::runtime
