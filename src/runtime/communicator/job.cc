#include "runtime/communicator/job.h"

#include <utility>

#include "base/thread.h"

namespace sccl::runtime {
namespace {

thread_local Job* current = nullptr;

}  // namespace

std::shared_ptr<Job> Job::start(std::function<void()> work) {
  auto job = std::make_shared<Job>();
  // Detached: whoever needs its end waits for `done_`, and a process may exit before.
  start_thread([job, work = std::move(work)]() mutable {
    current = job.get();
    work();
    work = nullptr;  // what it kept alive goes before anybody is told that it is over
    const std::lock_guard lock(job->mutex_);
    job->done_ = true;
    job->ended_.notify_all();
  }).detach();
  return job;
}

void Job::wait() {
  if (current == this) return;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return done_; });
}

void BackgroundWork::set(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  job_ = std::move(job);
}

void BackgroundWork::settle() {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    job = job_;
  }
  if (job) job->wait();
}

}  // namespace sccl::runtime
