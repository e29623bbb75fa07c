#include "queue.h"

#include <pthread.h>

namespace sccl_torch {

Queue::~Queue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool Queue::try_enter() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (busy_ || !jobs_.empty()) return false;
  busy_ = true;
  return true;
}

void Queue::leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  busy_ = false;
  if (started_) changed_.notify_all();
}

void Queue::push(std::shared_ptr<Job> job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!started_) {
    started_ = true;
    thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

bool Queue::run_if_next(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (busy_ || jobs_.empty() || jobs_.front() != job) return false;
    jobs_.pop_front();
    busy_ = true;
  }
  run_job(*job);
  leave();
  return true;
}

void Queue::run_job(Job& job) {
  runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  job.run();
  runner_.store(std::thread::id(), std::memory_order_relaxed);
}

bool Queue::wait_idle(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return !busy_ && jobs_.empty(); });
}

void Queue::run() {
  ::pthread_setname_np(::pthread_self(), "sccl-calls");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !busy_ && (!jobs_.empty() || ending_); });
    if (jobs_.empty()) return;
    std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    run_job(*job);
    job.reset();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace sccl_torch
