// The calls of a group run one after another, in the order in which they were made. A call whose caller waits for it
// runs in the caller's thread when nothing is before it; others run in the queue's thread, which starts with the first
// of them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace sccl_torch {

class Queue {
 public:
  struct Job {
    std::function<void()> run;  // does not throw
  };

  Queue() = default;
  ~Queue();  // runs what is queued; whoever wants it short has stopped the communicator before
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Claims the queue for the calling thread if nothing runs or waits. Then leave() must follow.
  bool try_enter();
  void leave();

  void push(std::shared_ptr<Job> job);

  // Runs the job here and now if it is the next and nothing runs. False: it runs elsewhere, or has run.
  bool run_if_next(const std::shared_ptr<Job>& job);

  // Whether the calling thread runs a job of this queue just now. What a job's end sets off, as a callback of its
  // future, may make the next call and wait for it: that call runs at once, since the thread would wait for itself. It
  // comes before all that is queued, at every rank alike.
  bool runs_here() const { return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  // Whether the calling thread is the queue's own.
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

  // Whether nothing runs or waits within `patience`.
  bool wait_idle(std::chrono::milliseconds patience);

 private:
  void run();
  void run_job(Job& job);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool busy_ = false;
  bool ending_ = false;
  bool started_ = false;
  // Who runs a job. Relaxed: only the thread itself asks whether it is the one, and it wrote that, or somebody else's
  // name.
  std::atomic<std::thread::id> runner_{};
  std::thread thread_;
};

}  // namespace sccl_torch
