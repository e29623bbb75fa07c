// Decides which thread drives the engine between hosts. While the rank's thread is in a call and awake, the rank's
// thread drives it. While the rank's thread sleeps in a call, and between calls, a thread of the communicator drives
// it, so that the last messages of a call reach the peers while the program computes.
//
//   rank's thread:   enter ...... sleep | wake ...... leave | compute
//   this thread:     (looks now and then)  drives  |  (looks)  drives
//
// Only one of the two threads has the engine at a time. The rank's thread takes the engine by a lock and a word. Both
// are cheap when calls follow one another, because the progress thread takes over only after no call has begun for a
// moment, or when it is told to.
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
    moved,   // a message was sent or received
    waits,   // a message is under way
    settled  // no message is under way
  };
  struct Work {
    std::function<Pass()> pass;       // called with the engine
    std::function<bool()> may_sleep;  // called with the engine; true: the descriptor tells when work arrives
    std::function<void()> wake;       // wakes the rank's thread, which may sleep in a call
    int descriptor = -1;              // of the engine; -1: the engine has none
    // Set where messages are published by stores that wake nobody. True: some may come at any time.
    std::function<bool()> busy{};
    std::function<void()> begin{};  // called first, in the thread
  };
  explicit ProgressThread(Work work);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // For the rank's thread. It has the engine from enter() to leave(), except between sleep() and wake().
  void enter();
  enum class Left : std::uint8_t { nothing, work };
  void leave(Left left);
  void sleep();
  void wake();

  // For any thread that is in no call: has the engine as long as the lock lives.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(engine_); }

  // For any thread: ends a nap.
  void kick();

 private:
  void run();
  void nap(int milliseconds, bool with_engine);

  Work work_;
  FileDescriptor kicks_;
  std::mutex engine_;
  std::atomic<bool> taken_{false};         // the rank's thread has the engine, or is about to take it
  std::atomic<std::uint64_t> entries_{0};  // calls of enter()
  std::atomic<bool> urgent_{false};        // the progress thread shall take over at once
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace sccl::runtime
