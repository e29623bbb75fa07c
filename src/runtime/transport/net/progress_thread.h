// Who drives the engine between hosts. A rank's own thread does while it is in a call and awake; a thread of the
// communicator does while that one sleeps in a call, and between calls, so that what a call left behind reaches the
// peers while the program computes.
//
//   rank's thread:   enter ...... sleep | wake ...... leave | compute
//   this thread:     (looks now and then)  drives  |  (looks)  drives
//
// One of the two has the engine at a time. The rank's thread takes it by a lock and a word, both of which cost little
// where calls follow one another: this thread takes over only after it saw no call begin for a moment, or when told.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "base/fd.h"

namespace sccl::runtime {

class ProgressThread {
 public:
  enum class Pass : std::uint8_t {
    moved,   // something did
    waits,   // something is under way
    settled  // nothing is
  };
  struct Work {
    std::function<Pass()> pass;       // with the engine
    std::function<bool()> may_sleep;  // with the engine: the descriptor will tell
    std::function<void()> wake;       // the rank's thread, which may sleep in a call
    int descriptor = -1;              // -1: the engine has none
  };
  explicit ProgressThread(Work work);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Of the rank's thread. It has the engine from enter() to leave(), but for the time between sleep() and wake().
  void enter();
  enum class Left : std::uint8_t { nothing, work };
  void leave(Left left);
  void sleep();
  void wake();

 private:
  void run();
  void nap(int milliseconds, bool with_engine);
  void kick();

  Work work_;
  FileDescriptor kicks_;
  std::mutex engine_;
  std::atomic<bool> taken_{false};         // by the rank's thread, or about to be
  std::atomic<std::uint64_t> entries_{0};  // calls of enter()
  std::atomic<bool> urgent_{false};        // not to wait until calls have ceased
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace sccl::runtime
